package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/awaken-agents/awaken-host/batch"
)

// code makes machine code of plugins ahead, once for all sandboxes, in a folder that
// is mounted read-only into them. What compiles is the Hand's own program, so that a
// Hand finds exactly what it would have made itself; another build of it has another
// folder. Whatever goes wrong costs time only: the Hand compiles for itself then.
type code struct {
	hand   string
	log    *slog.Logger
	folder func() string // empty: none

	one  sync.Mutex // held by the one that compiles
	mu   sync.Mutex
	made map[string]chan struct{} // by ABI and module; closed when it is there, or failed
}

// codeTimeout bounds the compilation of one module.
const codeTimeout = 2 * time.Minute

var codeFolder = regexp.MustCompile(`^[0-9a-f]{32}$`)

func (c *code) init(o *Options) {
	c.hand, c.log, c.made = o.Hand, o.Logger, map[string]chan struct{}{}
	c.folder = sync.OnceValue(func() string {
		if o.CodeDir == "" || o.Hand == "" {
			return ""
		}
		dir, err := openCode(o.CodeDir, o.Hand)
		if err != nil {
			c.log.Warn("machine code of plugins cannot be kept for sandboxes, each of which compiles it", "folder", o.CodeDir, "error", err)
			return ""
		}
		return dir
	})
}

// openCode is the folder below top for this build of the Hand. Those of other builds
// are removed.
func openCode(top, hand string) (string, error) {
	if err := os.MkdirAll(top, 0o700); err != nil {
		return "", err
	}
	// What a tier mounts has no symbolic link in it.
	top, err := filepath.EvalSymlinks(top)
	if err != nil {
		return "", err
	}
	f, err := os.Open(hand)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	name := hex.EncodeToString(sum.Sum(nil)[:16])
	entries, err := os.ReadDir(top)
	if err != nil {
		return "", err
	}
	for _, d := range entries {
		if d.Name() != name && codeFolder.MatchString(d.Name()) {
			if err := RemoveTree(filepath.Join(top, d.Name())); err != nil {
				return "", err
			}
		}
	}
	dir := filepath.Join(top, name)
	// Whoever the Hand runs as reads it; the folder above keeps everybody else out.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) //nolint:gosec // the folder above keeps others out
}

func codeKey(img *image) string {
	return string(img.Manifest.Module.ABI) + " " + img.Manifest.Module.SHA256
}

// begin has the code of a plugin made in the background, if nobody has yet.
func (c *code) begin(m *Manager, img *image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made[codeKey(img)] != nil {
		return
	}
	done := make(chan struct{})
	c.made[codeKey(img)] = done
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		close(done)
		return
	}
	m.work.Go(func() {
		defer close(done)
		c.one.Lock()
		defer c.one.Unlock()
		if err := c.compile(m.base, img); err != nil && m.base.Err() == nil {
			c.log.Warn("a module could not be compiled ahead of its sandboxes, each of which compiles it", "plugin", img.Manifest.ID, "error", err)
		}
	})
}

// wait returns when begin's work for a plugin has ended, however it did.
func (c *code) wait(ctx context.Context, img *image) error {
	c.mu.Lock()
	done := c.made[codeKey(img)]
	c.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("its module was still being compiled: %w", context.Cause(ctx))
	}
}

func (c *code) compile(ctx context.Context, img *image) error {
	dir := c.folder()
	if dir == "" || ctx.Err() != nil {
		return ctx.Err()
	}
	in, err := json.Marshal(PluginCode{Manifest: img.Manifest, Effective: img.Effective, Module: img.module})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, codeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.hand, "compile", dir) //nolint:gosec // the operator's own Hand
	cmd.Env = []string{}
	cmd.Stdin = bytes.NewReader(in)
	_, err = cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%s compile: %w: %s", c.hand, err, strings.ToValidUTF8(string(bytes.TrimSpace(exit.Stderr)), "?"))
	}
	return err
}

// makeAhead has the code of all plugins of the catalog made that have tools for a
// sandbox.
func (m *Manager) makeAhead() {
	m.mu.Lock()
	catalog := m.catalog
	m.mu.Unlock()
	if catalog == nil || m.o.Tier == nil || carries(m.o.Tier) {
		return
	}
	s := catalog()
	if s == nil {
		return
	}
	for _, p := range s.Plugins() {
		if !p.Manifest.Has(batch.TargetSandbox) {
			continue
		}
		// What is wrong with a plugin is said by its calls.
		if img, err := m.image(p); err == nil {
			m.code.begin(m, img)
		}
	}
}

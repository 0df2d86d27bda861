package wasm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/plugins"
)

// callSecrets are the secrets of a plugin during one call. Each is read when the
// guest first asks for it, and is then the same until the call ends. Used by the
// goroutine of the call only.
type callSecrets struct {
	ctx      context.Context // of the call: a source that hangs ends with it
	plugin   *plugins.Plugin
	redactor *plugins.Redactor
	log      *slog.Logger
	attrs    []any // that name the call
	read     map[string]secretRead
	refused  bool // a name was asked for that is not given; said once
}

type secretRead struct {
	value []byte
	err   error
}

func (s *callSecrets) given(name string) bool {
	return s != nil && slices.Contains(s.plugin.Effective.Secrets, name)
}

// get returns a value that is not to be changed. The error is for the guest: where
// secrets come from is no concern of its, and stands in the log.
func (s *callSecrets) get(name string) ([]byte, error) {
	if !s.given(name) {
		if s != nil && !s.refused {
			s.refused = true
			s.log.With(s.attrs...).Warn("a guest asked for a secret that its plugin is not given", "secret", printable(name, 80))
		}
		return nil, fmt.Errorf("the secret %q is not given to this plugin: the manifest asks for it in capabilities.secrets and the operator gives it in [plugin.secrets]", printable(name, 80))
	}
	got, known := s.read[name]
	if !known {
		got.value, got.err = s.plugin.ReadSecret(s.ctx, name, s.redactor)
		if s.read == nil {
			s.read = map[string]secretRead{}
		}
		s.read[name] = got
		if got.err != nil {
			s.log.With(s.attrs...).Warn("a secret cannot be read", "secret", name, "error", got.err)
		}
	}
	if got.err != nil {
		return nil, fmt.Errorf("the secret %s cannot be read now; the host's log says why", name)
	}
	return got.value, nil
}

func serveSecretGet(g *guestCall, request []byte) (any, error) {
	var q struct {
		Name *string `json:"name"`
	}
	if err := json.Unmarshal(request, &q); err != nil || q.Name == nil {
		return nil, errors.New(`the request is not {"name":"…"}`)
	}
	value, err := g.secrets.get(*q.Name)
	if err != nil {
		return nil, err
	}
	return struct {
		Value string `json:"value"`
	}{string(value)}, nil
}

// secretsFolder is where a command finds its secrets, below /awaken.
const secretsFolder = "secrets"

// callFS is what a command finds under /awaken: the files of its call, and a folder
// with a file for each of its secrets, which is read when it is opened.
type callFS struct {
	files   memoryFS
	secrets *callSecrets
	opened  *atomic.Int64 // and not closed
}

// Open implements fs.FS. As many files can be open as in granted folders: each takes
// memory of the host's.
func (c callFS) Open(name string) (fs.File, error) {
	if c.opened.Add(1) > maxOpenFiles {
		c.opened.Add(-1)
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	f, err := c.open(name)
	if file, is := f.(interface{ whenClosed(f func()) }); is && err == nil {
		file.whenClosed(func() { c.opened.Add(-1) })
	} else {
		c.opened.Add(-1)
	}
	return f, err
}

func (c callFS) open(name string) (fs.File, error) {
	given := c.secrets.plugin.Effective.Secrets
	if len(given) == 0 {
		return c.files.Open(name)
	}
	switch name {
	case ".":
		d, err := c.files.Open(name)
		if dir, is := d.(*memoryDir); is {
			dir.left = append(dir.left, fs.FileInfoToDirEntry(memoryInfo{name: secretsFolder, mode: fs.ModeDir | 0o555}))
		}
		return d, err
	case secretsFolder:
		d := &memoryDir{info: memoryInfo{name: secretsFolder, mode: fs.ModeDir | 0o555}}
		for _, n := range given {
			d.left = append(d.left, fs.FileInfoToDirEntry(memoryInfo{name: n, mode: 0o444}))
		}
		return d, nil
	}
	secret, inside := bytes.CutPrefix([]byte(name), []byte(secretsFolder+"/"))
	if !inside || !fs.ValidPath(name) {
		return c.files.Open(name)
	}
	if !c.secrets.given(string(secret)) {
		_, _ = c.secrets.get(string(secret)) // the log says that it was asked for
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	value, err := c.secrets.get(string(secret))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return memoryFS{name: value}.Open(name)
}

// redact keeps secrets out of what the ledger will hold.
func (r *Runtime) redact(p *plugins.Plugin, call *batch.Call, out *batch.Output, err error) (*batch.Output, error) {
	return r.opts.Redactor.Result(call, out, err, limitsOf(p, call.Grant).output)
}

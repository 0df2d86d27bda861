package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// CheckTime is how long an engine may take to say what it is.
const checkTime = 10 * time.Second

// Options configure a Tier.
type Options struct {
	Engine string // sandbox.TierDocker or sandbox.TierPodman
	// Image is "name@sha256:…", or "sha256:…", the id of an image as the engine shows it
	// with --no-trunc. Anything else is refused by Check and Start.
	Image string
	// Pull lets Check and Start fetch an image that is not there. False: it must be.
	Pull bool
	// Args are options of the engine: those before the subcommand and those of "run",
	// sorted by New. What could weaken the boundary is refused.
	Args    []string
	Command []string     // the client; nil: the engine's name
	Logger  *slog.Logger // nil discards
}

// Tier is docker or podman. It is safe for concurrent use.
type Tier struct {
	engine  *engine
	image   string
	pull    bool
	command []string
	global  []string
	extra   []string
	logger  *slog.Logger

	looking chan struct{} // holds one token: who has it may look and set known
	known   *facts        // of the last Check or Start that worked
}

var (
	_ sandbox.Tier     = (*Tier)(nil)
	_ sandbox.HandUser = (*Tier)(nil)
)

// New makes a Tier. It starts nothing: an error is about the options.
func New(o Options) (*Tier, error) {
	e := engines[o.Engine]
	if e == nil {
		return nil, fmt.Errorf("%q is no engine of containers: docker and podman are", o.Engine)
	}
	global, run, err := e.sort(o.Args)
	if err != nil {
		return nil, fmt.Errorf("engine_args of %s: %w", e.name, err)
	}
	t := &Tier{
		engine: e, image: o.Image, pull: o.Pull, command: slices.Clone(o.Command),
		global: global, extra: run, logger: o.Logger, looking: make(chan struct{}, 1),
	}
	if len(t.command) == 0 {
		t.command = []string{e.name}
	}
	if t.logger == nil {
		t.logger = slog.New(slog.DiscardHandler)
	}
	t.looking <- struct{}{}
	return t, nil
}

// Name is docker or podman.
func (t *Tier) Name() string { return t.engine.name }

// HandUser is whom the workspace and the state folder must belong to where root runs
// the host.
func (t *Tier) HandUser() (uid, gid int, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	return handUID, handUID, true
}

// Check asks the engine what it is and whether it has the image.
func (t *Tier) Check(ctx context.Context) error {
	f, err := t.look(ctx, true)
	if err != nil {
		return err
	}
	_, err = t.user(f, os.Geteuid(), os.Getegid())
	return err
}

// Pinned is a reference that means one image and no other.
var pinned = regexp.MustCompile(`^(?:[a-z0-9][^\s@]*@)?sha256:[0-9a-f]{64}$`)

func digestOf(ref string) string { return ref[strings.LastIndexByte(ref, '@')+1:] }

// Look finds out what must be known before a container is started. Engine and image
// are asked once: what a digest names does not change, and "run" says itself when the
// image or the engine has gone.
func (t *Tier) look(ctx context.Context, again bool) (*facts, error) {
	switch {
	case t.image == "":
		return nil, t.unavailable(sandbox.ReasonDigest, "no image is configured", "name one by its digest: [sandbox].image = \"name@sha256:…\"")
	case !pinned.MatchString(t.image):
		return nil, t.unavailable(sandbox.ReasonDigest, fmt.Sprintf("image %q is not named by digest", t.image),
			fmt.Sprintf("write it in [sandbox].image as name@sha256:…, or sha256:… of a local image; %s images --digests --no-trunc shows both", t.engine.name))
	}
	select {
	case <-t.looking:
		defer func() { t.looking <- struct{}{} }()
	case <-ctx.Done():
		return nil, t.failed("info", context.Cause(ctx))
	}
	if t.known != nil && !again {
		return t.known, nil
	}
	t.known = nil
	f, err := t.askFacts(ctx)
	if err != nil {
		return nil, err
	}
	t.known = f
	return f, nil
}

// Forget makes the next Start look again.
func (t *Tier) forget() {
	<-t.looking
	t.known = nil
	t.looking <- struct{}{}
}

func (t *Tier) askFacts(ctx context.Context) (*facts, error) {
	asking, cancel := context.WithTimeoutCause(ctx, checkTime, fmt.Errorf("%s does not answer within %v", t.engine.name, checkTime))
	defer cancel()
	type answer struct {
		image image
		err   error
	}
	images := make(chan answer, 1)
	go func() {
		i, err := t.askImage(asking)
		images <- answer{i, err}
	}()
	info, err := t.ask(asking, "info", "--format", "{{json .}}")
	there := <-images
	if err != nil {
		return nil, t.failed("info", err)
	}
	f, err := t.engine.facts(info)
	if err != nil {
		return nil, t.failed("info", err)
	}
	if there.err != nil && t.pull && isMissing(there.err) {
		t.logger.Info("pulling an image", "tier", t.engine.name, "image", t.image)
		if _, err := t.ask(ctx, "pull", "--quiet", t.image); err != nil {
			u := t.failed("pull", err)
			if u.Reason == sandbox.ReasonStart { // whatever a registry says, the image is not here
				u.Reason, u.Remedy = sandbox.ReasonImage, t.remedy(sandbox.ReasonImage, "")
			}
			return nil, u
		}
		there.image, there.err = t.askImage(ctx)
	}
	if there.err != nil {
		return nil, t.failed("image inspect", there.err)
	}
	if no := there.image.check(t.engine, t.image, has(t.extra, "--platform")); no != nil {
		return nil, no
	}
	f.image = there.image
	return f, nil
}

func (t *Tier) askImage(ctx context.Context) (image, error) {
	out, err := t.ask(ctx, "image", "inspect", t.image)
	if err != nil {
		return image{}, err
	}
	var images []image
	if err := json.Unmarshal(out, &images); err != nil {
		return image{}, err
	}
	if len(images) != 1 {
		return image{}, errors.New("image inspect: not one image is meant by " + t.image)
	}
	return images[0], nil
}

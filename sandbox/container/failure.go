package container

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/sandbox"
)

func (t *Tier) unavailable(reason sandbox.Reason, what, remedy string) *sandbox.UnavailableError {
	return &sandbox.UnavailableError{Tier: t.engine.name, Reason: reason, What: what, Remedy: remedy}
}

// Sign is what an engine says, in lower case, when something is the matter.
type sign struct {
	text      string
	reason    sandbox.Reason
	transient bool
}

// Signs are looked for in their order: a message may hold several, and an earlier one
// is nearer to the cause.
var signs = []sign{
	{"permission denied while trying to connect", sandbox.ReasonDenied, false},
	{"cannot connect to the docker daemon", sandbox.ReasonEngine, true},
	{"failed to connect to the docker api", sandbox.ReasonEngine, true},
	{"error during connect", sandbox.ReasonEngine, true},
	{"cannot connect to podman", sandbox.ReasonEngine, true},
	{"unable to connect to podman", sandbox.ReasonEngine, true},
	{"connection refused", sandbox.ReasonEngine, true},
	{"unable to find image", sandbox.ReasonImage, false},
	{"no such image", sandbox.ReasonImage, false},
	{"image not known", sandbox.ReasonImage, false},
	{"failed to find image", sandbox.ReasonImage, false},
	{"manifest unknown", sandbox.ReasonImage, false},
	{"pull access denied", sandbox.ReasonImage, false},
	{"repository does not exist", sandbox.ReasonImage, false},
	{"exec format error", sandbox.ReasonUnsupported, false},
}

// Failed says why the engine or a container cannot be had. Err is what the client
// command, "run" or another, ended with; what the engine said stands in it verbatim.
func (t *Tier) failed(what string, err error) *sandbox.UnavailableError {
	if u := (*sandbox.UnavailableError)(nil); errors.As(err, &u) {
		return u
	}
	u := t.unavailable(sandbox.ReasonStart, what+" failed", "")
	u.Err = err
	if said := (*clientError)(nil); errors.As(err, &said) && said.said != "" {
		u.What, u.Err = t.engine.name+" "+said.what+" says: "+said.said, nil
	}
	text := strings.ToLower(u.What)
	if u.Err != nil {
		text += " " + strings.ToLower(u.Err.Error())
	}
	switch at := slices.IndexFunc(signs, func(s sign) bool { return strings.Contains(text, s.text) }); {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist):
		u.Reason = sandbox.ReasonTool
	case errors.Is(err, context.DeadlineExceeded) || strings.Contains(text, "does not answer within"):
		u.Reason, u.Transient = sandbox.ReasonEngine, true
	case errors.Is(err, context.Canceled):
		u.Transient = true
	case errors.Is(err, fs.ErrPermission):
		u.Reason = sandbox.ReasonDenied
	case at >= 0:
		u.Reason, u.Transient = signs[at].reason, signs[at].transient
	}
	u.Remedy = t.remedy(u.Reason, text)
	return u
}

func isMissing(err error) bool {
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc(signs, func(s sign) bool {
		return s.reason == sandbox.ReasonImage && strings.Contains(text, s.text)
	})
}

func (t *Tier) remedy(reason sandbox.Reason, text string) string {
	switch reason {
	case sandbox.ReasonTool:
		return t.engine.install
	case sandbox.ReasonDenied:
		return "let the user who runs the host use the engine's socket, or use podman, which needs none"
	case sandbox.ReasonEngine:
		for _, name := range elsewhereEnviron {
			if v := os.Getenv(name); v != "" {
				return t.engine.start + "; " + name + " is not obeyed: write it as engine_args, such as [\"--host=" + v + "\"]"
			}
		}
		return t.engine.start
	case sandbox.ReasonImage:
		if strings.Contains(t.image, "@") {
			return t.engine.name + " pull " + t.image
		}
		return "load the image whose id this is, or name one that can be pulled: name@sha256:…"
	case sandbox.ReasonUnsupported:
		return "use an image for this machine's architecture"
	}
	switch {
	case strings.Contains(text, "setting rlimit") || strings.Contains(text, "setrlimit"):
		return "engine_args = [\"--ulimit=nofile=1024:1024\", \"--ulimit=nproc=1024:1024\"] asks for no more than this machine allows"
	case strings.Contains(text, "crun") && strings.Contains(text, "cgroup"):
		return "engine_args = [\"--runtime=runc\"], which accepts this machine's cgroups"
	}
	return ""
}

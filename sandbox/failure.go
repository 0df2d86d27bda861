package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

// Reason classifies why a boundary cannot be had, or ended.
type Reason string

// The reasons of an UnavailableError.
const (
	ReasonTool        Reason = "missing program"     // bwrap, docker, podman or the Hand is not there
	ReasonEngine      Reason = "engine down"         // the engine does not answer
	ReasonDenied      Reason = "permission denied"   // the kernel, the engine or RBAC refuses
	ReasonImage       Reason = "image missing"       // it is not there, or cannot be pulled
	ReasonDigest      Reason = "image not pinned"    // it is not named by digest, or another one runs
	ReasonUnsupported Reason = "not supported here"  // not on this system
	ReasonUnmet       Reason = "requirement not met" // a demanded property is not enforced
	ReasonStart       Reason = "start failed"        // anything else
)

// The reasons of an EndedError.
const (
	ReasonExited  Reason = "ended"         // the Hand ended by itself
	ReasonKilled  Reason = "killed"        // by a signal, or by the engine
	ReasonMemory  Reason = "out of memory" // the boundary's memory limit
	ReasonEvicted Reason = "evicted"       // a Pod that its node threw out
	ReasonLost    Reason = "lost"          // the engine or the connection went away
)

// UnavailableError says that a boundary cannot be had: nothing of the Environment
// runs because of it.
type UnavailableError struct {
	Tier   string
	Reason Reason
	What   string // what is wrong, what the engine said verbatim
	Remedy string // what to do
	// Transient: another try may work, such as with an engine that is being started.
	Transient bool
	Err       error // may be nil
}

func (e *UnavailableError) Error() string {
	if e.Remedy != "" {
		return e.reason() + "; " + e.Remedy
	}
	return e.reason()
}

// reason is the error without what to do about it.
func (e *UnavailableError) reason() string {
	s := fmt.Sprintf("sandbox tier %s: %s: %s", e.Tier, e.Reason, e.What)
	if e.Tier == "" {
		s = fmt.Sprintf("sandbox: %s: %s", e.Reason, e.What)
	}
	if e.Err != nil && !strings.HasSuffix(e.What, e.Err.Error()) {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// EndedError says why an Instance ended that nobody stopped.
type EndedError struct {
	Tier   string
	Reason Reason
	What   string // exit status, signal, the engine's own words, the last lines of the Hand's standard error
	Err    error  // may be nil
}

func (e *EndedError) Error() string {
	s := fmt.Sprintf("the sandbox (tier %s) ended", e.Tier)
	if e.Reason != ReasonExited {
		s += ", " + string(e.Reason)
	}
	if e.What != "" {
		s += ": " + e.What
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *EndedError) Unwrap() error { return e.Err }

// ReasonOf is the reason of an UnavailableError or EndedError in err's chain, empty
// when there is none.
func ReasonOf(err error) Reason {
	var u *UnavailableError
	if errors.As(err, &u) {
		return u.Reason
	}
	var e *EndedError
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

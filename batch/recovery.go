package batch

import "fmt"

// RecoveryCapability is what a tool can promise about being called again with
// the same operation id after an attempt whose outcome is unknown.
type RecoveryCapability string

// The capabilities.
const (
	NonRecoverable RecoveryCapability = "non_recoverable" // the default
	ReplaySafe     RecoveryCapability = "replay_safe"     // no effect outside the call
	Idempotent     RecoveryCapability = "idempotent"      // same operation id, one effect
	DurableRequest RecoveryCapability = "durable_request" // can return the recorded result of an operation id
)

// Validate reports an unknown capability.
func (c RecoveryCapability) Validate() error {
	switch c {
	case NonRecoverable, ReplaySafe, Idempotent, DurableRequest:
		return nil
	}
	return fmt.Errorf("unknown recovery capability %q: non_recoverable, replay_safe, idempotent and durable_request are known", string(c))
}

// RecoveryPolicy is what the deployment pins for a tool when a batch is
// requested: NeverReplay, or exactly the tool's capability by name.
type RecoveryPolicy string

// NeverReplay is the default and always legal.
const NeverReplay RecoveryPolicy = "never_replay"

// DefaultMaxAttempts is the attempt budget where none is configured.
const DefaultMaxAttempts = 3

// AllowedBy reports whether a tool with capability c supports the policy.
func (p RecoveryPolicy) AllowedBy(c RecoveryCapability) error {
	if p == NeverReplay {
		return nil
	}
	if c != NonRecoverable && string(p) == string(c) && c.Validate() == nil {
		return nil
	}
	return fmt.Errorf("recovery policy %q is wider than the tool's capability %q: use %q or %q",
		string(p), string(c), string(NeverReplay), string(c))
}

// Replays reports whether the policy lets a dispatched call be invoked again.
func (p RecoveryPolicy) Replays() bool {
	return p != NeverReplay && RecoveryCapability(p).Validate() == nil && RecoveryCapability(p) != NonRecoverable
}

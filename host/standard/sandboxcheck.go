package standard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/sandbox"
)

// TierLocal is the tier without a boundary.
const TierLocal = sandbox.TierLocal

// SandboxTiers lists the tiers by name, weakest first.
func SandboxTiers() []string { return slices.Clone(sandbox.Tiers) }

// TierReport is what was found out about one tier by running something in it.
type TierReport struct {
	Tier       string           `json:"tier"`
	Configured bool             `json:"configured"` // it is [sandbox].tier
	Usable     bool             `json:"usable"`
	Error      string           `json:"error,omitempty"`  // why it is not usable
	Reason     string           `json:"reason,omitempty"` // the class of that
	Network    string           `json:"network"`          // as the host file has it
	TookMS     float64          `json:"took_ms,omitempty"`
	ID         string           `json:"id,omitempty"`    // as the engine names what ran
	Image      string           `json:"image,omitempty"` // digest of the image that ran
	Properties []PropertyReport `json:"properties"`
	Unmet      []string         `json:"unmet"` // of [sandbox.require]
}

// PropertyReport is one property of a boundary.
type PropertyReport struct {
	Property string `json:"property"`
	State    string `json:"state"` // "enforced", "not enforced" or "unknown"
	Level    string `json:"level,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Remedy   string `json:"remedy,omitempty"`
}

// OK reports whether calls would run there.
func (r *TierReport) OK() bool { return r.Usable && len(r.Unmet) == 0 }

// CheckSandbox starts a throw-away boundary of each tier, with the network and the
// limits that file sets and without its mounts, and reports what it really enforces. No
// tiers: all of them. Without optional, file must be there; with it, one that is not is
// that of an empty [sandbox]. The ledger is not opened.
func CheckSandbox(ctx context.Context, file string, optional bool, tiers []string, o Options) ([]TierReport, error) {
	cfg, err := LoadConfig(file, o)
	if _, serr := os.Stat(file); optional && errors.Is(serr, fs.ErrNotExist) {
		cfg, err = config.Parse(file, fmt.Appendf(nil, "version = %d\n", config.Version))
	}
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, name := range tiers {
		if !slices.Contains(sandbox.Tiers, name) {
			return nil, setupError{fmt.Errorf("there is no tier %q: %s are known", name, strings.Join(sandbox.Tiers, ", "))}
		}
	}
	if len(tiers) == 0 {
		tiers = sandbox.Tiers
	}
	demanded, err := sandbox.ParseRequirements(cfg.Sandbox.Require)
	if err != nil {
		return nil, setupError{err}
	}
	var reports []TierReport
	for _, name := range tiers {
		found, err := checkTier(ctx, cfg, name, o.Logger)
		if err != nil {
			return nil, fmt.Errorf("checking tier %s: %w", name, err)
		}
		reports = append(reports, tierReport(cfg, found, demanded))
	}
	return reports, nil
}

func checkTier(ctx context.Context, cfg *config.Config, name string, log *slog.Logger) (*sandbox.Report, error) {
	engine := name == sandbox.TierDocker || name == sandbox.TierPodman
	if engine && name != cfg.Sandbox.Tier && len(cfg.Sandbox.EngineArgs) > 0 {
		log.Warn("[sandbox].engine_args are left out: they are written for the configured tier", "tier", name, "configured", cfg.Sandbox.Tier)
	}
	t, err := openTier(cfg, name, log)
	if err != nil {
		return &sandbox.Report{Tier: name, Err: err}, nil //nolint:nilerr // the report says so
	}
	hand, err := handProgram(cfg, name)
	if err != nil {
		return &sandbox.Report{Tier: name, Err: err}, nil //nolint:nilerr // the report says so
	}
	return sandbox.Check(ctx, t, &sandbox.Spec{
		Hand: hand, Network: sandbox.Network(cfg.Sandbox.Network), Limits: cfg.Sandbox.Limits.InstanceLimits(),
	})
}

func tierReport(cfg *config.Config, found *sandbox.Report, demanded sandbox.Requirements) TierReport {
	r := TierReport{
		Tier: found.Tier, Configured: found.Tier == cfg.Sandbox.Tier, Usable: found.Usable, Network: cfg.Sandbox.Network,
		Properties: []PropertyReport{}, Unmet: []string{},
	}
	if !found.Usable {
		r.Error, r.Reason = found.Err.Error(), string(sandbox.ReasonOf(found.Err))
		return r
	}
	r.TookMS = float64(found.Took.Microseconds()) / 1000
	r.ID, r.Image = found.Effective.ID, found.Effective.Image
	for _, name := range sandbox.PropertyNames {
		f := found.Properties[name]
		r.Properties = append(r.Properties, PropertyReport{
			Property: string(name), State: f.State.String(), Level: f.Level, Detail: f.Detail, Remedy: f.Remedy,
		})
	}
	r.Unmet = append(r.Unmet, found.Unmet(demanded)...)
	return r
}

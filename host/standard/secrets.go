package standard

import (
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/secrets"
)

// secretSources makes what [plugin.secrets] describes. Commands are run in the folder
// of the host file, and found from there when they are named by a path.
func secretSources(cfg *config.Config, p *config.Plugin) map[string]plugins.SecretSource {
	if len(p.Secrets) == 0 {
		return nil
	}
	out := make(map[string]plugins.SecretSource, len(p.Secrets))
	for name, s := range p.Secrets {
		out[name] = secretSource(cfg, s)
	}
	return out
}

// secretSource is where a secret of the host file comes from.
func secretSource(cfg *config.Config, s config.SecretSource) plugins.SecretSource {
	switch {
	case s.Env != "":
		return secrets.Env(s.Env)
	case s.File != "":
		return secrets.File(s.File)
	}
	dir := filepath.Dir(cfg.File)
	argv := make([]string, len(s.Command))
	for i, arg := range s.Command {
		argv[i] = arg.Reveal()
	}
	if strings.ContainsRune(argv[0], filepath.Separator) && !filepath.IsAbs(argv[0]) {
		if program, err := filepath.Abs(filepath.Join(dir, argv[0])); err == nil {
			argv[0] = program
		}
	}
	return secrets.NewCommand(dir, argv...)
}

// doubtfulSecrets says which secrets could not be read now, or could be read by
// others. That is no reason not to start: a secret is read when a call needs it.
func doubtfulSecrets(loaded []*plugins.Plugin) []message {
	var messages []message
	for _, p := range loaded {
		for _, name := range slices.Sorted(maps.Keys(p.Secrets)) {
			source, checks := p.Secrets[name].(interface{ Check() error })
			if !checks {
				continue
			}
			if err := source.Check(); err != nil {
				messages = append(messages, message{slog.LevelWarn,
					fmt.Sprintf("secret %s of plugin %s, %s: %v", name, p.Manifest.ID, p.Secrets[name], err)})
			}
		}
	}
	return messages
}

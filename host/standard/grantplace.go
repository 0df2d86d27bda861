package standard

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/awaken-agents/awaken-host/host/config"
	"github.com/awaken-agents/awaken-host/sandbox"
	"github.com/awaken-agents/awaken-host/sandbox/namespace"
)

// place is something of the host's own that a plugin's folder must not reach.
type place struct {
	path string
	what string
	read bool // not even to be read
}

// ownPlaces are what the host decides by, or keeps. A path is empty where the host
// file names none.
func ownPlaces(cfg *config.Config) []place {
	list := []place{
		{cfg.DataDir, "data_dir, with the ledger of every run", true},
		{cfg.File, "the host file", true},
		{cfg.Policy.Log.File, "the log of decisions", true},
		{cfg.Policy.Log.HTTP.CAFile, "certificates that are trusted", false},
		{cfg.Egress.CAFile, "certificates that are trusted", false},
	}
	token := func(s *config.SecretSource) {
		if s != nil {
			list = append(list, place{s.File, "a token of the policy", true})
		}
	}
	token(cfg.Policy.Log.HTTP.Token)
	for _, b := range cfg.Policy.Bundles {
		list = append(list, place{b.Path, "a policy", false}, place{b.CAFile, "certificates that are trusted", false})
		token(b.Token)
		for _, k := range b.Keys {
			list = append(list, place{k.File, "a key of policies", true})
		}
	}
	for _, p := range cfg.Policy.Paths {
		list = append(list, place{p, "a policy", false})
	}
	for i := range cfg.Policy.Bundles {
		b := &cfg.Policy.Bundles[i]
		list = append(list, place{b.Path, "a policy", false}, place{b.CAFile, "certificates that are trusted", false})
		for _, k := range b.Keys {
			list = append(list, place{k.File, "a key that may sign policy", false})
		}
		if b.Token != nil {
			list = append(list, place{b.Token.File, "the token of a policy bundle", true})
		}
	}
	list = append(list, place{cfg.Sandbox.HandBin, "the program that runs in sandboxes", false},
		place{cfg.Sandbox.Kube.Kubeconfig, "the credentials of a cluster", true})
	if strings.ContainsRune(cfg.Sandbox.Namespace.Program, filepath.Separator) { // else PATH says where
		list = append(list, place{cfg.Sandbox.Namespace.Program, "the program that makes sandboxes", false})
	}
	for _, m := range cfg.Sandbox.Mounts {
		list = append(list, place{m.File, "a file of every sandbox, read-only there", false}, place{m.Archive, "an archive of every sandbox", false})
	}
	for _, k := range cfg.Trust.Keys {
		list = append(list, place{k.File, "a trusted key; secret ones are often kept beside it", true})
	}
	for i := range cfg.Plugins {
		p := &cfg.Plugins[i]
		list = append(list, place{p.Path, "a plugin", false})
		for _, name := range slices.Sorted(maps.Keys(p.Secrets)) {
			list = append(list, place{p.Secrets[name].File, "the secret " + name, true})
		}
	}
	return list
}

// systemFolders show the host's processes and devices as files.
var systemFolders = []string{"/proc", "/sys", "/dev"}

// checkPlaces refuses granted folders that lie in, or hold, what the host decides
// by: a plugin could read other runs, or give itself rights.
func checkPlaces(cfg *config.Config, i int) error {
	g := cfg.Plugins[i].Grant
	if g == nil {
		return nil
	}
	var errs []error
	for _, guest := range slices.Sorted(maps.Keys(g.Paths)) {
		to := g.Paths[guest]
		for _, what := range reaches(cfg, to.Host, to.Mode == "rw") {
			errs = append(errs, fmt.Errorf("%s: [[plugin]] %d: grant.paths: %q: %s; name a folder of its own, such as \"work\" beside the host file",
				cfg.File, i+1, guest, what))
		}
	}
	return placesError(errs)
}

// checkSandboxPlaces does the same for what of this machine is in every sandbox.
func checkSandboxPlaces(cfg *config.Config) error {
	var errs []error
	for i, m := range cfg.Sandbox.Mounts {
		for _, source := range []string{m.Folder, m.File, m.Archive} {
			for _, what := range reaches(cfg, source, m.Mode == "rw") {
				errs = append(errs, fmt.Errorf("%s: [[sandbox.mount]] %d (%s): %s; name one of its own, such as \"data\" beside the host file",
					cfg.File, i+1, m.Target, what))
			}
		}
	}
	folders := cfg.Sandbox.Namespace.Folders
	if folders == nil && cfg.Sandbox.Tier == sandbox.TierNamespace {
		folders = namespace.DefaultFolders()
	}
	for _, folder := range folders {
		for _, what := range reaches(cfg, folder, false) {
			errs = append(errs, fmt.Errorf("%s: [sandbox.namespace].folders: %s; move that elsewhere, or name other folders with programs", cfg.File, what))
		}
	}
	return placesError(errs)
}

func placesError(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return setupError{errors.Join(errs...)}
}

// reaches says what of the host's own, or of the system, a folder or file gives away,
// a sentence for each. An empty path is none.
func reaches(cfg *config.Config, path string, write bool) []string {
	if path == "" {
		return nil
	}
	var out []string
	for _, own := range ownPlaces(cfg) {
		if !own.read && !write {
			continue
		}
		switch {
		case within(path, own.path):
			out = append(out, fmt.Sprintf("the folder %s lies in %s (%s)", path, own.path, own.what))
		case within(own.path, path):
			out = append(out, fmt.Sprintf("the folder %s holds %s (%s)", path, own.path, own.what))
		}
	}
	for _, s := range systemFolders {
		if within(path, s) && !within(path, "/dev/shm") {
			out = append(out, fmt.Sprintf("the folder %s is part of %s, where the system shows its processes and devices", path, s))
		}
	}
	return out
}

// within reports whether inner is outer or lies in it, by name or by what is on the
// disk: through symbolic links, other spellings and mounts.
func within(inner, outer string) bool {
	if inner == "" || outer == "" {
		return false
	}
	inner, outer = resolved(inner), resolved(outer)
	if rel, err := filepath.Rel(outer, inner); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return true
	}
	target, err := os.Stat(outer)
	if err != nil {
		return false
	}
	for p := inner; ; p = filepath.Dir(p) {
		if info, err := os.Stat(p); err == nil && os.SameFile(info, target) {
			return true
		}
		if p == filepath.Dir(p) {
			return false
		}
	}
}

// resolved follows the symbolic links of the part of path that exists.
func resolved(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return filepath.Clean(path)
	}
	rest := ""
	for p := path; ; p = filepath.Dir(p) {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(real, rest)
		}
		if p == filepath.Dir(p) {
			return path
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}

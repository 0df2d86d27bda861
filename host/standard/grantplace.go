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
	refuse := func(guest, format string, a ...any) {
		errs = append(errs, fmt.Errorf("%s: [[plugin]] %d: grant.paths: %q: %s; name a folder of its own, such as \"work\" beside the host file",
			cfg.File, i+1, guest, fmt.Sprintf(format, a...)))
	}
	for _, guest := range slices.Sorted(maps.Keys(g.Paths)) {
		to := g.Paths[guest]
		for _, own := range ownPlaces(cfg) {
			if !own.read && to.Mode != "rw" {
				continue
			}
			switch {
			case within(to.Host, own.path):
				refuse(guest, "the folder %s lies in %s (%s)", to.Host, own.path, own.what)
			case within(own.path, to.Host):
				refuse(guest, "the folder %s holds %s (%s)", to.Host, own.path, own.what)
			}
		}
		for _, s := range systemFolders {
			if within(to.Host, s) && !within(to.Host, "/dev/shm") {
				refuse(guest, "the folder %s is part of %s, where the system shows its processes and devices", to.Host, s)
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return setupError{errors.Join(errs...)}
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

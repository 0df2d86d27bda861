package plugins

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Bounds and shapes of single values. A plugin id has no underscore, so the first
// "__" of a model-visible name always ends the id and no tool can pose as another
// plugin's.
const (
	maxMemoryMiB   = 4096
	maxPluginID    = 48
	maxToolName    = 64 // batch.ToolID
	maxDescription = 16 << 10
)

var (
	versionPattern  = pattern(`^[0-9]{1,9}(\.[0-9]{1,9}){0,2}(-[0-9A-Za-z.-]{1,64})?(\+[0-9A-Za-z.-]{1,64})?$`)
	stateKeyPattern = pattern(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	secretPattern   = pattern(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	commandPattern  = pattern(`^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}$`)
)

// pattern is compiled when it is first asked for. A Hand, which starts with every
// sandbox and every command in one, asks for none.
func pattern(source string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(source) })
}

func checkPluginID(id string) error {
	ok := id != "" && len(id) <= maxPluginID && id[0] != '-'
	for i := range len(id) {
		c := id[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if !ok {
		return fmt.Errorf("%q is not a plugin id, use a-z, 0-9 and -, at most %d, not starting with -", clip(id, 80), maxPluginID)
	}
	return nil
}

// checkToolName checks a tool's id or a model-visible name.
func checkToolName(name string) error {
	ok := name != "" && len(name) <= maxToolName
	for i := range len(name) {
		ok = ok && bareKeyByte(name[i])
	}
	if !ok {
		return fmt.Errorf("%q is not a tool name, use A-Z, a-z, 0-9, _ and -, at most %d", clip(name, 80), maxToolName)
	}
	return nil
}

func checkModulePath(p string) error {
	switch {
	case strings.HasPrefix(p, "/") || strings.Contains(p, `\`) || strings.Contains(p, ":"):
		return fmt.Errorf("%q is not a path inside the plugin's folder, write it relative and with /", clip(p, 80))
	case !fs.ValidPath(p) || p == ".":
		return fmt.Errorf("%q is not a path inside the plugin's folder, leave out the steps . and .. in it", clip(p, 80))
	case strings.ContainsFunc(p, unicode.IsControl):
		return fmt.Errorf("%q holds a control character", clip(p, 80))
	case p == ManifestFile || p == SignatureFile:
		return fmt.Errorf("%q is not a module", p)
	}
	return nil
}

func isHexSum(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 32 && strings.ToLower(s) == s
}

func checkGuestPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "/":
		return fmt.Errorf("%q is not an absolute guest folder, write one such as \"/workspace\"", clip(p, 80))
	case strings.ContainsFunc(p, unicode.IsControl):
		return fmt.Errorf("%q holds a control character", clip(p, 80))
	case p == "/awaken" || strings.HasPrefix(p, "/awaken/"):
		return fmt.Errorf("%q: /awaken belongs to the host, use another folder", clip(p, 80))
	}
	return nil
}

func checkCommand(name string) error {
	if !commandPattern().MatchString(name) {
		return fmt.Errorf("%q is not the name of a command, write it without folder, arguments or spaces", clip(name, 80))
	}
	return nil
}

func checkSecret(name string) error {
	if !secretPattern().MatchString(name) {
		return fmt.Errorf("%q is not the name of a secret, use letters, digits and _", clip(name, 80))
	}
	return nil
}

// checkInputEncoding accepts json, text:<arg> and base64:<arg>. The argument must
// be a string property when the schema lists properties.
func checkInputEncoding(enc string, schema map[string]any) error {
	if enc == "json" {
		return nil
	}
	kind, arg, ok := strings.Cut(enc, ":")
	if !ok || arg == "" || kind != "text" && kind != "base64" {
		return fmt.Errorf(`%q is not known, use "json", "text:<argument>" or "base64:<argument>"`, clip(enc, 80))
	}
	props, ok := schema["properties"].(map[string]any)
	if !ok {
		return nil
	}
	prop, ok := props[arg]
	if !ok {
		return fmt.Errorf("%q names no property of input_schema%s", clip(arg, 80), didYouMean(arg, sortedKeys(props)))
	}
	spec, _ := prop.(map[string]any)
	switch t := spec["type"].(type) {
	case string:
		ok = t == "string"
	case []any:
		ok = slices.Contains(t, any("string"))
	}
	if !ok {
		return errors.New("the argument " + strconv.Quote(clip(arg, 80)) + ` must have type = "string" in input_schema`)
	}
	return nil
}

func checkProse(s *section, key, text string) {
	if err := CheckDescription(text); err != nil {
		s.fail(key, "%v", err)
	}
}

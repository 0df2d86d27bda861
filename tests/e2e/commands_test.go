package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

func usage(ts *testscript.TestScript, ok bool, how string) {
	if !ok {
		ts.Fatalf("usage: %s", how)
	}
}

// exits N COMMAND ARGS… runs a command that must end with status N.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 1, "exits STATUS COMMAND [ARGS…]")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got, err := 0, ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// plugin NAME DIR copies a plugin as it was built, unsigned.
func copyPlugin(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "plugin NAME DIR")
	from := filepath.Join(guests, args[0])
	if !built(from) {
		from = filepath.Join(plugins, args[0])
	}
	if !built(from) {
		ts.Fatalf("the plugin %s is not built; %s", args[0], howToBuild)
	}
	to := ts.MkAbs(args[1])
	ts.Check(os.MkdirAll(filepath.Dir(to), 0o755))
	ts.Check(os.CopyFS(to, os.DirFS(from)))
	if err := os.Remove(filepath.Join(to, "plugin.toml.minisig")); err != nil && !errors.Is(err, os.ErrNotExist) {
		ts.Check(err)
	}
}

// lookup walks a value along a path like "results.0.phase"; "@" is the length of
// what it stands in, "." the whole.
func lookup(v any, path string) (any, error) {
	if path == "." {
		return v, nil
	}
	for step := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[step]
			if step == "@" {
				next, ok = json.Number(strconv.Itoa(len(in))), true
			}
			if !ok {
				return nil, fmt.Errorf("%s: there is no %q", path, step)
			}
			v = next
		case []any:
			if step == "@" {
				v = json.Number(strconv.Itoa(len(in)))
				continue
			}
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(in) {
				return nil, fmt.Errorf("%s: there is no element %s of %d", path, step, len(in))
			}
			v = in[i]
		default:
			return nil, fmt.Errorf("%s: %q stands in %v", path, step, v)
		}
	}
	return v, nil
}

// decode reads exactly one JSON value.
func decode(text string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("there is more than one JSON value")
	}
	return v, nil
}

func at(ts *testscript.TestScript, file, path string) any {
	v, err := decode(ts.ReadFile(file))
	if err != nil {
		ts.Fatalf("%s is not JSON: %v", file, err)
	}
	if v, err = lookup(v, path); err != nil {
		ts.Fatalf("%s: %v", file, err)
	}
	return v
}

// json FILE PATH VALUE compares the value at PATH; VALUE is JSON, or else a string.
// With ~ before it VALUE is a regular expression for a string. A leading ! means
// that PATH is not there, or has another value.
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) == 3, "[!] json FILE PATH VALUE|~REGEXP")
	v, err := decode(ts.ReadFile(args[0]))
	if err != nil {
		ts.Fatalf("%s is not JSON: %v", args[0], err)
	}
	got, err := lookup(v, args[1])
	if err != nil {
		if neg {
			return
		}
		ts.Fatalf("%s: %v", args[0], err)
	}
	same := false
	if pattern, ok := strings.CutPrefix(args[2], "~"); ok {
		re, err := regexp.Compile(pattern)
		ts.Check(err)
		s, isString := got.(string)
		same = isString && re.MatchString(s)
	} else {
		want, err := decode(args[2])
		if err != nil {
			want = args[2]
		}
		same = reflect.DeepEqual(got, want)
	}
	if same == neg {
		text, _ := json.Marshal(got)
		ts.Fatalf("%s: %s is %s", args[0], args[1], text)
	}
}

// lines FILE PATH VALUES compares the value at PATH in each line, which are JSON
// values; a dash stands for one that is not there.
func checkLines(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3, "lines FILE PATH VALUE,VALUE…")
	var values []string
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		v, err := decode(line)
		if err != nil {
			ts.Fatalf("%s: %q is not JSON: %v", args[0], line, err)
		}
		text := "-"
		if v, err = lookup(v, args[1]); err == nil {
			text = fmt.Sprint(v)
		}
		values = append(values, text)
	}
	if got := strings.Join(values, ","); got != args[2] {
		ts.Fatalf("%s: %s is %s", args[0], args[1], got)
	}
}

// keys FILE PATH NAMES compares the keys of the object at PATH, in their order.
func checkKeys(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3, "keys FILE PATH NAME,NAME…")
	raw := json.RawMessage(ts.ReadFile(args[0]))
	if args[1] != "." {
		for step := range strings.SplitSeq(args[1], ".") {
			var object map[string]json.RawMessage
			var list []json.RawMessage
			if json.Unmarshal(raw, &object) == nil && object[step] != nil {
				raw = object[step]
			} else if i, err := strconv.Atoi(step); err == nil && json.Unmarshal(raw, &list) == nil && i < len(list) {
				raw = list[i]
			} else {
				ts.Fatalf("%s: there is no %s", args[0], args[1])
			}
		}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		ts.Fatalf("%s: %s is not an object", args[0], args[1])
	}
	var names []string
	for dec.More() {
		name, err := dec.Token()
		ts.Check(err)
		names = append(names, name.(string))
		var value json.RawMessage
		ts.Check(dec.Decode(&value))
	}
	if got := strings.Join(names, ","); got != args[2] {
		ts.Fatalf("%s: %s has the keys %s", args[0], args[1], got)
	}
}

// setenv NAME FILE PATH sets a variable to the string at PATH.
func setFromJSON(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3, "setenv NAME FILE PATH")
	ts.Setenv(args[0], fmt.Sprint(at(ts, args[1], args[2])))
}

// tamper FILE changes one bit of the last byte.
func tamper(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "tamper FILE")
	data := []byte(ts.ReadFile(args[0]))
	data[len(data)-1] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o600))
}

// bytes FILE TEXT writes TEXT, which is a Go string without its quotes.
func writeBytes(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "bytes FILE TEXT")
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(args[1], `"`, `\"`) + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// calls FILE N TOOL [BYTES] writes a message of N calls c0, c1, … with an argument
// "text" of BYTES bytes, 1 if not given.
func writeCalls(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && (len(args) == 3 || len(args) == 4), "calls FILE N TOOL [BYTES]")
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	size := 1
	if len(args) == 4 {
		size, err = strconv.Atoi(args[3])
		ts.Check(err)
	}
	var b strings.Builder
	b.WriteString(`{"calls":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"c%d","tool":%q,"arguments":{"text":%q}}`, i, args[2], strings.Repeat("x", size))
	}
	b.WriteString("]}")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o600))
}

// sha256 NAME FILE sets a variable to the digest of a file, in hex.
func setSHA256(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "sha256 NAME FILE")
	sum := sha256.Sum256([]byte(ts.ReadFile(args[1])))
	ts.Setenv(args[0], hex.EncodeToString(sum[:]))
}

// holds FOLDER TEXT… wants every text in a file somewhere below FOLDER; with ! none
// of them, in any.
func holds(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, len(args) > 1, "[!] holds FOLDER TEXT…")
	found, files := map[string]string{}, 0
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		for _, text := range args[1:] {
			if bytes.Contains(data, []byte(text)) {
				found[text] = path
			}
		}
		return err
	}))
	for _, text := range args[1:] {
		if path, in := found[text]; in == neg {
			ts.Fatalf("%q, looked for in %d files of %s: found in %q", text, files, args[0], path)
		}
	}
}

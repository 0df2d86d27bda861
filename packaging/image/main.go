// Command image writes the image of sandboxes: from scratch, with the Hand and
// nothing else, and the same bytes each time.
//
//	image -hand FILE -arch ARCH [-version V] [-name NAME:TAG] -out FILE.tar
//
// It prints by what the image is pinned.
package main

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "image:", err)
		}
		os.Exit(2)
	}
}

var tagged = regexp.MustCompile(`^[a-z0-9][a-z0-9._/:-]*:[A-Za-z0-9_][A-Za-z0-9._-]*$`)

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	hand := flags.String("hand", "", "the Hand's binary: static, for linux")
	arch := flags.String("arch", "", "amd64 or arm64")
	version := flags.String("version", "unknown", "of the Hand, for the image's label")
	name := flags.String("name", "localhost/awaken-host/sandbox:latest", "what engines call it")
	out := flags.String("out", "", "the file to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	case *hand == "" || *out == "":
		return errors.New("-hand and -out are needed")
	case !tagged.MatchString(*name):
		return fmt.Errorf("-name %q: write host/name:tag", *name)
	}
	if err := checkHand(*hand, *arch); err != nil {
		return fmt.Errorf("%s: %w", *hand, err)
	}
	text, err := os.ReadFile(*hand)
	if err != nil {
		return err
	}
	image, err := build(source{Hand: text, Arch: *arch, Version: *version, Name: *name})
	if err != nil {
		return err
	}
	if err := write(*out, image.Tar); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\n  manifest %s\n  image id %s\n", *out, image.Digest, image.ID)
	return nil
}

// CheckHand refuses what could not start in an image that has nothing else.
func checkHand(name, arch string) error {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	want, known := machines[arch]
	if !known {
		return fmt.Errorf("-arch %q: amd64 and arm64 are known", arch)
	}
	f, err := elf.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Machine != want {
		return fmt.Errorf("it is for %v, and -arch says %s", f.Machine, arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it is not static: build it with CGO_ENABLED=0")
		}
	}
	return nil
}

// Write puts the file there whole or not at all.
func write(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // which it has no longer, if all went well
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

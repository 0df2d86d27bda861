package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/awaken-agents/awaken-host/host/standard"
)

func (a *app) pluginCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "plugin",
		Aliases: []string{"plugins"},
		Short:   "Inspect modules, make keys, sign plugins and verify them",
	})
	cmd.AddCommand(a.inspectCommand(), a.keygenCommand(), a.signCommand(), a.onHost(a.verifyCommand()))
	return cmd
}

func (a *app) keygenCommand() *cobra.Command {
	passwordFile := ""
	cmd := &cobra.Command{
		Use:   "keygen NAME",
		Short: "Make a key pair for signing plugins: NAME.pub and NAME.key",
		Long: `Makes a key pair for signing plugins: NAME.pub, which operators put under
[trust].keys, and NAME.key, which stays secret. Both have the formats of minisign.
Files that exist are not overwritten. Without a password the secret key is not
encrypted.`,
		Example: `  awaken-host plugin keygen keys/tools
  awaken-host plugin keygen keys/tools --password-file -`,
		Args: arguments(1, 1, "one name for the two files"),
	}
	a.passwordFlag(cmd, &passwordFile)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		pub, key := args[0]+".pub", args[0]+".key"
		password, err := a.password(ctx, passwordFile, true)
		if err != nil {
			return err
		}
		if password != "" && !a.quiet {
			a.say("encrypting the secret key, which takes a few seconds: the cost of guessing, too")
		}
		if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
			return usageError{err}
		}
		id, err := standard.GenerateKey(pub, key, password)
		if err != nil {
			return err
		}
		if a.format == formatJSON {
			err = a.writeValue(map[string]string{"key_id": id, "public_key": pub, "secret_key": key})
		} else {
			err = a.write([]byte((&table{rows: [][]string{{"key id", id}, {"public key", pub}, {"secret key", key}}}).render(a.width)))
		}
		if !a.quiet {
			a.say("to trust what it signs, in host.toml:\n  [trust]\n  keys = [{ file = %s, plugins = [\"…\"] }]", strconv.Quote(pub))
		}
		return err
	})
	return cmd
}

func (a *app) signCommand() *cobra.Command {
	key, passwordFile, update := "", "", false
	cmd := &cobra.Command{
		Use:   "sign DIR --key FILE",
		Short: "Sign a plugin: its manifest, and through the manifest its code",
		Long: `Checks the manifest of the plugin in DIR, fills in the module's digest where it is
empty, and writes the signature beside it. A digest of another module is refused
unless --update-digest is given.`,
		Example: `  awaken-host plugin sign plugins/text --key keys/tools.key
  awaken-host plugin sign plugins/text --key keys/tools.key --update-digest`,
		Args:              arguments(1, 1, "the plugin's folder"),
		ValidArgsFunction: directories,
	}
	flags := cmd.Flags()
	flags.StringVar(&key, "key", "", "the secret key file")
	flags.BoolVar(&update, "update-digest", false, "replace the digest in the manifest when the module was built anew")
	_ = cmd.MarkFlagFilename("key")
	a.passwordFlag(cmd, &passwordFile)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if key == "" {
			return usagef("--key is needed: name a secret key, or make one with: awaken-host plugin keygen keys/tools")
		}
		password, err := a.password(ctx, passwordFile, false)
		if err != nil {
			return err
		}
		r, err := standard.Sign(args[0], key, password, update)
		if err != nil {
			return err
		}
		if a.format == formatJSON {
			return a.writeValue(r)
		}
		t := &table{}
		t.add("plugin", r.ID+" "+r.Version)
		t.add("key id", r.Signer)
		t.add("manifest", "sha256 "+r.Digest)
		t.add("module", "sha256 "+r.ModuleDigest)
		t.add("tools", strings.Join(r.Tools, " "))
		t.add("signature", r.SignatureFile)
		return a.write([]byte(t.render(a.width)))
	})
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	var pubs []string
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Verify a plugin as the host would before loading it",
		Long: `Verifies the plugin in DIR as the host would before loading it: signature, trust
and the module's digest. Trust is that of the host file, or the public keys given
with --pub.`,
		Example: `  awaken-host plugin verify plugins/text
  awaken-host plugin verify plugins/text --pub keys/tools.pub`,
		Args:              arguments(1, 1, "the plugin's folder"),
		ValidArgsFunction: directories,
	}
	cmd.Flags().StringArrayVar(&pubs, "pub", nil, "a public key file to trust, instead of the host file; repeatable")
	_ = cmd.MarkFlagFilename("pub", "pub")
	cmd.RunE = a.do(func(_ context.Context, args []string) error {
		r, err := standard.Verify(args[0], pubs, a.config)
		if err != nil {
			return err
		}
		if a.format == formatJSON {
			return a.writeValue(r)
		}
		t := &table{}
		t.add("plugin", r.ID+" "+r.Version)
		t.add("trusted by", string(r.TrustedBy))
		t.add("key id", r.Signer)
		t.add("manifest", "sha256 "+r.Digest)
		t.add("module", "sha256 "+r.ModuleDigest)
		t.add("tools", strings.Join(r.Tools, " "))
		return a.write([]byte(t.render(a.width)))
	})
	return cmd
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func (a *app) passwordFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "password-file", "", "file with the secret key's password; - asks for it, or reads standard input")
	_ = cmd.MarkFlagFilename("password-file")
}

// password reads the password of a secret key; without a file it is empty. A line
// end at its end is not part of it.
func (a *app) password(ctx context.Context, file string, twice bool) (string, error) {
	if file == "" {
		return "", nil
	}
	var text []byte
	var err error
	if in, ok := a.stdin.(*os.File); ok && file == "-" && isTerminal(in) {
		if text, err = a.ask(ctx, in, "password: "); err == nil && twice {
			var again []byte
			if again, err = a.ask(ctx, in, "password again: "); err == nil && !bytes.Equal(text, again) {
				return "", usagef("the two passwords differ")
			}
		}
	} else {
		text, _, err = a.readInput(ctx, file)
	}
	if err != nil {
		return "", err
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if password == "" {
		return "", usagef("--password-file %s: the password is empty", file)
	}
	return password, nil
}

// ask reads a line that is not shown. An interrupt must not leave the terminal
// without its echo.
func (a *app) ask(ctx context.Context, terminal *os.File, prompt string) ([]byte, error) {
	fd := int(terminal.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprint(a.stderr, prompt)
	text, err := interruptibly(ctx, func() ([]byte, error) { return term.ReadPassword(fd) })
	_, _ = fmt.Fprintln(a.stderr)
	if ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), term.Restore(fd, before))
	}
	return text, err
}

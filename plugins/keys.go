package plugins

import (
	"errors"
	"io/fs"
	"os"

	"aead.dev/minisign"
)

// GenerateKey makes a minisign key pair and writes it in the formats of the
// minisign tool: the public key to pubFile, the secret key to keyFile with mode
// 0600, encrypted unless password is empty. Existing files are refused, and after
// an error neither file is left. It returns the key id, 16 hex digits. Encrypting
// takes seconds and a GiB of memory: that is the cost of guessing, too.
func GenerateKey(pubFile, keyFile, password string) (string, error) {
	if pubFile == keyFile {
		return "", &LoadError{Class: ErrKey, File: keyFile, Problem: "public and secret key would share one file", Remedy: "name two files"}
	}
	for _, file := range []string{keyFile, pubFile} {
		if _, err := os.Lstat(file); err == nil {
			return "", keyExists(file)
		}
	}
	public, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		return "", &LoadError{Class: ErrKey, File: keyFile, Problem: "no key could be made", Err: err}
	}
	var secretText []byte
	if password == "" {
		secretText, err = secret.MarshalText()
	} else {
		secretText, err = minisign.EncryptKey(password, secret)
	}
	if err != nil {
		return "", &LoadError{Class: ErrKey, File: keyFile, Problem: "the key could not be encoded", Err: err}
	}
	id := keyID(public.ID())
	if err := createKeyFile(keyFile, append(secretText, '\n'), 0o600); err != nil {
		return "", err
	}
	publicText := "untrusted comment: minisign public key " + id + "\n" + public.String() + "\n"
	if err := createKeyFile(pubFile, []byte(publicText), 0o644); err != nil {
		return "", errors.Join(err, os.Remove(keyFile))
	}
	return id, nil
}

func keyExists(file string) error {
	return &LoadError{Class: ErrKey, File: file, Problem: "it exists already and is not overwritten",
		Remedy: "name another file, or move this one away if nothing signed with it is in use"}
}

// createKeyFile writes a file that did not exist, or leaves nothing.
func createKeyFile(file string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return keyExists(file)
	}
	if err != nil {
		return &LoadError{Class: ErrKey, File: file, Problem: "the key file cannot be written", Err: err, Remedy: "check that its folder exists and is writable"}
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return &LoadError{Class: ErrKey, File: file, Problem: "the key file cannot be written", Err: errors.Join(err, os.Remove(file))}
	}
	return nil
}

// KeyEncrypted reports whether the secret key in keyFile needs a password.
func KeyEncrypted(keyFile string) (bool, error) {
	data, err := readSecretText(keyFile)
	return err == nil && minisign.IsEncrypted(data), err
}

func readSecretText(keyFile string) ([]byte, error) {
	data, err := readSmall(keyFile, maxKeyFileBytes)
	if err != nil {
		return nil, &LoadError{Class: ErrKey, File: keyFile, Problem: "the key file cannot be read", Err: err,
			Remedy: `name a secret key made by "awaken-host plugin keygen" or minisign -G`}
	}
	return data, nil
}

// readSecretKey reads a secret key of the minisign tool.
func readSecretKey(keyFile, password string) (minisign.PrivateKey, error) {
	var key minisign.PrivateKey
	data, err := readSecretText(keyFile)
	if err != nil {
		return key, err
	}
	bad := func(problem string, err error, remedy string) (minisign.PrivateKey, error) {
		return minisign.PrivateKey{}, &LoadError{Class: ErrKey, File: keyFile, Problem: problem, Err: err, Remedy: remedy}
	}
	if minisign.IsEncrypted(data) {
		if password == "" {
			return bad("the secret key is encrypted", nil, "give its password")
		}
		if key, err = minisign.DecryptKey(password, data); err != nil {
			return bad("the secret key cannot be decrypted", nil, "check the password; if it is right the file is damaged, restore it")
		}
	} else if err := key.UnmarshalText(data); err != nil {
		var public minisign.PublicKey
		if public.UnmarshalText(data) == nil {
			return bad("this is a public key", nil, "name the secret key")
		}
		return bad("the secret key is damaged", err, "restore it or make a new pair")
	}
	// The public half stands in the file next to the seed: a pair that does not
	// belong together must not sign, its signatures would give the key away.
	public, ok := key.Public().(minisign.PublicKey)
	probe := []byte("probe")
	if !ok || !minisign.Verify(public, probe, minisign.Sign(key, probe)) {
		return bad("the secret key is damaged", nil, "restore it or make a new pair")
	}
	return key, nil
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
)

func (e *engines) apiserver() string {
	return fmt.Sprintf("https://127.0.0.1:%d", e.settings.Ports["apiserver"])
}

// writeKubeconfig writes NAME.kubeconfig for the certificate of that name. JSON is
// YAML, too.
func (e *engines) writeKubeconfig(name string) (string, error) {
	entry := map[string]any{"certificate-authority-data": nil, "client-certificate-data": nil, "client-key-data": nil}
	for key, file := range map[string]string{
		"certificate-authority-data": "ca.crt", "client-certificate-data": name + ".crt", "client-key-data": name + ".key",
	} {
		text, err := os.ReadFile(e.pki(file))
		if err != nil {
			return "", err
		}
		entry[key] = text // []byte is base64 in JSON
	}
	authority := entry["certificate-authority-data"]
	delete(entry, "certificate-authority-data")
	text, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []any{map[string]any{"name": "test", "cluster": map[string]any{
			"server": e.apiserver(), "certificate-authority-data": authority,
		}}},
		"users":    []any{map[string]any{"name": name, "user": entry}},
		"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": name, "namespace": namespace}}},
	}, "", "  ")
	if err != nil {
		return "", err
	}
	file := e.path("kube", name+".kubeconfig")
	return file, os.WriteFile(file, text, 0o600)
}

var userName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// userKubeconfig makes a user: a certificate that the cluster's authority signed.
func (e *engines) userKubeconfig(user string, groups []string) (string, error) {
	if !userName.MatchString(user) {
		return "", fmt.Errorf("user %q: only small letters, digits, dots and dashes may be in it", user)
	}
	if _, err := os.Stat(e.pki("done")); err != nil {
		return "", errors.New("there is no cluster: engines up")
	}
	name := "user-" + user
	if err := e.issue(name, user, groups); err != nil {
		return "", err
	}
	return e.writeKubeconfig(name)
}

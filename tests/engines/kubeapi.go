package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// apiClient is the administrator, with the few requests that starting needs.
type apiClient struct {
	base string
	http *http.Client
}

func newPlainClient() *http.Client { return &http.Client{Timeout: 10 * time.Second} }

func (e *engines) apiClient() (*apiClient, error) {
	pair, err := tls.LoadX509KeyPair(e.pki("admin.crt"), e.pki("admin.key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(e.pki("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s: no certificate", e.pki("ca.crt"))
	}
	client := newPlainClient()
	client.Transport = &http.Transport{
		TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS13},
	}
	return &apiClient{base: e.apiserver(), http: client}, nil
}

// statusError is an answer that is no success.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

func isStatus(err error, code int) bool {
	var s *statusError
	return errors.As(err, &s) && s.code == code
}

// do sends a request with a body or nil, and decodes the answer into out or nil.
func (c *apiClient) do(ctx context.Context, method, path string, body, out any) error {
	var r io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, r)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		return &statusError{answer.StatusCode, fmt.Sprintf("%s %s: %s: %s", method, path, answer.Status, bytes.TrimSpace(text))}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

func (c *apiClient) ready(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "/readyz", nil, nil)
}

func (c *apiClient) nodeReady(ctx context.Context) error {
	var node struct {
		Status struct {
			Conditions []struct {
				Type, Status, Message string
				LastHeartbeatTime     time.Time
			}
		}
	}
	if err := c.do(ctx, http.MethodGet, "/api/v1/nodes/"+nodeName, nil, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		// What a kubelet said that was killed since is still there.
		if condition.Type == "Ready" && condition.Status == "True" && time.Since(condition.LastHeartbeatTime) < 30*time.Second {
			return nil
		} else if condition.Type == "Ready" {
			return fmt.Errorf("the node: Ready is %s: %s", condition.Status, condition.Message)
		}
	}
	return errors.New("the node has not said that it is ready")
}

// create makes an object, or leaves the one of that name.
func (c *apiClient) create(ctx context.Context, path string, object any) error {
	err := c.do(ctx, http.MethodPost, path, object, nil)
	if isStatus(err, http.StatusConflict) {
		return nil
	}
	return err
}

// makeNamespace makes the namespace of the tests, and what a controller manager would
// make in it: Pods that do not refuse one get a service account's token.
func (c *apiClient) makeNamespace(ctx context.Context, authority string) error {
	text, err := os.ReadFile(authority)
	if err != nil {
		return err
	}
	err = c.create(ctx, "/api/v1/namespaces", map[string]any{
		"metadata": map[string]any{"name": namespace, "labels": map[string]any{
			"pod-security.kubernetes.io/enforce": "restricted",
		}},
	})
	if err != nil {
		return err
	}
	within := "/api/v1/namespaces/" + namespace
	if err := c.create(ctx, within+"/serviceaccounts", map[string]any{"metadata": map[string]any{"name": "default"}}); err != nil {
		return err
	}
	return c.create(ctx, within+"/configmaps", map[string]any{
		"metadata": map[string]any{"name": "kube-root-ca.crt"}, "data": map[string]any{"ca.crt": string(text)},
	})
}

// tryPod runs a Pod to its end, and sees that one is refused which asks for more than
// the restricted profile lets it have.
func (c *apiClient) tryPod(ctx context.Context, image string) error {
	pods := "/api/v1/namespaces/" + namespace + "/pods"
	name := fmt.Sprintf("ready-%d", time.Now().UnixNano())
	container := map[string]any{"name": "ready", "image": image, "imagePullPolicy": "Never", "command": []string{"true"}}
	pod := map[string]any{
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
			"containers": []any{container},
		},
	}
	if err := c.do(ctx, http.MethodPost, pods, pod, nil); !isStatus(err, http.StatusForbidden) {
		return fmt.Errorf("a Pod that breaks the restricted profile was not refused: %w", err)
	}
	container["securityContext"] = map[string]any{
		"allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 65534,
		"capabilities": map[string]any{"drop": []string{"ALL"}}, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
	}
	if err := c.do(ctx, http.MethodPost, pods, pod, nil); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = c.do(ctx, http.MethodDelete, pods+"/"+name+"?gracePeriodSeconds=0", nil, nil) // it has ended already
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var now struct{ Status json.RawMessage }
		if err := c.do(ctx, http.MethodGet, pods+"/"+name, nil, &now); err != nil {
			return err
		}
		var status struct{ Phase string }
		if err := json.Unmarshal(now.Status, &status); err != nil {
			return err
		}
		switch {
		case status.Phase == "Succeeded":
			return nil
		case status.Phase == "Failed" || time.Now().After(deadline):
			return fmt.Errorf("pod %s: %s", name, now.Status)
		}
	}
}

package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is the folder with the cluster's certificates: NAME.crt and NAME.key, those of
// the authority as "ca".
func (e *engines) pki(name string) string { return e.path("kube", "pki", name) }

// writeCertificates makes all of them once.
func (e *engines) writeCertificates() error {
	if _, err := os.Stat(e.pki("done")); err == nil {
		return nil
	}
	for _, c := range []struct {
		name, user string
		groups     []string
	}{
		{"ca", "awaken-test-authority", nil},
		{"apiserver", "apiserver", nil},
		{"admin", "admin", []string{"system:masters"}},
		{"apiserver-kubelet", "apiserver-kubelet", []string{"system:masters"}},
		{"scheduler", "system:kube-scheduler", nil},
		{"node", "system:node:" + nodeName, []string{"system:nodes"}},
	} {
		if err := e.issue(c.name, c.user, c.groups); err != nil {
			return err
		}
	}
	key, err := writeKey(e.pki("service-accounts.key"))
	if err != nil {
		return err
	}
	text, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	if err := writePEM(e.pki("service-accounts.pub"), "PUBLIC KEY", text); err != nil {
		return err
	}
	return os.WriteFile(e.pki("done"), nil, 0o600)
}

// issue writes a certificate and its key; the one named "ca" signs itself and all
// others. Each may serve on loopback and be a client.
func (e *engines) issue(name, user string, groups []string) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user, Organization: groups},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true,
	}
	key, err := writeKey(e.pki(name + ".key"))
	if err != nil {
		return err
	}
	parent, signer := c, crypto.Signer(key)
	if name == "ca" {
		c.IsCA, c.KeyUsage, c.DNSNames, c.IPAddresses, c.ExtKeyUsage = true, x509.KeyUsageCertSign, nil, nil, nil
	} else {
		pair, err := tls.LoadX509KeyPair(e.pki("ca.crt"), e.pki("ca.key"))
		if err != nil {
			return err
		}
		var ok bool
		if signer, ok = pair.PrivateKey.(crypto.Signer); !ok {
			return fmt.Errorf("%s does not sign", e.pki("ca.key"))
		}
		parent = pair.Leaf
	}
	text, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	return writePEM(e.pki(name+".crt"), "CERTIFICATE", text)
}

func writeKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(file, "PRIVATE KEY", text)
}

func writePEM(file, kind string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: text}), 0o600)
}

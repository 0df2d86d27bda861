package egress

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Limits of a Guard where Options give none.
const (
	DefaultTimeout  = 30 * time.Second
	DefaultMaxBytes = 8 << 20 // of a request's body, and of an answer's
)

// Options are the operator's. They are copied.
type Options struct {
	// Proxy is where all requests go through, except those to this machine
	// (localhost, 127.0.0.0/8, ::1), which nothing else could answer. See
	// plugins.ParseProxy. Nil: none; the environment is not asked.
	Proxy *url.URL
	// Roots are the certificate authorities to trust. Nil: the system's. See
	// LoadRoots.
	Roots *x509.CertPool
	// Timeout bounds one request with its redirects and its answer. 0:
	// DefaultTimeout.
	Timeout time.Duration
	// MaxRequestBytes and MaxResponseBytes bound bodies. 0: DefaultMaxBytes.
	MaxRequestBytes  int64
	MaxResponseBytes int64
	// Resolver resolves names. Nil: net.DefaultResolver. What it answers is not
	// trusted: addresses are checked when they are dialled.
	Resolver *net.Resolver
}

// Guard makes sessions. It is safe for concurrent use.
type Guard struct {
	opts Options
}

// New returns a Guard. It holds nothing that needs to be closed.
func New(o Options) (*Guard, error) {
	if o.Timeout < 0 || o.MaxRequestBytes < 0 || o.MaxResponseBytes < 0 {
		return nil, errors.New("egress: a limit is negative")
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxRequestBytes == 0 {
		o.MaxRequestBytes = DefaultMaxBytes
	}
	if o.MaxResponseBytes == 0 {
		o.MaxResponseBytes = DefaultMaxBytes
	}
	if o.Proxy != nil {
		proxy, err := plugins.ParseProxy(o.Proxy.String())
		if err != nil {
			return nil, fmt.Errorf("egress: the proxy %w", err)
		}
		o.Proxy = proxy
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	return &Guard{opts: o}, nil
}

// MaxRequestBytes is the most that the body of one request may have.
func (g *Guard) MaxRequestBytes() int64 { return g.opts.MaxRequestBytes }

// LoadRoots returns the system's certificate authorities and those in a PEM file.
func LoadRoots(file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: there is no certificate in it, write certificates of authorities in PEM form", file)
	}
	return pool, nil
}

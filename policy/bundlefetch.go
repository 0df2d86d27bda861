package policy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// maxTagBytes bounds an ETag, which is kept and sent back.
const maxTagBytes = 512

// fetched is what a server answered: the archive with its ETag, or that it still is
// the one whose ETag was sent.
type fetched struct {
	raw  []byte
	etag string
	same bool
}

// newClient makes the client of one bundle. It takes no proxy from the environment,
// and follows no redirect that would carry the token elsewhere or leave TLS.
func newClient(o *BundleOptions) (*http.Client, error) {
	t := &http.Transport{
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // the archive is, and its size is bounded as sent
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        5 * time.Second,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if o.Proxy != "" {
		u, err := url.Parse(o.Proxy)
		if err != nil {
			return nil, fmt.Errorf("the proxy of bundle %s is no URL", o.Name)
		}
		t.Proxy = http.ProxyURL(u)
	}
	if o.CAFile != "" {
		pem, err := readRegular(o.CAFile, 1<<20)
		if err != nil {
			return nil, Problems{{File: o.CAFile, Message: fmt.Sprintf("ca_file of bundle %s cannot be read: %v", o.Name, cause(err))}}
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, Problems{{File: o.CAFile, Message: fmt.Sprintf("ca_file of bundle %s holds no certificate in PEM form", o.Name)}}
		}
		t.TLSClientConfig.RootCAs = pool
	}
	withToken := o.Token != nil
	return &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		switch first := via[0].URL; {
		case len(via) > 3:
			return errors.New("the server redirects more than three times")
		case first.Scheme == "https" && r.URL.Scheme != "https":
			return errors.New("the server redirects from https to http")
		case withToken && r.URL.Host != first.Host:
			return fmt.Errorf("the server redirects to %s, which must not see the token", r.URL.Host)
		case r.URL.Scheme != "https" && r.URL.Host != first.Host:
			return fmt.Errorf("the server redirects to %s over http, where everybody on the way could change it", r.URL.Host)
		}
		return nil
	}}, nil
}

// fetch downloads the archive at o.URL, or learns that it is still the one with etag.
// It ends after o.Timeout, however slowly bytes come. The error never holds the token
// or the query of the URL.
func fetch(ctx context.Context, c *http.Client, o *BundleOptions, etag string) (*fetched, error) {
	ctx, stop := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("the download took longer than %v", o.Timeout))
	defer stop()
	f, err := download(ctx, c, o, etag)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return f, err
}

func download(ctx context.Context, c *http.Client, o *BundleOptions, etag string) (*fetched, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL, nil)
	if err != nil {
		return nil, errors.New("its address is no URL")
	}
	r.Header.Set("User-Agent", "awaken-host")
	r.Header.Set("Accept", "application/gzip, application/vnd.openpolicyagent.bundles, application/octet-stream")
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	if o.Token != nil {
		token, err := o.Token(ctx)
		if err != nil {
			return nil, fmt.Errorf("its token cannot be had: %w", err)
		}
		if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return nil, errors.New("its token is empty or has characters that a header cannot carry")
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusNotModified && etag != "":
		return &fetched{etag: etag, same: true}, nil
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("the server answers %s; check the token", res.Status)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server answers %s", clip(res.Status, 80))
	case res.ContentLength > o.MaxBytes:
		return nil, tooLarge(o)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, o.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("the download broke off: %w", err)
	}
	if int64(len(raw)) > o.MaxBytes {
		return nil, tooLarge(o)
	}
	tag := res.Header.Get("ETag")
	if len(tag) > maxTagBytes {
		tag = ""
	}
	return &fetched{raw: raw, etag: tag}, nil
}

func tooLarge(o *BundleOptions) error {
	return fmt.Errorf("the archive is larger than %d MiB; raise max_mib, or take data out of it", o.MaxBytes>>20)
}

// withoutURL drops the address from an error of the client: its query may be secret.
func withoutURL(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

// address is a URL as people may see it.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an address that is no URL"
	}
	u.User, u.Fragment = nil, ""
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return u.String()
}

// checkAddress refuses where a bundle must not come from.
func checkAddress(o *BundleOptions) error {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("its url is not of the form https://host/path")
	}
	if u.User != nil {
		return errors.New("its url has a user in it; write the credential under token")
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		switch {
		case o.Token != nil:
			return errors.New("its token would be sent over http, for everybody on the way to read; use https")
		case o.AllowUnsigned:
			return errors.New("it may be unsigned and comes over http, so that everybody on the way could change it; use https, or sign it and remove allow_unsigned")
		}
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// readArchive reads a bundle on disk.
func readArchive(o *BundleOptions) ([]byte, error) {
	raw, err := readRegular(o.Path, o.MaxBytes)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, tooLarge(o)
	case errors.Is(err, os.ErrNotExist):
		return nil, errors.New("there is no such file")
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", cause(err))
	}
	return raw, nil
}

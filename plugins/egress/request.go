package egress

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/awaken-agents/awaken-host/plugins"
)

// Request is what somebody who is not trusted wants to send. It is not changed.
type Request struct {
	Method string // any case; empty: GET
	URL    string // absolute
	Header http.Header
	Body   []byte
	// MaxResponse bounds the body of the answer further than the Guard does, in
	// bytes. Negative: nothing is left. 0: no further.
	MaxResponse int64
}

const maxURL = 16 << 10 // bytes

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// origin is where a request goes, in the form that patterns match.
type origin struct {
	scheme, host string
	port         uint16
}

// String is a pattern that matches the origin and nothing else.
func (o origin) String() string {
	host := o.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	prefix := ""
	if o.scheme == "http" {
		prefix = "http://"
	}
	return prefix + host + ":" + strconv.Itoa(int(o.port))
}

// hop is one request of a chain of redirects.
type hop struct {
	method string
	url    *url.URL // host canonical, without user and fragment
	origin origin
	header http.Header
	body   []byte
}

// newHop checks and normalises what does not depend on what is granted.
func newHop(r *Request) (*hop, error) {
	h := &hop{method: strings.ToUpper(r.Method), body: r.Body}
	if h.method == "" {
		h.method = http.MethodGet
	}
	if !slices.Contains(methods, h.method) {
		return nil, fmt.Errorf("the method %.20q is not allowed, use one of %s", h.method, strings.Join(methods, ", "))
	}
	if len(r.URL) > maxURL {
		return nil, fmt.Errorf("the URL is longer than %d bytes", maxURL)
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed") // the error would quote it, and there may be a password in it
	}
	user := u.User
	if h.url, h.origin, err = normalize(u); err != nil {
		return nil, err
	}
	if h.header, err = checkHeader(r.Header, h.url.Host, len(r.Body)); err != nil {
		return nil, err
	}
	if user != nil && h.header.Get("Authorization") == "" {
		password, _ := user.Password()
		h.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	return h, nil
}

// normalize returns u as it is sent, and where that goes.
func normalize(u *url.URL) (*url.URL, origin, error) {
	o := origin{scheme: strings.ToLower(u.Scheme)}
	if o.scheme != "http" && o.scheme != "https" || u.Opaque != "" {
		return nil, o, errors.New("only URLs that begin with https:// or http:// can be requested")
	}
	var err error
	if o.host, err = plugins.CanonicalHost(u.Hostname()); err != nil {
		return nil, o, fmt.Errorf("the URL's host %w", err)
	}
	if strings.HasPrefix(u.Host, "[") != strings.Contains(u.Hostname(), ":") {
		return nil, o, errors.New("the URL's host is not a host")
	}
	o.port = 443
	if o.scheme == "http" {
		o.port = 80
	}
	clean := *u
	clean.Scheme, clean.User, clean.Fragment, clean.RawFragment = o.scheme, nil, "", ""
	clean.RawQuery = escapeSpaces(u.RawQuery)
	clean.Host = o.host
	if strings.Contains(o.host, ":") {
		clean.Host = "[" + o.host + "]"
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil, o, errors.New("the URL's port is not a number from 1 to 65535")
		}
		if uint16(n) != o.port {
			clean.Host += ":" + strconv.FormatUint(n, 10)
		}
		o.port = uint16(n)
	}
	return &clean, o, nil
}

// escapeSpaces keeps a query within its place in the request line. Other characters
// that end it are in no URL.
func escapeSpaces(query string) string { return strings.ReplaceAll(query, " ", "%20") }

// Headers that belong to the connection, or to the host.
var forbidden = []string{"Connection", "Expect", "Http2-Settings", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// checkHeader returns a copy of what may be sent. What says no more than is true
// anyway is left out, so that a library which always writes it works.
func checkHeader(given http.Header, host string, body int) (http.Header, error) {
	out := http.Header{}
	size := 0
	for name, values := range given {
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("%.40q is not the name of a header", name)
		}
		key := http.CanonicalHeaderKey(name)
		for _, v := range values {
			if size += len(name) + len(v) + 4; size > MaxHeaderBytes {
				return nil, fmt.Errorf("the header is larger than %d KiB", MaxHeaderBytes>>10)
			}
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, fmt.Errorf("the header %s holds a character that no header may have", key)
			}
			switch {
			case key == "Host" && strings.EqualFold(v, host),
				key == "Content-Length" && v == strconv.Itoa(body),
				key == "Connection" && (strings.EqualFold(v, "close") || strings.EqualFold(v, "keep-alive")):
				continue
			case key == "Host":
				return nil, errors.New("the header Host cannot name another host than the URL")
			case key == "Content-Length":
				return nil, errors.New("the header Content-Length is not the length of the body")
			case slices.Contains(forbidden, key) || strings.HasPrefix(key, "Proxy-"):
				return nil, fmt.Errorf("the header %s is the host's to set", key)
			}
			out[key] = append(out[key], v)
		}
	}
	if _, set := out["User-Agent"]; !set {
		out.Set("User-Agent", "awaken-host")
	}
	return out, nil
}

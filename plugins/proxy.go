package plugins

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// ParseProxy reads the address of a proxy for what plugins request:
// "http://host:port", or with https or socks5, and with "user:password@" where the
// proxy asks for it. The error begins with a verb and quotes nothing, because there
// may be a password in it.
func ParseProxy(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Opaque != "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errors.New("is not the address of a proxy")
	}
	if !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		return nil, errors.New("has a scheme other than http, https and socks5")
	}
	if _, err := CanonicalHost(u.Hostname()); err != nil {
		return nil, errors.New("has a host that " + err.Error())
	}
	if _, err := parsePort(u.Port()); err != nil {
		return nil, errors.New("has no valid port")
	}
	u.Path = ""
	return u, nil
}

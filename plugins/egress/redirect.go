package egress

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
)

// maxRedirects is how many redirects one request may follow.
const maxRedirects = 10

// Headers that say nothing about who asks. Only these go to another origin: a key
// can stand in a header of any name.
var impersonal = []string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control",
	"Content-Encoding", "Content-Language", "Content-Type", "Pragma", "User-Agent",
}

// redirect returns what an answer asks to request next, nil when it is the last.
// Methods change as browsers change them (Fetch, HTTP-redirect fetch).
func (h *hop) redirect(resp *http.Response) (*hop, error) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	location := resp.Header.Get("Location")
	if location == "" {
		return nil, nil
	}
	if len(location) > maxURL {
		return nil, errors.New("it redirects to a URL that is too long")
	}
	to, err := url.Parse(location)
	if err != nil {
		return nil, errors.New("it redirects to what is not a URL")
	}
	next := &hop{method: h.method, body: h.body, header: h.header.Clone()}
	if next.url, next.origin, err = normalize(h.url.ResolveReference(to)); err != nil {
		return nil, errors.New("it redirects to what cannot be requested: " + err.Error())
	}
	if next.origin != h.origin {
		for name := range next.header {
			if !slices.Contains(impersonal, name) {
				delete(next.header, name)
			}
		}
	}
	code := resp.StatusCode
	if code == http.StatusSeeOther && h.method != http.MethodHead ||
		(code == http.StatusMovedPermanently || code == http.StatusFound) && h.method == http.MethodPost {
		next.method, next.body = http.MethodGet, nil
		for _, name := range []string{"Content-Encoding", "Content-Language", "Content-Type"} {
			next.header.Del(name)
		}
	}
	return next, nil
}

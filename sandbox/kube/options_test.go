package kube

import (
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
)

func TestOptionsImages(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for _, c := range []struct {
		image, hand string
		ok          bool
	}{
		{"registry.example:5000/tools/base" + digest, "", true},
		{"base" + digest, "hand" + digest, true},
		{"", "", false},
		{"base", "", false},
		{"base:latest", "", false},
		{"base:latest" + digest, "", true},
		{"base@sha256:0a", "", false},
		{digest, "", false},
		{"base" + digest + "\n", "", false},
		{"base" + strings.ToUpper(digest), "", false},
		{"base" + digest, "hand:latest", false},
	} {
		_, err := Options{Image: c.image, HandImage: c.hand}.settled()
		if (err == nil) != c.ok {
			t.Errorf("image %q, hand %q: %v", c.image, c.hand, err)
		}
		if err != nil && sandbox.ReasonOf(err) != sandbox.ReasonDigest {
			t.Errorf("image %q, hand %q: reason %q", c.image, c.hand, sandbox.ReasonOf(err))
		}
	}
}

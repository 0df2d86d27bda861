package sandbox

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox/sandboxtest"
)

var imageLines = regexp.MustCompile(`(?m)^(?:hand_)?image = .*\n`)

// TestOwnImage makes a call in our own image, which has nothing but the Hand, wherever
// images are used. In k8s the Hand is the image's own.
func TestOwnImage(t *testing.T) {
	for _, tier := range []string{"docker", "podman", "k8s"} {
		t.Run(tier, func(t *testing.T) {
			lines := imageLines.ReplaceAllString(settings(t, tier), "")
			image := fmt.Sprintf("image = %q\n", sandboxtest.HandImage(t))
			w := newWorldWith(t, tier, "", image+lines, "plugins/pattern")
			arguments := map[string]string{"pattern": "(b+)", "text": "abba", "replacement": "[${1}]"}
			got := w.batch("own", call{"replace", "pattern__replace", arguments}).Results[0]
			if want := `[{"text":"a[bb]a","type":"text"}]`; compact(t, got.Content) != want || got.IsError || got.tier() != tier {
				t.Errorf("%s in tier %q", got.Content, got.tier())
			}
		})
	}
}

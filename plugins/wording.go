package plugins

import (
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/awaken-agents/awaken-host/plugins/strictjson"
)

// didYouMean returns `, did you mean "…"?` when one of known is close to got.
func didYouMean(got string, known []string) string {
	best, bound := "", max(2, len(got)/3)+1
	if len(got) > 64 {
		return ""
	}
	for _, k := range known {
		if d := levenshtein.ComputeDistance(strings.ToLower(got), strings.ToLower(k)); d < bound && d < len(k) {
			best, bound = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

func orList(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
}

func clip(text string, n int) string { return strictjson.Clip(text, n) }

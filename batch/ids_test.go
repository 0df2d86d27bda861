package batch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

// Who is told that an id is wrong sees the character that is, as it was written.
func TestBadIDsNameTheCharacter(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{batch.RunID("é").Validate(), `run id "é" has 'é' at byte 0`},
		{batch.RunID("a b").Validate(), "has a space at byte 1"},
		{batch.RunID("a\xff").Validate(), "has the byte 0xff at byte 1"},
		{batch.RunID("ab/").Validate(), "has '/' at byte 2"},
		{batch.TicketID("tk-\u200b").Validate(), `has '\u200b' at byte 3`},
		{batch.CallID(" ").Validate(), `call id " " has a space at byte 0, allowed is printable ASCII without spaces`},
		{batch.CallID("c\n").Validate(), `has '\n' at byte 1`},
		{batch.CallID("cü").Validate(), `has 'ü' at byte 1`},
	} {
		if !errors.Is(tc.err, batch.ErrBadID) || !strings.Contains(tc.err.Error(), tc.want) {
			t.Errorf("%v, want %s", tc.err, tc.want)
		}
	}
	for _, id := range []batch.CallID{"c", "toolu_01A", "call:1/2~!"} {
		if err := id.Validate(); err != nil {
			t.Error(err)
		}
	}
}

package batch_test

import (
	"errors"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

// TestToolErrorText: a cause is said once.
func TestToolErrorText(t *testing.T) {
	cause := errors.New("no such image")
	for _, c := range []struct {
		err  batch.ToolError
		want string
	}{
		{batch.ToolError{Kind: batch.ToolErrorPlacement, Msg: "it cannot run"}, "placement: it cannot run"},
		{batch.ToolError{Kind: batch.ToolErrorPlacement, Msg: "it cannot run", Err: cause}, "placement: it cannot run: no such image"},
		{batch.ToolError{Kind: batch.ToolErrorPlacement, Msg: "it cannot run: no such image", Err: cause}, "placement: it cannot run: no such image"},
		{batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "no such image was", Err: cause}, "execution: no such image was: no such image"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if c.err.Err != nil && !errors.Is(&c.err, cause) {
			t.Errorf("%v does not wrap its cause", &c.err)
		}
	}
}

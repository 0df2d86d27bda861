package plugins

import (
	"errors"
	"strings"
	"testing"

	"github.com/awaken-agents/awaken-host/batch"
)

const secretText = "s3cr3t-value-of-a-token"

func TestRedactError(t *testing.T) {
	known := &Redactor{}
	known.Add("API_TOKEN", []byte(secretText))
	cause := errors.New("cause")
	redact := func(err error) error {
		_, err = known.Result(&batch.Call{ID: "c"}, nil, err, 1)
		return err
	}
	clean := &batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "said nothing", Err: cause}
	if err := redact(clean); !errors.Is(err, cause) {
		t.Errorf("an error without secrets changed: %v", err)
	}
	for _, err := range []error{
		&batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "said " + secretText},
		&batch.ToolError{Kind: batch.ToolErrorExecution, Msg: "said", Err: errors.New(secretText)},
	} {
		var te *batch.ToolError
		got := redact(err)
		if !errors.As(got, &te) || te.Kind != batch.ToolErrorExecution || !strings.Contains(got.Error(), "[redacted:API_TOKEN]") {
			t.Errorf("got %v", got)
		}
		if strings.Contains(got.Error(), secretText) {
			t.Errorf("%v shows it", got)
		}
	}
	if got := redact(errors.New(secretText)); got.Error() != "[redacted:API_TOKEN]" {
		t.Errorf("got %v", got)
	}
}

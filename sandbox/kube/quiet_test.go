package kube

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// TestClientGoIsQuiet: what it calls an unhandled error is a detail, and goes where the
// host logs.
func TestClientGoIsQuiet(t *testing.T) {
	for level, want := range map[slog.Level]string{slog.LevelError: "", slog.LevelDebug: "level=DEBUG"} {
		var log bytes.Buffer
		klog.SetSlogLogger(slog.New(demoted{slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})}))
		t.Cleanup(klog.ClearLogger)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		stderr := os.Stderr
		os.Stderr = w
		utilruntime.HandleErrorWithContext(context.Background(), errors.New("the stream broke"), "Unhandled Error")
		klog.Warning("a warning")
		os.Stderr = stderr
		_ = w.Close()
		var said bytes.Buffer
		if _, err := said.ReadFrom(r); err != nil || said.Len() > 0 {
			t.Errorf("standard error has %q, %v", said.String(), err)
		}
		text := log.String()
		if want == "" && text != "" || want != "" && (strings.Count(text, want) != 2 || !strings.Contains(text, "the stream broke")) {
			t.Errorf("at level %v the log has %q", level, text)
		}
	}
}

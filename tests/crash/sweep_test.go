package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(lifeVariable); text != "" {
		beAlive(text)
	}
	os.Exit(m.Run())
}

// newStage builds a stage of its own for a test, with options appended to its host.toml.
// What it leaves behind when the test fails is for people to look at.
func newStage(t *testing.T, options string) (config, dir string) {
	t.Helper()
	guests := filepath.Join("..", "..", "bin", "guests")
	if _, err := os.Stat(filepath.Join(guests, effectPlugin, "plugin.toml")); errors.Is(err, fs.ErrNotExist) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the plugin %s is not built in %s; %s", effectPlugin, guests, howToBuild)
		}
		t.Skipf("the plugin %s is not built; %s", effectPlugin, howToBuild)
	}
	dir, err := os.MkdirTemp("", "awaken-crash-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("kept:", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if config, err = buildStage(dir, guests); err != nil {
		t.Fatal(err)
	}
	if options != "" {
		text, err := os.ReadFile(config)
		if err == nil {
			err = os.WriteFile(config, append(text, options...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return config, dir
}

// TestSweep is the short form of the sweep: a sample of the commits and effects.
func TestSweep(t *testing.T) {
	config, dir := newStage(t, "")
	s := &sweep{config: config, dir: dir, seed: uint64(os.Getpid()), stride: 20, kills: 40, workers: 2}
	tally, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range tally.violations {
		t.Error(v)
	}
	if tally.kills < 40 || tally.random == 0 || len(tally.points) < 4 {
		t.Errorf("%d kills, %d at random times, at %d points", tally.kills, tally.random, len(tally.points))
	}
	for _, kind := range []string{kindClient, kindScheduled, kindConfirmed, kindDelegated, kindParallel, kindCancelled} {
		if tally.phases[kind] == nil {
			t.Errorf("no kill found a call of kind %q", kind)
		}
	}
	t.Logf("%d kills in %d worlds", tally.kills, tally.worlds)
}

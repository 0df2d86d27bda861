package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if text := os.Getenv(lifeVariable); text != "" {
		beAlive(text)
	}
	kills := flag.Int("kills", 1000, "kill at least `N` processes")
	seed := flag.Uint64("seed", 1, "of the plan of kills")
	report := flag.String("report", "", "write the report to `FILE`")
	guests := flag.String("guests", "bin/guests", "`FOLDER` of the built guests")
	flag.Parse()
	if flag.NArg() > 0 || *kills < 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := longForm(*kills, *seed, *guests, *report); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}

// beAlive makes this process a life; it does not return.
func beAlive(text string) {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fail("%s: %v", lifeVariable, err)
	}
	live(o)
}

// longForm is the long form.
func longForm(kills int, seed uint64, guests, report string) error {
	dir, err := os.MkdirTemp("", "awaken-crash-")
	if err != nil {
		return err
	}
	config, err := buildStage(dir, guests)
	if err != nil {
		return err
	}
	s := &sweep{config: config, dir: dir, seed: seed, stride: 1, kills: kills, workers: 2, tell: progress(kills)}
	t, err := s.run()
	fmt.Fprintln(os.Stderr)
	if err != nil {
		return err
	}
	if n := len(t.violations); n > 0 {
		return fmt.Errorf("%d violations in %d kills, in worlds that are kept in %s", n, t.kills, dir)
	}
	fmt.Printf("%d kills in %d worlds, 0 violations\n", t.kills, t.worlds)
	if report != "" {
		if err := writeReport(report, t); err != nil {
			return err
		}
		fmt.Println("wrote", report)
	}
	return os.RemoveAll(dir)
}

// progress shows how far the sweep is: in one line on a terminal, else in a line now
// and then.
func progress(kills int) func(tally) {
	began, last, told := time.Now(), 0, 0
	terminal := false
	if st, err := os.Stderr.Stat(); err == nil {
		terminal = st.Mode()&os.ModeCharDevice != 0
	}
	return func(t tally) {
		text := fmt.Sprintf("%d of %d kills, %d worlds, %d violations, %s",
			t.kills, kills, t.worlds, len(t.violations), time.Since(began).Round(time.Second))
		for ; told < len(t.violations); told++ {
			fmt.Fprintf(os.Stderr, "\nviolation: %s\n", t.violations[told])
		}
		switch {
		case terminal:
			fmt.Fprintf(os.Stderr, "\r%s\x1b[K", text)
		case t.kills >= last+100:
			last = t.kills
			fmt.Fprintln(os.Stderr, text)
		}
	}
}

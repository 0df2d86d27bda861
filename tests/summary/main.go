// Summary reads the events of "go test -json" and prints what a person wants of
// them: the usual line of each package, the whole output of each test that failed,
// why tests were skipped, and how many of each there were.
//
//	go test -json ./... | summary [-no-skips]
//
// It fails when a test or a build failed, when no test ran, and with -no-skips when
// one was skipped.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	noSkips := flag.Bool("no-skips", false, "fail when a test was skipped")
	flag.Parse()
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
	if !s.close(*noSkips) {
		os.Exit(1)
	}
}

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

type test struct{ pkg, name string }

type timing struct {
	test
	seconds float64
}

type summary struct {
	out                     io.Writer
	running                 map[test][]string // output so far of tests that have not ended
	passed, failed, skipped int
	broken                  int // packages that failed outside of a test
	failedTests             map[string]int
	times                   []timing
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, running: map[test][]string{}, failedTests: map[string]int{}}
}

func (s *summary) read(in io.Reader) error {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadString('\n')
		var e event
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &e) != nil || e.Action == "":
			s.print(line) // what is no event comes from the go command itself
		default:
			s.take(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) print(text string) { _, _ = io.WriteString(s.out, text) }

func (s *summary) take(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		s.print(e.Output)
	case "output":
		if e.Test != "" {
			s.running[t] = append(s.running[t], e.Output)
		} else if e.Output != "PASS\n" {
			s.print(e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e)
			return
		}
		s.times = append(s.times, timing{t, e.Elapsed})
		s.end(t, e.Action)
	}
}

func (s *summary) end(t test, action string) {
	switch action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
		s.failedTests[t.pkg]++
		s.print(strings.Join(s.running[t], ""))
	case "skip":
		s.skipped++
		s.print(strings.Join(s.running[t], ""))
	}
	delete(s.running, t)
}

// endPackage shows the tests that the end of the process cut short, and counts a
// package that failed although none of its tests did: a build, a panic, a time-out.
func (s *summary) endPackage(e event) {
	var cut []test
	for t := range s.running {
		if t.pkg == e.Package {
			cut = append(cut, t)
		}
	}
	slices.SortFunc(cut, func(a, b test) int { return cmp.Compare(a.name, b.name) })
	for _, t := range cut {
		s.end(t, "fail")
	}
	if e.Action == "fail" && s.failedTests[e.Package] == 0 {
		s.broken++
	}
}

// close prints the last lines and reports whether all is well.
func (s *summary) close(noSkips bool) bool {
	slices.SortStableFunc(s.times, func(a, b timing) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range s.times[:min(5, len(s.times))] {
		if t.seconds >= 1 && !strings.Contains(t.name, "/") {
			s.print(fmt.Sprintf("slow: %6.1fs %s %s\n", t.seconds, t.pkg, t.name))
		}
	}
	ok := true
	complain := func(wrong bool, text string) {
		if wrong {
			ok = false
			s.print(text + "\n")
		}
	}
	complain(s.broken > 0, fmt.Sprintf("packages that failed outside of a test: %d", s.broken))
	complain(s.passed+s.failed == 0, "no test ran")
	complain(noSkips && s.skipped > 0, "here no test may be skipped: install what the lines above name")
	s.print(fmt.Sprintf("%d passed, %d failed, %d skipped\n", s.passed, s.failed+s.broken, s.skipped))
	return ok && s.failed == 0
}

package main

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// strike is where a life ends.
type strike struct {
	aim    aim
	random bool // another process kills it, at any time
}

// plan is the ends of a world's lives, one after the other. The life after them ends
// by itself.
type plan []strike

// sweep plays worlds until it has killed enough.
type sweep struct {
	config  string // the stage
	dir     string // a folder for each world is made in it, and stays when it broke an invariant
	seed    uint64 // of the random times
	stride  int    // 1: strike at every commit and every effect; n: at every n-th
	kills   int    // go on with random worlds until this many
	workers int    // worlds at once
	tell    func(tally)

	commits, effects int           // of a world that nobody kills
	took             time.Duration // and how long its life is

	mu    sync.Mutex
	tally tally
	err   error
}

// maxViolations is when a sweep has seen enough.
const maxViolations = 10

// run plays all worlds. The error is a failure of the sweep itself; violations are in
// the tally.
func (s *sweep) run() (*tally, error) {
	s.tally = newTally()
	if err := s.measure(); err != nil {
		return nil, err
	}
	plans := make(chan plan)
	var wg sync.WaitGroup
	for range s.workers {
		wg.Go(func() {
			for p := range plans {
				if err := s.play(p); err != nil {
					s.mu.Lock()
					s.err = errors.Join(s.err, err)
					s.mu.Unlock()
				}
			}
		})
	}
	for p := range s.plans() {
		if s.stopped() {
			break
		}
		plans <- p
	}
	close(plans)
	wg.Wait()
	return &s.tally, s.err
}

func (s *sweep) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil || len(s.tally.violations) >= maxViolations
}

func (s *sweep) enough() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tally.kills >= s.kills
}

// plans are the worlds to play. A first life ends at each commit, just before and just
// after it is acknowledged; the second during what it does to recover, or soon after;
// the third at a random time. Then at each effect, and twice more at the effects that
// are repeated, until the attempts are used up. Then at random times only.
func (s *sweep) plans() iter.Seq[plan] {
	rng := rand.New(rand.NewPCG(s.seed, 0)) // #nosec G404 -- times of kills, not secrets
	return func(yield func(plan) bool) {
		for n := 1; n <= s.commits; n += s.stride {
			for _, after := range []bool{false, true} {
				second := aim{Commit: 1 + rng.IntN(6), After: rng.IntN(2) == 0}
				if !yield(plan{{aim: aim{Commit: n, After: after}}, {aim: second}, {random: true}}) {
					return
				}
			}
		}
		again := strike{aim: aim{Effect: 1, After: true}}
		for n := 1; n <= s.effects; n += s.stride {
			for _, after := range []bool{false, true} {
				if !yield(plan{{aim: aim{Effect: n, After: after}}, again, again}) {
					return
				}
			}
		}
		for !s.enough() {
			if !yield(plan{{random: true}, {random: true}, {random: true}, {random: true}}) {
				return
			}
		}
	}
}

// measure plays a world without a kill.
func (s *sweep) measure() error {
	w, err := s.newWorld()
	if err != nil {
		return err
	}
	e, violations, err := w.live(aim{}, 0)
	if err != nil {
		return err
	}
	if e.killed || len(violations) > 0 {
		return fmt.Errorf("a world that nobody kills breaks invariants: %s", violations)
	}
	journal, err := readLines[entry](filepath.Join(w.dir, journalName))
	if err != nil {
		return err
	}
	for _, x := range journal {
		if x.Commit != nil {
			s.commits++
		}
	}
	lines, err := readLines[happened](filepath.Join(w.dir, effectsName))
	s.effects, s.took = len(lines), e.took
	return errors.Join(err, os.RemoveAll(w.dir))
}

func (s *sweep) newWorld() (*world, error) {
	dir, err := os.MkdirTemp(s.dir, "world-")
	return newWorld(s.config, dir), err
}

// play brings one world to its end.
func (s *sweep) play(p plan) error {
	w, err := s.newWorld()
	if err != nil {
		return err
	}
	broken := false
	for i := 0; ; i++ {
		var x strike
		if i < len(p) {
			x = p[i]
		}
		var after time.Duration
		if x.random {
			after = time.Millisecond + rand.N(s.took) // #nosec G404 -- times of kills, not secrets
		}
		e, violations, err := w.live(x.aim, after)
		if err != nil {
			return fmt.Errorf("%s, life %d: %w", w.dir, w.lives, err)
		}
		broken = broken || len(violations) > 0
		s.count(w, e, violations)
		if !e.killed || broken {
			break
		}
	}
	s.mu.Lock()
	s.tally.world(w)
	s.mu.Unlock()
	if broken {
		return nil
	}
	return os.RemoveAll(w.dir)
}

func (s *sweep) count(w *world, e end, violations []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.life(e)
	for _, v := range violations {
		s.tally.violations = append(s.tally.violations, fmt.Sprintf("%s, life %d: %s", w.dir, w.lives, v))
	}
	if s.tell != nil {
		s.tell(s.tally)
	}
}

// tally is what a sweep has come to.
type tally struct {
	worlds, lives, kills int
	points               map[string]*[2]int        // commit point or effect to kills before and after it was noted
	random               int                       // kills at random times
	stages               map[stage]int             // kills by how far the life was
	phases               map[string]map[string]int // calls that kills found, by kind and phase
	violations           []string
}

func newTally() tally {
	return tally{points: map[string]*[2]int{}, stages: map[stage]int{}, phases: map[string]map[string]int{}}
}

func (t *tally) life(e end) {
	t.lives++
	if !e.killed {
		return
	}
	t.kills++
	t.stages[e.stage]++
	if e.where == "" {
		t.random++
		return
	}
	if t.points[e.where] == nil {
		t.points[e.where] = &[2]int{}
	}
	if e.after {
		t.points[e.where][1]++
	} else {
		t.points[e.where][0]++
	}
}

func (t *tally) world(w *world) {
	t.worlds++
	for kind, counts := range w.check.phases {
		if t.phases[kind] == nil {
			t.phases[kind] = map[string]int{}
		}
		for phase, n := range counts {
			t.phases[kind][phase] += n
		}
	}
}

package decisionlog

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// register hands what Stats counts to r, all of it or nothing, and returns how to take
// it back.
func (l *Log) register(r prometheus.Registerer) (func(), error) {
	if r == nil {
		return func() {}, nil
	}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "awaken", Subsystem: "decision_log", Name: name, Help: help}
	}
	counter := func(name, help string, of func(Stats) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts(opts(name, help)), func() float64 { return float64(of(l.Stats())) })
	}
	all := []prometheus.Collector{
		counter("written_total", "Decisions that were written, counted in each of file and buffer.", func(s Stats) uint64 { return s.Written }),
		counter("failed_total", "Attempts to write a decision that failed.", func(s Stats) uint64 { return s.Failed }),
		counter("uploaded_total", "Decisions that the server has taken.", func(s Stats) uint64 { return s.Uploaded }),
		counter("refused_total", "Decisions that the server refused and that were set aside.", func(s Stats) uint64 { return s.Refused }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("pending", "Decisions on disk that wait for the server.")),
			func() float64 { return float64(l.Stats().Waiting) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("behind", "1 while decisions of the ledger are missing in the log.")), func() float64 {
			if l.Stats().Behind {
				return 1
			}
			return 0
		}),
	}
	undo := func(done []prometheus.Collector) {
		for _, c := range done {
			r.Unregister(c)
		}
	}
	for i, c := range all {
		if err := r.Register(c); err != nil {
			undo(all[:i])
			if errors.As(err, new(prometheus.AlreadyRegisteredError)) {
				err = errors.New("another decision log has them there already; give each a registerer of its own, such as prometheus.WrapRegistererWith")
			}
			return nil, fmt.Errorf("decisionlog: metrics cannot be registered: %w", err)
		}
	}
	return func() { undo(all) }, nil
}

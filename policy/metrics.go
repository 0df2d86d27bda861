package policy

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/awaken-agents/awaken-host/batch"
)

// metrics are the collectors of one gate. They count whether or not anybody looks.
type metrics struct {
	reloads   *prometheus.CounterVec
	success   prometheus.Gauge
	revision  *prometheus.GaugeVec
	stale     *prometheus.GaugeVec
	fetches   *prometheus.CounterVec
	decisions *prometheus.CounterVec
	duration  prometheus.Histogram
}

// Values of the label result.
const (
	resultOK        = "ok"
	resultFailed    = "failed"
	resultUnchanged = "unchanged"
)

func newMetrics() *metrics {
	name := func(n, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "awaken", Subsystem: "policy", Name: n, Help: help}
	}
	counter := func(n, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(name(n, help)), labels)
	}
	gauge := func(n, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts(name(n, help)), labels)
	}
	m := &metrics{
		reloads:   counter("reloads_total", "Policies that were put in force (ok) or refused (failed).", "result"),
		success:   prometheus.NewGauge(prometheus.GaugeOpts(name("last_success_timestamp_seconds", "When the policy in force was put in force."))),
		revision:  gauge("revision_info", "1 for the revision in force.", "revision"),
		stale:     gauge("source_stale", "1 for a source whose last check failed.", "source"),
		fetches:   counter("bundle_fetches_total", "Downloads of bundles.", "bundle", "result"),
		decisions: counter("decisions_total", "Decisions by outcome.", "outcome"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "awaken", Subsystem: "policy", Name: "decision_duration_seconds", Help: "How long decisions took.",
			Buckets: []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1},
		}),
	}
	for _, r := range []string{resultOK, resultFailed} {
		m.reloads.WithLabelValues(r)
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.reloads, m.success, m.revision, m.stale, m.fetches, m.decisions, m.duration}
}

// register hands all collectors to r, or none.
func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for i, c := range m.collectors() {
		if err := r.Register(c); err != nil {
			for _, done := range m.collectors()[:i] {
				r.Unregister(done)
			}
			var twice prometheus.AlreadyRegisteredError
			if errors.As(err, &twice) {
				err = errors.New("another gate has them there already; give each gate a registerer of its own, such as prometheus.WrapRegistererWith")
			}
			return fmt.Errorf("policy: metrics cannot be registered: %w", err)
		}
	}
	return nil
}

// decided counts a decision; a gate that is only asked to explain has no metrics.
func (m *metrics) decided(d *batch.Decision) {
	if m == nil {
		return
	}
	m.decisions.WithLabelValues(string(d.Outcome)).Inc()
	m.duration.Observe(d.Elapsed.Seconds())
}

func (m *metrics) inForce(revision string, at time.Time) {
	m.reloads.WithLabelValues(resultOK).Inc()
	m.success.Set(float64(at.UnixNano()) / 1e9)
	m.revision.Reset()
	m.revision.WithLabelValues(revision).Set(1)
}

func (m *metrics) checked(source string, well bool) {
	v := 1.0
	if well {
		v = 0
	}
	m.stale.WithLabelValues(source).Set(v)
}

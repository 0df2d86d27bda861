package decisionlog

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func gathered(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		values[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return values
}

func TestMetrics(t *testing.T) {
	srv := newServer(t, false)
	s := toServer(t, srv)
	srv.say(always(503))
	r := prometheus.NewRegistry()
	s.o.Metrics = r
	l := s.open()
	s.decide(l, "a")
	breakSink(l, 0).set(errDisk)
	s.decide(l, "b")
	got := gathered(t, r)
	for name, want := range map[string]float64{
		"awaken_decision_log_written_total": 2, "awaken_decision_log_failed_total": 2, "awaken_decision_log_pending": 2,
		"awaken_decision_log_behind": 1, "awaken_decision_log_uploaded_total": 0, "awaken_decision_log_refused_total": 0,
	} {
		if v, there := got[name]; !there || v < want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	other := newScene(t)
	other.o.Metrics = r
	if _, err := Open(t.Context(), other.o); err == nil {
		t.Error("two logs share one registry")
	}
	srv.say(always(0))
	s.close(l)
	if left := gathered(t, r); len(left) != 0 {
		t.Errorf("after the end there are %v", left)
	}
}

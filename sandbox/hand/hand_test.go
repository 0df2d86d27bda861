package hand

import (
	"testing"

	"github.com/awaken-agents/awaken-host/sandbox"
)

func TestPureCall(t *testing.T) {
	for name, start := range map[string]func(*world) *world{
		"in process": (*world).inProcess,
		"as process": func(w *world) *world { return w.asProcess() },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(newWorld(t))
			key := w.give(tool(t, "plugins/calc"))
			out := w.call(key, "evaluate", `{"expression":"6*7"}`)
			t.Logf("%+v", out)
			var p sandbox.Properties
			if _, err := w.ask(sandbox.MethodProbe, nil, []byte{}, &p); err != nil {
				t.Fatal(err)
			}
			for name, f := range p {
				t.Logf("%s: %s %q %s", name, f.State, f.Level, f.Detail)
			}
		})
	}
}

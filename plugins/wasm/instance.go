package wasm

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"sync/atomic"
	"time"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/awaken-agents/awaken-host/plugins"
)

// instance is a live Extism plugin. One call at a time uses it.
type instance struct {
	plugin *extism.Plugin
	budget *budget
	stdout lineWriter
	stderr lineWriter
	tail   tail
	nap    nap
	files  *mountSet
	guest  *guestCall // the current call; nil between calls
	calls  int
	gone   atomic.Bool // one of its modules was closed

	// While nobody uses it:
	quota *quota
	held  uint64    // its part of the quota
	idle  time.Time // since when
}

// CloseNotify implements experimental.CloseNotifier: a guest can end itself with
// status 0, which looks like success and leaves a dead instance.
func (i *instance) CloseNotify(context.Context, uint32) { i.gone.Store(true) }

// extismWASIOutput is an environment variable with which Extism connects a guest's
// output to the process's own, whatever the module config says.
const extismWASIOutput = "EXTISM_ENABLE_WASI_OUTPUT"

func keepOutputPure(log *slog.Logger) {
	if _, set := os.LookupEnv(extismWASIOutput); set {
		_ = os.Unsetenv(extismWASIOutput)
		log.Warn("a variable that would let plugins write to the host's output was removed from the environment", "variable", extismWASIOutput)
	}
}

// newInstance instantiates the program for p, which has files from then on. Code of
// the guest runs here only if the module has a start section; ctx bounds it.
func newInstance(ctx context.Context, g *program, p *plugins.Plugin, memory uint64, files *mountSet, log *slog.Logger) (*instance, error) {
	i := &instance{budget: newBudget(memory, true), nap: nap{ctx: ctx}, files: files}
	i.stdout = lineWriter{level: slog.LevelInfo, source: "stdout"}
	i.stderr = lineWriter{level: slog.LevelWarn, source: "stderr", tail: &i.tail}
	keepOutputPure(log)
	config := worldOf(p, &i.nap).WithStdout(&i.stdout).WithStderr(&i.stderr)
	if len(files.jails) > 0 {
		config = config.WithFSConfig(files.addTo(wazero.NewFSConfig()))
	}
	ctx = experimental.WithCloseNotifier(experimental.WithMemoryAllocator(ctx, i.budget), i)
	plugin, err := g.extism.Instance(ctx, extism.PluginInstanceConfig{ModuleConfig: config})
	if err != nil {
		i.close()
		return i, err
	}
	i.plugin = plugin
	if i.budget.kernel == nil || (i.budget.guest == nil) == g.module.hasMem {
		i.close()
		return i, errors.New("the runtime did not ask for this instance's memory, so its limit cannot be held")
	}
	// Instances would share one map, and a plugin is never changed.
	plugin.Config = maps.Clone(p.Config)
	plugin.SetLogger(i.extismLog)
	return i, nil
}

// nap lets a guest's sleep end with its call: a blocked host function cannot be
// interrupted from outside. It remembers that it did, because a guest that was
// woken early goes on as if the time had passed.
type nap struct {
	ctx context.Context // of the current call
	cut bool
}

func (n *nap) sleep(ns int64) {
	if ns <= 0 {
		return
	}
	t := time.NewTimer(time.Duration(ns))
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.ctx.Done():
		n.cut = true
	}
}

func (i *instance) extismLog(level extism.LogLevel, message string) {
	if i.guest != nil {
		i.guest.log.say(slogLevel(level), "extism", message)
	}
}

func slogLevel(l extism.LogLevel) slog.Level {
	switch l {
	case extism.LogLevelTrace, extism.LogLevelDebug:
		return slog.LevelDebug
	case extism.LogLevelWarn:
		return slog.LevelWarn
	case extism.LogLevelError:
		return slog.LevelError
	}
	return slog.LevelInfo
}

// answer is what a call of an export came to.
type answer struct {
	status  uint32
	output  []byte
	message string // what the guest set as its error
	err     error  // a trap, an exit, or the end of ctx; the instance is unusable
}

// killGrace is how long after the end of a call's context the guest may take to
// notice before its instance is closed under it.
const killGrace = 250 * time.Millisecond

// call runs an export. It returns soon after ctx ends.
func (i *instance) call(ctx context.Context, export string, input []byte, guest *guestCall) (a answer) {
	i.nap, i.guest = nap{ctx: ctx}, guest
	guest.inst = i
	// Of the call before, which may have been another run's.
	i.plugin.LastStatusCode, i.plugin.LastResponseHeaders = 0, nil
	i.stdout.log, i.stderr.log = &guest.log, &guest.log
	i.tail.known = guest.log.known
	i.calls++
	i.budget.reset()
	i.tail.reset()
	stop := i.closeAfter(ctx)
	defer stop()

	a.status, a.output, a.err = i.plugin.CallWithContext(context.WithValue(ctx, guestCallKey{}, guest), export, input)
	if a.err != nil {
		// Extism returns the guest's own message as an error too, with nothing but the
		// text to tell it from a trap.
		if m := i.plugin.GetErrorWithContext(ctx); m != "" && m == a.err.Error() {
			a.message, a.err = m, nil
		}
	}
	if a.err == nil && i.nap.cut {
		a.err = context.Cause(ctx)
	}
	i.stdout.flush()
	i.stderr.flush()
	return a
}

// closeAfter closes the instance soon after ctx ends, unless stop is called before.
// Extism calls its own module without the call's context in places, and a guest can
// damage that module's memory so that it loops there.
func (i *instance) closeAfter(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		t := time.NewTimer(killGrace)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
			select {
			case <-done: // just now: the instance may be another call's
			default:
				i.close()
			}
		}
	})
	return func() {
		unhook()
		close(done)
	}
}

// maxKernelPages is the size of Extism's memory above which an instance is not
// used again: clearing it makes Extism grow it further, not use what is there.
const maxKernelPages = kernelPages + 128

// renew makes the instance ready for another call, false when it must not have
// one. Extism's memory goes back to the zeros it began with, because a guest can
// write anywhere in it, and a call would begin by trusting what it finds.
func (i *instance) renew() bool {
	i.nap, i.guest = nap{ctx: context.Background()}, nil
	i.files.begin(context.Background(), nil)
	i.stdout.log, i.stderr.log = nil, nil
	kernel := i.budget.kernel.buf
	if i.gone.Load() || len(kernel) > maxKernelPages*pageBytes || i.budget.used > i.budget.limit/4*3 {
		return false
	}
	// Of the first kernelPages it uses one, and all that it grew.
	clear(kernel[:len(kernel)-(kernelPages-1)*pageBytes])
	return true
}

// end closes an instance whose last call ended in order.
func (i *instance) end() {
	i.close()
	i.budget.recycle()
}

func (i *instance) close() {
	if i.plugin != nil {
		_ = i.plugin.CloseWithContext(context.Background())
	}
	i.files.close()
}

// discard closes an idle instance and gives its part of the quota back.
func (i *instance) discard() {
	i.close()
	i.use(0)
}

package wasm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	extism "github.com/extism/go-sdk"

	"github.com/awaken-agents/awaken-host/plugins"
	"github.com/awaken-agents/awaken-host/plugins/egress"
)

// Runtime compiles and runs modules. It is safe for concurrent use.
type Runtime struct {
	opts  Options
	log   *slog.Logger
	slots chan struct{} // one token per running call
	build chan struct{} // one token per running compilation
	quota *quota        // of memory

	base context.Context // ended by Close when it stops waiting
	kill context.CancelCauseFunc

	mu       sync.Mutex
	loaded   map[*plugins.Plugin]*loaded
	programs map[string]*program
	closed   bool
	calls    int           // Invoke and Load in progress
	drained  chan struct{} // closed when closed and calls is 0

	background sync.WaitGroup // loads and the janitor, not compilations

	folders   folders
	openFiles atomic.Int64 // that guests have
}

// loaded is a plugin with its program and its live instances.
type loaded struct {
	plugin  *plugins.Plugin
	program *program
	pool    pool
	http    *egress.Session
	places  chan struct{} // one token per running call, one place less than there are in all

	throttle *throttle
	warming  atomic.Bool // instances are being made ahead

	ready chan struct{} // closed when program or err is set
	err   error
	users int       // calls in progress; guarded by Runtime.mu
	used  time.Time // guarded by Runtime.mu
}

// drain lets go of what a plugin keeps between calls; none may be running.
func (l *loaded) drain() {
	l.pool.drain()
	l.http.Close()
}

// ErrClosed reports that the Runtime was closed.
var ErrClosed = errors.New("the Wasm runtime is closed")

// New returns a Runtime, which the caller closes. ctx is used for nothing but
// starting.
func New(ctx context.Context, o Options) (*Runtime, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = 2 * runtime.GOMAXPROCS(0)
	}
	if o.MaxQueued <= 0 {
		o.MaxQueued = 1000
	}
	total := mebibytes(o.TotalMemoryMiB)
	if total == 0 {
		total = max(machineMemory()/2, mebibytes(plugins.DefaultLimits.MemoryMiB))
	}
	if o.ReplacementsPerSecond <= 0 {
		o.ReplacementsPerSecond = 25
	}
	if o.CallsPerInstance <= 0 {
		o.CallsPerInstance = 1000
	}
	if o.Idle <= 0 {
		o.Idle = 5 * time.Minute
	}
	if o.MaxRunInstances <= 0 {
		o.MaxRunInstances = 64
	}
	if o.CompileTimeout <= 0 {
		o.CompileTimeout = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Egress == nil {
		var err error
		if o.Egress, err = egress.New(egress.Options{}); err != nil {
			return nil, err
		}
	}
	if o.Redactor == nil {
		o.Redactor = &plugins.Redactor{}
	}
	o.Logger = slog.New(o.Redactor.Handler(o.Logger.Handler()))
	if o.CacheDir != "" {
		if err := privateDir(o.CacheDir); err != nil {
			return nil, err
		}
	}
	if o.CodeDir != "" {
		if err := checkMade(o.CodeDir); err != nil {
			o.Logger.Warn("machine code that was made ahead is not used", "folder", o.CodeDir, "error", err)
			o.CodeDir = ""
		}
	}
	r := &Runtime{
		opts: o, log: o.Logger, slots: make(chan struct{}, o.MaxConcurrent), build: make(chan struct{}, runtime.GOMAXPROCS(0)),
		quota:  &quota{total: total},
		loaded: map[*plugins.Plugin]*loaded{}, programs: map[string]*program{}, drained: make(chan struct{}),
	}
	r.base, r.kill = context.WithCancelCause(context.Background())
	listenToGuests(o.Logger)
	keepOutputPure(o.Logger)
	r.background.Add(1)
	go r.sweepIdle(o.Idle)
	return r, nil
}

// listenToGuests sets Extism's log level, which is one for the process. Lower ones
// than info also say what Extism itself does, so they are opt-in.
func listenToGuests(log *slog.Logger) {
	logLevel.Lock()
	defer logLevel.Unlock()
	want := extism.LogLevelInfo
	if log.Enabled(context.Background(), slog.LevelDebug) {
		want = extism.LogLevelDebug
	}
	if logLevel.set == 0 || want < logLevel.set {
		logLevel.set = want
		extism.SetLogLevel(want)
	}
}

var logLevel struct {
	sync.Mutex
	set extism.LogLevel
}

// Load compiles the module of p, or finds it compiled, and checks that the module
// can run as the manifest says, and that every granted folder can be opened; the
// error names the plugin, the module or folder, and what to do. Invoke loads what is not loaded, so Load is how a bad plugin is refused
// early. Calling it again is cheap. p must not change. A plugin that host.toml
// declares has no module, and nothing to load.
//
// It returns as soon as ctx ends, with ctx's error, or compiling takes longer than
// Options.CompileTimeout.
func (r *Runtime) Load(ctx context.Context, p *plugins.Plugin) error {
	if p != nil && p.TrustedBy == plugins.TrustedByHost {
		return nil
	}
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	l, err := r.acquire(ctx, p)
	if err != nil {
		return err
	}
	defer r.release(l)
	if err := checkFolders(p); err != nil {
		return err
	}
	r.keepWarm(l)
	return nil
}

// Close refuses new calls and waits for those that run; when ctx ends first, they
// are stopped. It returns ctx's error then, and nil otherwise. It does not wait for
// a compilation that nobody waits for.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		<-r.drained
		return nil
	}
	r.closed = true
	if r.calls == 0 {
		close(r.drained)
	}
	r.mu.Unlock()
	var err error
	select {
	case <-r.drained:
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.kill(ErrClosed)
	<-r.drained
	r.background.Wait()
	for _, l := range r.loaded {
		l.drain()
	}
	r.mu.Lock()
	var ended []*program
	for _, g := range r.programs {
		// What is still being compiled closes itself.
		if g.ended {
			ended = append(ended, g)
		}
	}
	r.loaded, r.programs = nil, nil
	r.mu.Unlock()
	for _, g := range ended {
		g.close(context.Background())
	}
	return err
}

func (r *Runtime) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}
	r.calls++
	return nil
}

// enterCall is enter for a call of a tool, of which only so many may wait.
func (r *Runtime) enterCall() error {
	if err := r.enter(); err != nil {
		return err
	}
	r.mu.Lock()
	full := r.calls > r.opts.MaxConcurrent+r.opts.MaxQueued
	r.mu.Unlock()
	if full {
		r.leave()
		return fmt.Errorf("%d calls run and %d wait already ([limits].concurrent_calls, [limits].queued_calls): try again later", r.opts.MaxConcurrent, r.opts.MaxQueued)
	}
	return nil
}

func (r *Runtime) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
	if r.closed && r.calls == 0 {
		close(r.drained)
	}
}

// acquire returns p loaded; the caller releases it. Compiling goes on when ctx
// ends, so that the next caller finds it done.
func (r *Runtime) acquire(ctx context.Context, p *plugins.Plugin) (*loaded, error) {
	if p == nil || p.Manifest == nil {
		return nil, errors.New("there is no plugin to load")
	}
	r.mu.Lock()
	l := r.loaded[p]
	if l == nil {
		l = &loaded{
			places: make(chan struct{}, max(1, r.opts.MaxConcurrent-1)),
			plugin: p, http: r.opts.Egress.Session(), ready: make(chan struct{}),
			throttle: newThrottle(r.opts.ReplacementsPerSecond, 4*max(r.opts.ReplacementsPerSecond, r.opts.MaxConcurrent)),
		}
		r.loaded[p] = l
		r.background.Add(1)
		go r.load(l)
	}
	l.users++
	r.mu.Unlock()
	select {
	case <-l.ready:
	case <-ctx.Done():
		r.release(l)
		return nil, ctx.Err()
	}
	if l.err != nil {
		r.release(l)
		return nil, l.err
	}
	return l, nil
}

func (r *Runtime) release(l *loaded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.users--
	l.used = time.Now()
}

// load fills l and tells who waits for it.
func (r *Runtime) load(l *loaded) {
	defer r.background.Done()
	program, err := r.program(l.plugin)
	r.mu.Lock()
	defer r.mu.Unlock()
	l.program, l.err, l.used = program, err, time.Now()
	if err != nil && r.loaded[l.plugin] == l {
		// The next try may find a repaired cache folder.
		delete(r.loaded, l.plugin)
	}
	close(l.ready)
}

// program returns the compiled module of p, with one more user. One module is
// compiled once, also when several plugins ask for it at the same time.
func (r *Runtime) program(p *plugins.Plugin) (_ *program, err error) {
	defer func() {
		if rec := recover(); rec != nil {
			err = refused(p.Manifest, finalError{fmt.Errorf("the host failed to read it: %v", rec)})
		}
	}()
	ahead := r.opts.CodeDir != "" && Precompiled(r.opts.CodeDir, p)
	scans := r.opts.CacheDir
	if ahead {
		scans = r.opts.CodeDir
	}
	m, code, err := admit(p, scans)
	if err != nil {
		return nil, err
	}
	if memory := mebibytes(memoryMiB(p)); memory > r.quota.total {
		return nil, refused(p.Manifest, finalError{fmt.Errorf("its memory limit is %s, and all plugins together may have %s ([limits].total_memory_mib): raise that, or lower [limits].memory_mib, which caps the limit",
			formatBytes(memory), formatBytes(r.quota.total))})
	}
	key := string(p.Manifest.Module.ABI) + " " + p.Manifest.Module.SHA256
	r.mu.Lock()
	g := r.programs[key]
	mine := g == nil
	if mine {
		g = &program{key: key, module: m, ahead: ahead, ready: make(chan struct{}), started: make(chan struct{})}
		r.programs[key] = g
	}
	g.users++
	r.mu.Unlock()
	if mine {
		go r.compile(g, code, p)
	}
	if err = r.await(g); err == nil {
		return g, nil
	}
	return nil, refused(p.Manifest, err)
}

func (r *Runtime) sweepIdle(idle time.Duration) {
	defer r.background.Done()
	t := time.NewTicker(max(idle/4, 10*time.Millisecond))
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			r.sweep(now.Add(-idle))
			r.folders.sweep(now.Add(-idle))
		case <-r.base.Done():
			return
		}
	}
}

// sweep lets go of what was last used before the given time.
func (r *Runtime) sweep(before time.Time) {
	r.mu.Lock()
	var idle []*loaded
	for p, l := range r.loaded {
		select {
		case <-l.ready:
		default:
			continue
		}
		if l.users == 0 && l.used.Before(before) {
			idle = append(idle, l)
			delete(r.loaded, p)
		} else {
			l.pool.evict(before)
		}
	}
	var unused []*program
	for _, l := range idle {
		if l.program.users--; l.program.users == 0 {
			unused = append(unused, l.program)
			delete(r.programs, l.program.key)
		}
	}
	r.mu.Unlock()
	for _, l := range idle {
		l.drain()
	}
	for _, g := range unused {
		g.close(context.Background())
	}
}

// boundRunInstances makes room for one more instance that waits for its run.
func (r *Runtime) boundRunInstances() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		total := 0
		var pick *loaded
		var oldest time.Time
		for _, l := range r.loaded {
			n, at := l.pool.idleRuns()
			total += n
			if n > 0 && (pick == nil || at.Before(oldest)) {
				pick, oldest = l, at
			}
		}
		if total < r.opts.MaxRunInstances || pick == nil {
			return
		}
		pick.pool.evict(oldest)
	}
}

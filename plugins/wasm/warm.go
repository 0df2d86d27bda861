package wasm

import (
	"context"
	"errors"
	"slices"

	"github.com/awaken-agents/awaken-host/plugins"
)

// readyExport is a function that the host adds to modules with an initialization of
// their own. It does nothing: Extism initializes a module before its first call,
// and this is a first call that is no tool's.
const readyExport = "awaken-host:ready"

// initializers are the exports that Extism calls before the first call.
var initializers = []string{"_initialize", "__wasm_call_ctors", "hs_init"}

// prepares reports whether an instance can be initialized ahead of its first call.
func (m *module) prepares() bool {
	_, taken := m.exports[readyExport]
	return !taken && slices.ContainsFunc(initializers, func(name string) bool { return m.exports[name] == "function" })
}

// mayPrepare reports whether code of p may run before a call of it was allowed: only
// where it has nothing to act on, which is nothing but its own memory.
func mayPrepare(p *plugins.Plugin) bool {
	e := p.Effective
	return len(e.Hosts) == 0 && len(e.Paths) == 0 && len(e.Commands) == 0 && len(e.Secrets) == 0
}

// keepWarm begins to make the instances of l that its plugin is to have ahead of
// calls, unless that is being done. The caller uses l.
func (r *Runtime) keepWarm(l *loaded) {
	p := l.plugin
	if l.pool.warmCount() >= p.Warm || p.Manifest.Module.ABI != plugins.ABIExtism || l.program.module.hasStart && !mayPrepare(p) {
		return
	}
	if !l.warming.CompareAndSwap(false, true) {
		return
	}
	r.mu.Lock()
	l.users++
	r.mu.Unlock()
	r.background.Add(1)
	go func() {
		defer r.background.Done()
		defer r.release(l)
		defer l.warming.Store(false)
		for l.pool.warmCount() < p.Warm && r.base.Err() == nil && r.makeAhead(l) {
		}
	}()
}

// makeAhead makes one instance, false when there is no room for one now, or the
// plugin's instances die.
func (r *Runtime) makeAhead(l *loaded) bool {
	if l.throttle.pay() > 0 {
		return false
	}
	limits := limitsOf(l.plugin, nil)
	need := r.reservation(l.program.module, limits.memory)
	if !r.quota.try(need) {
		l.throttle.back()
		return false
	}
	mounts, err := r.openMounts(mountsOf(l.plugin, nil))
	if err != nil { // which a call will say too
		r.quota.give(need)
		l.throttle.back()
		return false
	}
	ctx, cancel := context.WithTimeoutCause(r.base, limits.timeout, errTimeout)
	defer cancel()
	i, err := newInstance(ctx, l.program, l.plugin, limits.memory, mounts, r.log)
	if err == nil && l.program.module.ready && mayPrepare(l.plugin) {
		err = i.prepare(ctx)
	}
	if err != nil {
		i.close()
		r.quota.give(need)
		r.log.Debug("an instance could not be made ahead of calls", "plugin", l.plugin.Manifest.ID, "error", printable(err.Error(), maxErrorText))
		return false
	}
	i.quota = r.quota
	r.quota.give(i.park(need))
	l.throttle.back()
	l.pool.giveWarm(i)
	r.makeRoom()
	return true
}

// prepare initializes the module. What it says goes nowhere: there is no call that
// it belongs to.
func (i *instance) prepare(ctx context.Context) error {
	stop := i.closeAfter(ctx)
	defer stop()
	if _, _, err := i.plugin.CallWithContext(ctx, readyExport, nil); err != nil {
		return err
	}
	if i.nap.cut || !i.renew() {
		return errors.New("its initialization left it unfit for calls")
	}
	return nil
}

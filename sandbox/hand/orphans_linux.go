package hand

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// canSupervise reports whether every process of a command can be found and ended.
const canSupervise = true

// orphans looks after the children of this process that it did not start: what a
// supervisor left behind that was itself killed, and, where this is process 1, all
// that ends without a parent.
type orphans struct {
	owned bool
	mu    sync.Mutex
	mine  map[int]bool // children that somebody waits for
	stop  chan struct{}
	ended sync.WaitGroup
}

// watchOrphans begins to, where this process has no children but the Hand's.
func watchOrphans(owned bool) *orphans {
	o := &orphans{owned: owned, mine: map[int]bool{}, stop: make(chan struct{})}
	if !owned {
		return o
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	o.ended.Go(func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-signals:
				o.sweep()
			case <-o.stop:
				return
			}
		}
	})
	return o
}

// start starts a child that is waited for with wait.
func (o *orphans) start(cmd *exec.Cmd) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	o.mine[cmd.Process.Pid] = true
	return nil
}

func (o *orphans) wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	o.mu.Lock()
	delete(o.mine, cmd.Process.Pid)
	o.mu.Unlock()
	if cmd.ProcessState == nil || !cmd.ProcessState.Success() {
		o.sweep()
	}
	return err
}

// sweep ends and reaps children that are nobody's, with all that descends from them.
func (o *orphans) sweep() {
	if !o.owned {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	self := os.Getpid()
	for deadline := time.Now().Add(killWithin); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		left := false
		for _, p := range processes() {
			if p.parent != self || o.mine[p.pid] {
				continue
			}
			if !p.zombie {
				left = true
				for _, pid := range append(descendants(p.pid), p.pid) {
					_ = syscall.Kill(pid, syscall.SIGSTOP)
				}
				for _, pid := range append(descendants(p.pid), p.pid) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
		if !left {
			return
		}
	}
}

func (o *orphans) close() {
	close(o.stop)
	o.ended.Wait()
	o.sweep()
}

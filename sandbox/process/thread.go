package process

import (
	"os/exec"
	"runtime"
	"sync"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// Thread runs functions one after the other on one thread of the operating system,
// which stays until this process ends. Linux sends the parent-death signal when the
// thread ends that started a program, and the Go runtime ends threads when it likes:
// what must die with the process, and not before, is started here.
//
// A Thread is safe for concurrent use.
type Thread struct {
	work chan func()
}

// NewThread starts a thread. It is never given back, so it may be changed in ways
// that cannot be undone, such as by a mount namespace of its own.
func NewThread() *Thread {
	t := &Thread{work: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range t.work {
			f()
		}
	}()
	return t
}

// Do runs f on the thread and returns when it has.
func (t *Thread) Do(f func()) {
	done := make(chan struct{})
	t.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// Shared is the thread for programs that need nothing but to die with this process.
var Shared = sync.OnceValue(NewThread)

// Start starts cmd on t, set up to be killed when this process ends. Where the system
// has no such signal, closing the program's standard input is all that tells it. It
// gets what cmd hands to it of this process's files, and nothing else.
func (t *Thread) Start(cmd *exec.Cmd) error {
	if err := sandbox.KeepDescriptors(); err != nil {
		return err
	}
	dieWithParent(cmd)
	var err error
	t.Do(func() { err = cmd.Start() })
	return err
}

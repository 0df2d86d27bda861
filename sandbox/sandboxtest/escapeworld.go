package sandboxtest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/awaken-agents/awaken-host/batch"
	"github.com/awaken-agents/awaken-host/sandbox"
)

const (
	canaryFile        = "canary-of-a-file-of-the-host-60c2"
	canaryEnvironment = "canary-of-the-environment-19ab"
)

// escapeWorld is a boundary and what is around it on the machine.
type escapeWorld struct {
	t     *testing.T // the attempt's
	all   *testing.T // of all attempts
	setup Setup
	b     *boundary // nil: none is open
	mark  string    // of the attempt's processes

	file    string // of the host, with canaryFile
	process string // in the arguments of a process of the host's
	port    string // of TCP and UDP on every address of the machine
	socket  string // path of a Unix socket
	spoken  string // name of an abstract one
	genuine batch.OperationID
}

// setCanary leaves something in the environment of this process for all tests of it,
// so that they may run at once.
var setCanary = sync.OnceValue(func() error { return os.Setenv("AWAKEN_CANARY", canaryEnvironment) })

func newEscapeWorld(t *testing.T, s Setup) *escapeWorld {
	t.Helper()
	if err := setCanary(); err != nil {
		t.Fatal(err)
	}
	w := &escapeWorld{t: t, all: t, setup: s, file: filepath.Join(t.TempDir(), "canary.txt"), process: "canary" + newNonce()}
	if err := os.WriteFile(w.file, []byte(canaryFile), 0o600); err != nil {
		t.Fatal(err)
	}
	w.leaveOpen()
	other := exec.Command("sh", "-c", "sleep 1000; : "+w.process) //nolint:gosec,noctx // fixed; ended below
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	w.listen()
	t.Cleanup(func() {
		w.close()
		_ = other.Process.Kill() // an attempt may have done so
		_ = other.Wait()
	})
	return w
}

// leaveOpen has a file and a folder of the host open in this process as a shell leaves
// them to what it starts: every program that this process starts would inherit them.
// The numbers are higher than those that a tier hands over itself.
func (w *escapeWorld) leaveOpen() {
	w.t.Helper()
	for i, name := range []string{w.file, filepath.Dir(w.file)} {
		fd, err := unix.Open(name, unix.O_RDONLY, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		left, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 200+i)
		if err != nil {
			w.t.Fatal(err)
		}
		_ = unix.Close(fd)
		w.t.Cleanup(func() { _ = unix.Close(left) })
	}
}

// listen answers wherever an attempt may come to.
func (w *escapeWorld) listen() {
	w.t.Helper()
	var lc net.ListenConfig
	tcp, err := lc.Listen(w.t.Context(), "tcp", ":0") // every address is the point
	if err != nil {
		w.t.Fatal(err)
	}
	_, w.port, _ = net.SplitHostPort(tcp.Addr().String())
	udp, err := lc.ListenPacket(w.t.Context(), "udp", ":"+w.port)
	if err != nil {
		w.t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "awaken-s") // the paths of sockets are short
	if err != nil {
		w.t.Fatal(err)
	}
	w.socket, w.spoken = filepath.Join(dir, "s"), "@awaken-"+newNonce()
	listeners := []net.Listener{tcp}
	for _, name := range []string{w.socket, w.spoken} {
		l, err := lc.Listen(w.t.Context(), "unix", name)
		if err != nil {
			w.t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	for _, l := range listeners {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close() // who is there knows enough
			}
		}()
	}
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo(buf[:n], from) // an answer is enough
		}
	}()
	w.t.Cleanup(func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		_ = udp.Close()
		_ = os.RemoveAll(dir)
	})
}

// addresses are those of the machine, with the port.
func (w *escapeWorld) addresses() (list []string) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			list = append(list, net.JoinHostPort(n.IP.String(), w.port))
		}
	}
	return list
}

// renew opens a boundary with the hostile program in it.
func (w *escapeWorld) renew() {
	w.t.Helper()
	w.close()
	setup := w.setup
	b := setup.open(w.all)
	b.t = w.t
	w.b = b
	program, err := os.ReadFile(hostile(w.t))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := b.put(ctx, sandbox.FileParams{Path: "escape", Mode: 0o755}, program); err != nil {
		w.t.Fatalf("putting the program into the workspace: %v", err)
	}
	p := load(w.t, "guests", "exec")
	params := b.params(p, "run")
	w.genuine = params.Operation()
	if _, err := b.callAs(ctx, p, params, command{Argv: []string{"sh", "-c", "echo " + genuineText}}); err != nil {
		w.t.Fatal(err)
	}
}

// close ends the boundary, and finds what it left.
func (w *escapeWorld) close() {
	if w.b == nil {
		return
	}
	w.b.t = w.t
	w.b.stop()
	w.b.t = w.all
	w.b = nil
}

// place is where a folder or file of the contract really is.
func (w *escapeWorld) place(name string) string {
	if p, ok := w.b.inst.(sandbox.Placer); ok {
		if real := p.Places()[name]; real != "" {
			return real
		}
	}
	return name
}

// hand is the file of the Hand inside. Where there is no inside it is a copy: nobody
// else's may be touched.
func (w *escapeWorld) hand() string {
	if w.setup.Tier.Name() != sandbox.TierLocal {
		return sandbox.HandPath
	}
	name := filepath.Join(w.t.TempDir(), "hand")
	if err := os.WriteFile(name, []byte("a copy"), 0o700); err != nil { //nolint:gosec // a program
		w.t.Fatal(err)
	}
	return name
}

func (w *escapeWorld) handPID() string { return strconv.Itoa(w.b.welcome.PID) }

func (w *escapeWorld) names() []string {
	list := []string{net.JoinHostPort("localhost", w.port)}
	if name, err := os.Hostname(); err == nil {
		list = append(list, net.JoinHostPort(name, w.port))
	}
	for _, name := range []string{"host.docker.internal", "host.containers.internal", "example.com"} {
		list = append(list, net.JoinHostPort(name, w.port))
	}
	return list
}

package hand

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/awaken-agents/awaken-host/sandbox"
)

// probe looks around from the inside. A property that cannot be told from here is
// unknown. Program is this program's file, empty: it has none;
// run starts a child and waits for its end.
func probe(ctx context.Context, p places, network sandbox.Network, program string, run func(*exec.Cmd) error) sandbox.Properties {
	out := sandbox.Properties{
		sandbox.PropertyFilesystem: probeFilesystem(p),
		sandbox.PropertyNetwork:    probeNetwork(ctx, network),
	}
	for name, f := range probeSystem(program, run) {
		out[name] = f
	}
	return out
}

// outsideFolders may not be written in any boundary.
var outsideFolders = []string{"/", "/usr", "/etc", "/bin", "/lib", "/home", "/root", "/opt", "/srv", "/var", "/var/lib", "/boot", sandbox.HandDir}

// hostMarkers are what a machine has and a boundary should not show.
var hostMarkers = []string{
	"/etc/shadow", "/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_rsa_key", "/root/.ssh", "/root/.bash_history",
	"/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock",
	"/run/systemd/private", "/run/dbus/system_bus_socket", "/var/lib/docker", "/var/lib/kubelet", "/var/log/syslog", "/var/log/dpkg.log",
}

func probeFilesystem(p places) sandbox.Finding {
	var writable, visible []string
	for _, dir := range outsideFolders {
		if k, known := p.of(dir); known && k.name != sandbox.StateDir {
			continue
		}
		if canWrite(dir) {
			writable = append(writable, dir)
		}
	}
	for _, name := range hostMarkers {
		if canRead(name) {
			visible = append(visible, name)
		}
	}
	for k := range p.writable {
		if p.real(k) != k {
			return sandbox.Finding{State: sandbox.NotEnforced, Detail: "the workspace is a folder of the machine's own file system"}
		}
	}
	switch {
	case len(writable) > 0:
		return sandbox.Finding{State: sandbox.NotEnforced, Detail: "can write " + strings.Join(writable, ", "), Remedy: "use a tier with a read-only root"}
	case len(visible) > 0:
		return sandbox.Finding{State: sandbox.NotEnforced, Detail: "can read " + strings.Join(visible, ", "), Remedy: "mount less of the machine, or use an image without it"}
	}
	return sandbox.Finding{State: sandbox.Enforced, Detail: "nothing outside of the workspace can be written, no file of the machine's was found"}
}

// canWrite makes a file in dir, and removes it.
func canWrite(dir string) bool {
	name := filepath.Join(dir, ".awaken-probe-"+rand.Text())
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	_ = f.Close()
	_ = os.Remove(name)
	return true
}

// canRead reports whether there is something to read; an empty file put over another
// one is nothing.
func canRead(name string) bool {
	info, err := os.Stat(name)
	if err != nil {
		return false
	}
	switch mode := info.Mode(); {
	case mode&os.ModeSocket != 0:
		c, err := net.DialTimeout("unix", name, 200*time.Millisecond)
		if err == nil {
			_ = c.Close()
		}
		return err == nil || errors.Is(err, syscall.EPROTOTYPE)
	case mode.IsDir():
		d, err := os.ReadDir(name)
		return err == nil && len(d) > 0
	case mode.IsRegular():
		f, err := os.Open(name)
		if err != nil {
			return false
		}
		defer func() { _ = f.Close() }()
		n, _ := f.Read(make([]byte, 1))
		return n > 0
	}
	return false
}

// publicAddresses answer on the internet, on ports that networks let through.
var publicAddresses = []string{"1.1.1.1:443", "8.8.8.8:53", "[2606:4700:4700::1111]:443"}

const probeDial = 400 * time.Millisecond

// probeNetwork tells what can be reached: interfaces first, which need no answer of
// anybody, and connections where there are some.
func probeNetwork(ctx context.Context, want sandbox.Network) sandbox.Finding {
	level := func(l sandbox.Network, detail string) sandbox.Finding {
		f := sandbox.Finding{State: sandbox.Enforced, Level: string(l), Detail: detail}
		if l == sandbox.NetworkHost {
			f.State, f.Remedy = sandbox.NotEnforced, `set [sandbox].network = "none", in a tier that has a network of its own`
		}
		return f
	}
	none := sandbox.NetworkNone
	if want == sandbox.NetworkAllowlist {
		none = want // what is granted goes over the channel
	}
	up, err := interfacesUp()
	if err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EAFNOSUPPORT) {
			return level(none, "no sockets can be made")
		}
		return sandbox.Finding{Detail: "the interfaces cannot be listed: " + err.Error()}
	}
	if len(up) == 0 {
		return level(none, "no interface but the loopback is up")
	}
	ctx, cancel := context.WithTimeout(ctx, probeDial)
	defer cancel()
	answers := make(chan string, len(publicAddresses))
	for _, a := range publicAddresses {
		go func() {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", a)
			switch {
			case err == nil:
				_ = c.Close()
				answers <- "connects to " + a
			case errors.Is(err, syscall.ECONNREFUSED):
				answers <- "is answered by " + a
			default:
				answers <- ""
			}
		}()
	}
	for range publicAddresses {
		if said := <-answers; said != "" {
			return level(sandbox.NetworkHost, said)
		}
	}
	// No answer proves nothing: the machine may have no network itself just now.
	return sandbox.Finding{Level: string(sandbox.NetworkHost),
		Detail: fmt.Sprintf("the interfaces %s are up, and no public address answered", strings.Join(up, ", ")),
		Remedy: `use a tier whose boundary has no interface, or attest that the network is closed`}
}

// interfacesUp names those that lead somewhere.
func interfacesUp() ([]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var up []string
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err == nil && len(addresses) == 0 {
			continue
		}
		up = append(up, i.Name)
	}
	return up, nil
}

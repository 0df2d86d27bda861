// Inside is what the test images have besides busybox. Called "ids" it prints its real
// and effective user; with the file's set-user-ID bit these differ where a sandbox
// lets it work. Called "dial" it connects to each HOST:PORT of its arguments, by name
// or literal, which Debian's static busybox cannot: its name lookups crash. Called
// anything else it waits for SIGTERM, as what holds a Pod's namespaces does.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path"
	"syscall"
	"time"
)

func main() {
	switch path.Base(os.Args[0]) {
	case "ids":
		fmt.Println(os.Getuid(), os.Geteuid())
	case "dial":
		if !dial(os.Args[1:]) {
			os.Exit(1)
		}
	default:
		pause()
	}
}

// dial prints a line for each address, and tells whether all were reached.
func dial(addresses []string) bool {
	reached := true
	for _, address := range addresses {
		c, err := net.DialTimeout("tcp", address, 3*time.Second) //nolint:gosec // to try what can be reached is what it is for
		if err != nil {
			fmt.Println(err)
			reached = false
			continue
		}
		fmt.Println("connected to", c.RemoteAddr())
		_ = c.Close() // nothing was written
	}
	return reached
}

// pause waits, and reaps the orphans of its Pod meanwhile.
func pause() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

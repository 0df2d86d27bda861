// Puppet stands in for the Hand: it says that it is ready, and then does what each
// line of its standard input says.
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "serve" && os.Args[2] == "--ready" {
		if code := os.Getenv("PUPPET_EXIT"); code != "" {
			fmt.Fprintln(os.Stderr, "puppet: ending early")
			os.Exit(len(code))
		}
		if os.Getenv("PUPPET_SLOW") == "" {
			fmt.Fprintln(os.Stderr, "awaken-hand: ready")
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		fmt.Println(do(word, rest))
	}
}

func do(word, rest string) string {
	switch word {
	case "say":
		return rest
	case "complain":
		fmt.Fprintln(os.Stderr, rest)
		return "ok"
	case "exit":
		os.Exit(len(rest))
	case "kill":
		return said(syscall.Kill(os.Getpid(), syscall.SIGKILL)) // the kernel leaves process 1 alone
	case "eat":
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
			_ = all
		}
	case "child": // that leaves session and group
		c := exec.Command(os.Args[0], "sleep")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		r, w, _ := os.Pipe()
		defer r.Close()
		c.Stdin, c.Env = r, []string{"PUPPET_NAME=" + rest}
		_ = w
		if err := c.Start(); err != nil {
			return err.Error()
		}
		time.Sleep(10 * time.Millisecond)
		return fmt.Sprint(c.Process.Pid)
	case "id":
		return fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	case "env":
		return strings.Join(os.Environ(), " ")
	case "write":
		return said(os.WriteFile(rest, []byte("x"), 0o600))
	case "read":
		text, err := os.ReadFile(rest)
		if err != nil {
			return err.Error()
		}
		return strings.Join(strings.Fields(string(text)), " ")
	}
	return "what is " + word + "?"
}

func said(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// Command keygen calls plugins.GenerateKey outside the test binary: under the race
// detector deriving a key from a password takes a minute instead of seconds.
package main

import (
	"fmt"
	"os"

	"github.com/awaken-agents/awaken-host/plugins"
)

func main() {
	if _, err := plugins.GenerateKey(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

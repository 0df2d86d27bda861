package standard_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/awaken-agents/awaken-host/host/standard"
)

// A program that embeds a wired host: open, start, run a message, print what came.
func Example() {
	dir, _ := os.MkdirTemp("", "host")
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := standard.Init(dir); err != nil { // or a folder that is there already
		log.Fatal(err)
	}

	ctx := context.Background()
	h, err := standard.Open(ctx, filepath.Join(dir, "host.toml"), standard.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	if err := h.Start(ctx); err != nil {
		log.Fatal(err)
	}
	msg, err := standard.ParseMessage([]byte(`{"calls":[{"id":"c1","tool":"hello__greet","arguments":{"name":"Ada"}}]}`))
	if err != nil {
		log.Fatal(err)
	}
	res, err := h.Run(ctx, standard.Request{Message: msg})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Phase, res.Results[0].Content[0].Text)
	// Output: finalized Hello, Ada!
}

package hand

import (
	"bytes"
	"io"
	"sync"

	"github.com/awaken-agents/awaken-host/plugins/wasm"
)

// maxCaptured is how much is kept of each stream of a command: half of it from the
// beginning, half from the end.
const maxCaptured = 256 << 10

// capture takes all that is written to it, at once, and keeps the beginning and the
// end.
type capture struct {
	mu    sync.Mutex
	head  []byte
	ring  []byte
	at    int // where the next byte of ring goes, once it is full
	total int64
}

func newCapture() *capture { return &capture{} }

// Write implements io.Writer and never fails.
func (c *capture) Write(p []byte) (int, error) {
	const half = maxCaptured / 2
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.total += int64(n)
	take := min(half-len(c.head), len(p))
	c.head = append(c.head, p[:take]...)
	p = p[take:]
	if len(p) > half {
		p = p[len(p)-half:]
	}
	if room := half - len(c.ring); room > 0 {
		take := min(room, len(p))
		c.ring = append(c.ring, p[:take]...)
		p = p[take:]
	}
	for len(p) > 0 {
		took := copy(c.ring[c.at:], p)
		c.at = (c.at + took) % half
		p = p[took:]
	}
	return n, nil
}

func (c *capture) captured() wasm.Captured {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := append(bytes.Clone(c.ring[c.at:]), c.ring[:c.at]...)
	return wasm.Captured{Head: c.head, Tail: tail, Dropped: c.total - int64(len(c.head)+len(tail))}
}

// newStdin reads as a bytes.Reader does and no more: with its WriteTo, a command that
// does not read to the end would be an error.
func newStdin(b []byte) io.Reader { return struct{ io.Reader }{bytes.NewReader(b)} }

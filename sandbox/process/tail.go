package process

import (
	"strings"
	"sync"
)

// Tail keeps the end of what is written to it. It takes everything and is safe for
// concurrent use. The zero value keeps 4 KiB.
type Tail struct {
	Max int // bytes

	mu  sync.Mutex
	buf []byte
	cut bool
}

// Write takes all of p.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := t.Max
	if most <= 0 {
		most = 4096
	}
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - most; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// String is what was kept, as valid UTF-8 without surrounding space. It begins with
// an ellipsis when there was more.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := strings.TrimSpace(strings.ToValidUTF8(string(t.buf), "\uFFFD"))
	if t.cut {
		s = "…" + s
	}
	return s
}

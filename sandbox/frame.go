package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
)

// A frame is 4 bytes of length, big endian, of what follows; 1 byte of kind; 8 bytes
// of request id, big endian; the payload. Requests of the host have odd ids, those of
// the Hand even ones; 0 stands in frames of the channel itself.
type frame struct {
	kind    frameKind
	id      uint64
	payload []byte
}

type frameKind byte

// The kinds. New ones need a new version of the protocol.
const (
	frameHello   frameKind = 1  // host: a greeting, JSON
	frameWelcome frameKind = 2  // Hand: an answer, JSON
	frameOpen    frameKind = 3  // a new request: an opening, JSON
	frameData    frameKind = 4  // bytes of a body
	frameEnd     frameKind = 5  // no more bytes of this body: an ending, JSON
	frameEvent   frameKind = 6  // something beside the body: an event, JSON
	frameCancel  frameKind = 7  // the opener does not want it any more: text
	frameCredit  frameKind = 8  // so many more bytes of the body may be sent: 4 bytes, big endian
	framePing    frameKind = 9  // answered by
	framePong    frameKind = 10 // at once
)

const (
	frameHeader = 4 + 1 + 8
	// maxPayload bounds parameters, results and what is in flight at once; bodies are
	// cut into pieces of dataPiece.
	maxPayload = 1 << 20
	dataPiece  = 64 << 10
)

// notFrame is what a peer sent that does not speak the protocol.
type notFrame struct{ begins []byte }

func (e *notFrame) Error() string {
	return "it does not speak the protocol, it says " + strconv.QuoteToASCII(string(e.begins))
}

// violation is what a peer did that speaks the protocol, and breaks it.
type violation struct{ err error }

func (v *violation) Error() string { return v.err.Error() }
func (v *violation) Unwrap() error { return v.err }

func violated(err error) error {
	if err != nil {
		return &violation{err}
	}
	return nil
}

// misspoke reports that the peer did not keep to the protocol: nothing that it said,
// or left unsaid, proves anything.
func misspoke(err error) bool {
	var v *violation
	var n *notFrame
	return errors.As(err, &v) || errors.As(err, &n)
}

// readFrame reads one. At the end of the input before a frame it returns io.EOF,
// inside of one io.ErrUnexpectedEOF. The payload is the caller's.
func readFrame(r io.Reader) (frame, error) {
	var head [frameHeader]byte
	if n, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) && n >= 4 && plainText(head[:n]) {
			return frame{}, &notFrame{head[:n]}
		}
		return frame{}, err
	}
	length := binary.BigEndian.Uint32(head[:4])
	f := frame{kind: frameKind(head[4]), id: binary.BigEndian.Uint64(head[5:])}
	if length < frameHeader-4 || length > frameHeader-4+maxPayload || f.kind < frameHello || f.kind > framePong {
		begins := append([]byte(nil), head[:]...)
		if plainText(begins) {
			// An engine or a shell that complains: its words help.
			rest := make([]byte, 512)
			n, _ := io.ReadAtLeast(r, rest, 1)
			begins = append(begins, rest[:n]...)
		}
		return frame{}, &notFrame{begins}
	}
	if n := length - (frameHeader - 4); n > 0 {
		f.payload = make([]byte, n)
		if _, err := io.ReadFull(r, f.payload); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return frame{}, err
		}
	}
	return f, nil
}

func plainText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
	}
	return true
}

// frameWriter writes whole frames, one at a time.
type frameWriter struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// write writes frames that belong together at once, so that the peer wakes up once.
func (w *frameWriter) write(frames ...frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = w.buf[:0]
	for _, f := range frames {
		if len(f.payload) > maxPayload {
			return fmt.Errorf("a frame of %d bytes is larger than %d", len(f.payload), maxPayload)
		}
		w.buf = appendFrame(w.buf, f)
	}
	_, err := w.w.Write(w.buf)
	return err
}

func appendFrame(b []byte, f frame) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(frameHeader-4+len(f.payload))) //nolint:gosec // bounded by maxPayload
	b = append(b, byte(f.kind))
	b = binary.BigEndian.AppendUint64(b, f.id)
	return append(b, f.payload...)
}

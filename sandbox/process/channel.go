package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Pipes are a program's standard input and output as one channel: Write goes to the
// input, Read comes from the output. Close closes the input; the output stays
// readable to its end.
type Pipes struct {
	in  *os.File // ours to write
	out *os.File // ours to read
}

// Connect gives cmd a new pair of pipes. Once cmd was started, or was not, the caller
// calls the returned function, which closes the program's ends in this process.
func Connect(cmd *exec.Cmd) (*Pipes, func(), error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("pipe for standard input: %w", err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("pipe for standard output: %w", err), inR.Close(), inW.Close())
	}
	cmd.Stdin, cmd.Stdout = inR, outW
	return &Pipes{in: inW, out: outR}, func() { _ = inR.Close(); _ = outW.Close() }, nil
}

func (p *Pipes) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p *Pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close closes the program's input. Calling it again is harmless.
func (p *Pipes) Close() error {
	if err := p.in.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Discard closes both ends. A Read that waits ends with an error.
func (p *Pipes) Discard() {
	_ = p.in.Close()
	_ = p.out.Close()
}

var _ io.ReadWriteCloser = (*Pipes)(nil)

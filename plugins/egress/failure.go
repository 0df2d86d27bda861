package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// NotGrantedError is a request, or a redirect, to where no pattern leads. Nothing
// was sent there, and no name resolved.
type NotGrantedError struct {
	Host string // as a pattern that would match it
	From string // who redirected there; empty: the first request
}

func (e *NotGrantedError) Error() string {
	if e.From != "" {
		return fmt.Sprintf("may not reach %s, where %s redirects to", e.Host, e.From)
	}
	return "may not reach " + e.Host
}

// FailedError is a request that was refused for another reason, or came to nothing.
type FailedError struct {
	Host     string // as a pattern; empty when the request names none
	Refused  bool   // by a rule of this package, and not by the network
	TooLarge bool
	What     string // for the model
	cause    error  // for the log: it may name addresses
}

func (e *FailedError) Error() string {
	who := "the request"
	if e.Host != "" {
		who += " to " + e.Host
	}
	if e.Refused {
		return who + " was refused: " + e.What
	}
	return who + " failed: " + e.What
}

// Unwrap returns what the network said, nil when it was not asked. It may name
// addresses, so it is for the operator alone.
func (e *FailedError) Unwrap() error { return e.cause }

func (h *hop) refuse(format string, a ...any) *FailedError {
	return &FailedError{Host: h.origin.String(), Refused: true, What: fmt.Sprintf(format, a...)}
}

func (h *hop) fail(err error) *FailedError {
	return &FailedError{Host: h.origin.String(), Refused: errors.Is(err, errAddress), What: describe(err), cause: err}
}

// errProxy is a proxy that does not connect.
var errProxy = errors.New("the proxy refuses")

// describe says what went wrong in words that name no address, no name server and
// nothing of what was received.
func describe(err error) string {
	var (
		name    *net.DNSError
		op      *net.OpError
		unknown x509.UnknownAuthorityError
		other   x509.HostnameError
		invalid x509.CertificateInvalidError
		cert    *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		late    net.Error
	)
	switch {
	case errors.Is(err, errAddress):
		return "its address is not public, and only an entry that is the address itself reaches one"
	case errors.Is(err, errProxy):
		return "the proxy does not connect to it"
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the proxy cannot be reached"
	case errors.As(err, &name) && name.IsNotFound:
		return "there is no such name"
	case errors.As(err, &name):
		return "its name could not be resolved"
	case errors.As(err, &unknown):
		return "its certificate is of an authority that is not trusted ([egress].ca_file adds one)"
	case errors.As(err, &other):
		return "its certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate is not valid now"
	case errors.As(err, &cert):
		return "its certificate is not valid"
	case errors.As(err, &record):
		return "it does not speak TLS there"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses connections"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "there is no way to it in the network"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return "it took too long"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "it ended the connection"
	case strings.Contains(err.Error(), "exceeded") && strings.Contains(err.Error(), "header"), strings.Contains(err.Error(), "header list larger"):
		return fmt.Sprintf("the header of its answer is larger than %d KiB", MaxHeaderBytes>>10)
	}
	return "its answer is not HTTP, or the connection broke"
}

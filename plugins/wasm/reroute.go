package wasm

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// What guests get in place of Extism's http_request and of WASI's fd_renumber. These
// names are not offered to them: a module that asks for one is refused.
const (
	httpFunction     = "awaken_http_request"
	renumberFunction = "awaken_fd_renumber"
)

const importSection = 2

// reroute returns a module of Extism's with the functions replaced by ours that are
// not safe to call. Extism has no way to put another function under a name of its
// own or of WASI's. Its http_request is guarded on the first URL only; for
// fd_renumber see maxDescriptor.
func (m *module) reroute(b []byte) ([]byte, error) {
	if !slices.ContainsFunc(m.imports, func(i importRef) bool { return i.rerouted() != "" }) {
		return b, nil
	}
	out := append(make([]byte, 0, len(b)+64), b[:8]...)
	r := &reader{b: b, at: 8}
	for r.at < len(b) && r.err == nil {
		start := r.at
		id := r.byte()
		body := r.bytes(int(r.u32()))
		if id != importSection {
			out = append(out, b[start:r.at]...)
			continue
		}
		section, err := rerouteImports(body)
		if err != nil {
			return nil, err
		}
		out = appendSection(out, id, section)
	}
	if r.err != nil {
		return nil, fmt.Errorf("its sections are damaged: %w", r.err)
	}
	return out, nil
}

// rerouted is the name of ours that an import is replaced by, empty when it is not.
func (i importRef) rerouted() string {
	switch {
	case i.kind != "function":
	case i.module == extismEnv && i.name == "http_request":
		return httpFunction
	case i.module == wasiModule && i.name == renumberName:
		return renumberFunction
	}
	return ""
}

func rerouteImports(body []byte) ([]byte, error) {
	p := &moduleParser{m: &module{}, importTypes: map[int]uint32{}}
	s := &reader{b: body}
	n := s.count()
	out := binary.AppendUvarint(nil, uint64(n))
	for ; n > 0 && s.err == nil; n-- {
		entry := &reader{b: body, at: s.at}
		entry.name()
		entry.name()
		start := s.at
		p.importEntry(s)
		if s.err != nil {
			break
		}
		if ours := p.m.imports[len(p.m.imports)-1].rerouted(); ours != "" {
			out = appendName(appendName(out, extismUser), ours)
			start = entry.at
		}
		out = append(out, body[start:s.at]...)
	}
	if s.err != nil {
		return nil, fmt.Errorf("its import section is damaged: %w", s.err)
	}
	return out, nil
}

func appendName(out []byte, name string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(name))), name...)
}

package wasm

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// httpFunction is what guests get in place of Extism's http_request. Its name is
// not offered to them: a module that asks for it is refused.
const httpFunction = "awaken_http_request"

const importSection = 2

// reroute returns the module with Extism's http_request replaced by ours. Extism
// has no way to put another function under a name of its own, and its own one is
// guarded on the first URL only.
func (m *module) reroute(b []byte) ([]byte, error) {
	if !slices.ContainsFunc(m.imports, isHTTPRequest) {
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

func isHTTPRequest(i importRef) bool {
	return i.kind == "function" && i.module == extismEnv && i.name == "http_request"
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
		if isHTTPRequest(p.m.imports[len(p.m.imports)-1]) {
			out = appendName(appendName(out, extismUser), httpFunction)
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

package hand

import (
	"bytes"
	"strconv"
	"strings"
)

// procStat is the beginning of a /proc/<pid>/stat.
type procStat struct {
	name   string
	state  string
	parent int // -1: not known
}

// parseStat reads it. The name may hold anything, spaces and parentheses too.
func parseStat(b []byte) procStat {
	s := procStat{parent: -1}
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return s
	}
	s.name = string(b[open+1 : end])
	fields := strings.Fields(string(b[end+1:]))
	if len(fields) < 2 {
		return s
	}
	s.state = fields[0]
	if n, err := strconv.Atoi(fields[1]); err == nil && n >= 0 {
		s.parent = n
	}
	return s
}

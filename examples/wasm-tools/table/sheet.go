package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// sheet is a table with a header; every row has as many cells as the header.
type sheet struct {
	header []string
	rows   [][]string
}

const defaultMaxRows = 1000

func parse(in input) (*sheet, error) {
	r := csv.NewReader(strings.NewReader(in.CSV))
	if in.Delimiter != "" {
		d, size := utf8.DecodeRuneInString(in.Delimiter)
		if size != len(in.Delimiter) {
			return nil, fmt.Errorf("the delimiter %q is not one character", in.Delimiter)
		}
		r.Comma = d
	}
	limit := in.MaxRows
	if limit <= 0 {
		limit = defaultMaxRows
	}
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the table is empty: the first line names the columns")
	}
	if err != nil {
		return nil, fmt.Errorf("the table cannot be read: %w", err)
	}
	seen := map[string]int{}
	for i, name := range header {
		header[i] = strings.TrimSpace(name)
		if header[i] == "" {
			return nil, fmt.Errorf("column %d has no name", i+1)
		}
		if first, ok := seen[header[i]]; ok {
			return nil, fmt.Errorf("columns %d and %d have the same name %q", first, i+1, header[i])
		}
		seen[header[i]] = i + 1
	}
	s := &sheet{header: header, rows: [][]string{}}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the table cannot be read: %w", err)
		}
		if len(s.rows) == limit {
			return nil, fmt.Errorf("the table has more than %d rows: raise max_rows or split it", limit)
		}
		s.rows = append(s.rows, row)
	}
}

// number reads a cell as a finite number.
func number(cell string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// objects gives one object per row. Only cells that read back exactly as they
// were written become numbers: "007" and "1e3" stay text.
func (s *sheet) objects() []map[string]any {
	all := make([]map[string]any, 0, len(s.rows))
	for _, row := range s.rows {
		object := make(map[string]any, len(row))
		for i, cell := range row {
			if v, ok := number(cell); ok && strconv.FormatFloat(v, 'f', -1, 64) == cell {
				object[s.header[i]] = v
			} else {
				object[s.header[i]] = cell
			}
		}
		all = append(all, object)
	}
	return all
}

var cellEscape = strings.NewReplacer("|", `\|`, "\r\n", "<br>", "\n", "<br>", "\r", "<br>")

func (s *sheet) markdown() string {
	var b strings.Builder
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| ")
			b.WriteString(cellEscape.Replace(c))
			b.WriteByte(' ')
		}
		b.WriteString("|\n")
	}
	line(s.header)
	for i := range s.header {
		if s.numeric(i) {
			b.WriteString("| ---: ")
		} else {
			b.WriteString("| --- ")
		}
	}
	b.WriteString("|\n")
	for _, row := range s.rows {
		line(row)
	}
	return b.String()
}

func (s *sheet) csv() (string, error) {
	var b strings.Builder
	w := csv.NewWriter(&b)
	if err := w.Write(s.header); err != nil {
		return "", err
	}
	if err := w.WriteAll(s.rows); err != nil {
		return "", err
	}
	return b.String(), nil
}

// numeric says whether a column holds numbers and blanks, and at least one number.
func (s *sheet) numeric(column int) bool {
	found := false
	for _, row := range s.rows {
		if strings.TrimSpace(row[column]) == "" {
			continue
		}
		if _, ok := number(row[column]); !ok {
			return false
		}
		found = true
	}
	return found
}

type columnSummary struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"` // number or text
	Filled  int      `json:"filled"`
	Unique  int      `json:"unique"`
	Min     *float64 `json:"min,omitempty"`
	Max     *float64 `json:"max,omitempty"`
	Mean    *float64 `json:"mean,omitempty"`
	Longest int      `json:"longest,omitempty"` // characters, text columns only
}

func (s *sheet) summary() []columnSummary {
	all := make([]columnSummary, 0, len(s.header))
	for i, name := range s.header {
		c := columnSummary{Name: name, Kind: "text"}
		numeric := s.numeric(i)
		if numeric {
			c.Kind = "number"
		}
		low, high, mean := math.Inf(1), math.Inf(-1), 0.0
		seen := map[string]bool{}
		for _, row := range s.rows {
			cell := strings.TrimSpace(row[i])
			if cell == "" {
				continue
			}
			c.Filled++
			seen[cell] = true
			if v, ok := number(cell); ok && numeric {
				low, high = min(low, v), max(high, v)
				// Divided first, so that no sum of large values overflows.
				mean += v/float64(c.Filled) - mean/float64(c.Filled)
			} else {
				c.Longest = max(c.Longest, utf8.RuneCountInString(cell))
			}
		}
		c.Unique = len(seen)
		if numeric {
			c.Min, c.Max, c.Mean = &low, &high, &mean
		}
		all = append(all, c)
	}
	return all
}

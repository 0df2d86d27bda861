package policy

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Bounds of a JSON document a policy is shown. A tool that needs more than this
// needs another way in than arguments.
const (
	maxJSONDepth = 512
	maxJSONNodes = 1 << 17
)

// parseJSON reads one JSON document into the form policies are evaluated on. It is
// stricter than encoding/json where readers of the same bytes disagree, because
// policy must see what the tool will see: a repeated key, text that is not UTF-8
// and a lone surrogate are errors. Numbers keep every digit.
func parseJSON(raw []byte) (ast.Value, error) {
	p := jsonParser{raw: raw}
	v, err := p.value(0)
	if err == nil {
		p.space()
		if p.at < len(raw) {
			err = errors.New("there is more after the end of the document")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("at byte %d: %w", p.at, err)
	}
	return v, nil
}

type jsonParser struct {
	raw   []byte
	at    int
	nodes int
}

var (
	errEnd   = errors.New("the document ends too early")
	errUTF8  = errors.New("text is not valid UTF-8")
	errPairs = errors.New("an escaped character is half of a surrogate pair")
)

func (p *jsonParser) space() {
	for p.at < len(p.raw) {
		switch p.raw[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// next skips white space and returns the byte there, 0 at the end.
func (p *jsonParser) next() byte {
	p.space()
	if p.at < len(p.raw) {
		return p.raw[p.at]
	}
	return 0
}

func (p *jsonParser) value(depth int) (ast.Value, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxJSONDepth)
	}
	if p.nodes++; p.nodes > maxJSONNodes {
		return nil, fmt.Errorf("more than %d values", maxJSONNodes)
	}
	switch c := p.next(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		s, err := p.text()
		if err != nil {
			return nil, err
		}
		return ast.InternedTerm(s).Value, nil
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		return ast.InternedTerm(true).Value, p.word("true")
	case c == 'f':
		return ast.InternedTerm(false).Value, p.word("false")
	case c == 'n':
		return ast.NullValue, p.word("null")
	case p.at >= len(p.raw):
		return nil, errEnd
	default:
		return nil, fmt.Errorf("%q starts no value", c)
	}
}

func (p *jsonParser) word(w string) error {
	if len(p.raw)-p.at < len(w) || string(p.raw[p.at:p.at+len(w)]) != w {
		return fmt.Errorf("expected %s", w)
	}
	p.at += len(w)
	return nil
}

func (p *jsonParser) object(depth int) (ast.Value, error) {
	p.at++
	var pairs [][2]*ast.Term
	if p.next() == '}' {
		p.at++
		return ast.NewObject(), nil
	}
	for {
		if p.next() != '"' {
			return nil, errors.New("expected a key in double quotes")
		}
		k, err := p.text()
		if err != nil {
			return nil, err
		}
		if p.next() != ':' {
			return nil, errors.New("expected ':' after a key")
		}
		p.at++
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, [2]*ast.Term{ast.InternedTerm(k), ast.NewTerm(v)})
		switch p.next() {
		case ',':
			p.at++
		case '}':
			p.at++
			if k, twice := repeated(pairs); twice {
				return nil, fmt.Errorf("an object that ends here has the key %.80q twice", k)
			}
			return ast.NewObject(pairs...), nil
		default:
			return nil, errors.New("expected ',' or '}'")
		}
	}
}

// repeated finds a key that occurs twice. Few keys are compared faster than hashed.
func repeated(pairs [][2]*ast.Term) (string, bool) {
	name := func(i int) string { return string(pairs[i][0].Value.(ast.String)) }
	if len(pairs) <= 16 {
		for i := range pairs {
			for j := range i {
				if name(i) == name(j) {
					return name(i), true
				}
			}
		}
		return "", false
	}
	seen := make(map[string]struct{}, len(pairs))
	for i := range pairs {
		if _, ok := seen[name(i)]; ok {
			return name(i), true
		}
		seen[name(i)] = struct{}{}
	}
	return "", false
}

func (p *jsonParser) array(depth int) (ast.Value, error) {
	p.at++
	var elems []*ast.Term
	if p.next() == ']' {
		p.at++
		return ast.NewArray(), nil
	}
	for {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		elems = append(elems, ast.NewTerm(v))
		switch p.next() {
		case ',':
			p.at++
		case ']':
			p.at++
			return ast.NewArray(elems...), nil
		default:
			return nil, errors.New("expected ',' or ']'")
		}
	}
}

// number follows RFC 8259: no leading zeros, no bare points, no plus sign.
func (p *jsonParser) number() (ast.Value, error) {
	start := p.at
	digits := func() bool {
		from := p.at
		for p.at < len(p.raw) && p.raw[p.at] >= '0' && p.raw[p.at] <= '9' {
			p.at++
		}
		return p.at > from
	}
	has := func(set string) bool {
		if p.at < len(p.raw) {
			for i := range len(set) {
				if p.raw[p.at] == set[i] {
					p.at++
					return true
				}
			}
		}
		return false
	}
	has("-")
	whole := has("0") || digits()
	if whole && has(".") {
		whole = digits()
	}
	if whole && has("eE") {
		has("+-")
		whole = digits()
	}
	if !whole {
		return nil, errors.New("not a number")
	}
	lit := string(p.raw[start:p.at])
	if t := ast.InternedIntNumberTermFromString(lit); t != nil {
		return t.Value, nil
	}
	n, err := ast.NumberChecked(lit)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// text reads a string, p.at on its opening quote.
func (p *jsonParser) text() (string, error) {
	p.at++
	start := p.at
	for p.at < len(p.raw) {
		switch c := p.raw[p.at]; {
		case c == '"':
			s := p.raw[start:p.at]
			p.at++
			if !utf8.Valid(s) {
				return "", errUTF8
			}
			return string(s), nil
		case c == '\\':
			return p.escaped(start)
		case c < ' ':
			return "", fmt.Errorf("control character %#02x inside text", c)
		default:
			p.at++
		}
	}
	return "", errEnd
}

// escaped goes on with a string that has an escape, which starts at p.at.
func (p *jsonParser) escaped(start int) (string, error) {
	buf := append([]byte(nil), p.raw[start:p.at]...)
	for p.at < len(p.raw) {
		c := p.raw[p.at]
		p.at++
		switch {
		case c == '"':
			if !utf8.Valid(buf) {
				return "", errUTF8
			}
			return string(buf), nil
		case c < ' ':
			return "", fmt.Errorf("control character %#02x inside text", c)
		case c != '\\':
			buf = append(buf, c)
			continue
		}
		if p.at >= len(p.raw) {
			return "", errEnd
		}
		c = p.raw[p.at]
		p.at++
		switch c {
		case '"', '\\', '/':
			buf = append(buf, c)
		case 'b':
			buf = append(buf, '\b')
		case 'f':
			buf = append(buf, '\f')
		case 'n':
			buf = append(buf, '\n')
		case 'r':
			buf = append(buf, '\r')
		case 't':
			buf = append(buf, '\t')
		case 'u':
			r, err := p.hex4()
			if err != nil {
				return "", err
			}
			if utf16.IsSurrogate(r) {
				if len(p.raw)-p.at < 2 || p.raw[p.at] != '\\' || p.raw[p.at+1] != 'u' {
					return "", errPairs
				}
				p.at += 2
				low, err := p.hex4()
				if err != nil {
					return "", err
				}
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					return "", errPairs
				}
			}
			buf = utf8.AppendRune(buf, r)
		default:
			return "", fmt.Errorf("%q is no escape", "\\"+string(rune(c)))
		}
	}
	return "", errEnd
}

func (p *jsonParser) hex4() (rune, error) {
	if len(p.raw)-p.at < 4 {
		return 0, errEnd
	}
	n, err := strconv.ParseInt(string(p.raw[p.at:p.at+4]), 16, 32)
	if err != nil || p.raw[p.at] == '+' || p.raw[p.at] == '-' {
		return 0, errors.New("\\u needs four hexadecimal digits")
	}
	p.at += 4
	return rune(n), nil
}

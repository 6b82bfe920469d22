package items

import (
	"errors"
	"fmt"
	"strings"
)

// state is what may come next in a value.
type state int

const (
	aValue state = iota
	aValueOrEnd
	aName
	aNameOrEnd
	aColon
	aCommaOrEnd
	inName // within the quotes
	inText
	nothing // the value has ended
)

// scan reads one JSON value, piece by piece, so that a long one need not be in memory to be read.
type scan struct {
	state state
	open  []byte // the brackets that have been opened and not closed
	out   []byte // what has been read, without the blanks between its parts
	keep  bool   // whether out is wanted
	at    int    // how much of the data has been read
	from  int    // how much of it is in out
}

// begin gets ready for the next value.
func (s *scan) begin(keep bool) {
	*s = scan{state: aValue, open: s.open[:0], out: s.out[:0], keep: keep}
}

// read goes on with data, of which it reads s.at bytes; what is left of it is to be given again, with more behind it. last says that
// there is no more. It returns true at the end of the value.
func (s *scan) read(data []byte, last bool) (done bool, err error) {
	s.at, s.from = 0, 0
	for more := true; more && s.at < len(data) && s.state != nothing; {
		if s.state < inName && isBlank(data[s.at]) {
			s.blanks(data)
			continue
		}
		if more, err = s.part(data, last); err != nil {
			return false, err
		}
	}
	s.copy(data)
	return s.state == nothing, nil
}

func (s *scan) blanks(data []byte) {
	s.copy(data)
	for s.at < len(data) && isBlank(data[s.at]) {
		s.at++
	}
	s.from = s.at
}

func (s *scan) copy(data []byte) {
	if s.keep {
		s.out = append(s.out, data[s.from:s.at]...)
	}
	s.from = s.at
}

// part reads what comes next. It returns false when data does not hold all of it.
func (s *scan) part(data []byte, last bool) (bool, error) {
	c := data[s.at]
	switch s.state {
	case inText, inName:
		return s.text(data)
	case aName, aNameOrEnd:
		if c == '"' {
			return s.step(inName)
		}
		if c == '}' && s.state == aNameOrEnd {
			return s.closed()
		}
		return false, unexpected(c, `where the name of a member should start`)
	case aColon:
		if c == ':' {
			return s.step(aValue)
		}
		return false, unexpected(c, "after the name of a member (expecting ':')")
	case aCommaOrEnd:
		return s.separator(c)
	}
	return s.value(c, data, last)
}

// step goes past one byte.
func (s *scan) step(next state) (bool, error) {
	s.at++
	s.state = next
	return true, nil
}

func (s *scan) value(c byte, data []byte, last bool) (bool, error) {
	switch {
	case c == '"':
		return s.step(inText)
	case c == '{':
		return s.opened(c, aNameOrEnd)
	case c == '[':
		return s.opened(c, aValueOrEnd)
	case c == ']' && s.state == aValueOrEnd:
		return s.closed()
	case c == '-' || isDigit(c):
		return s.number(data, last)
	case c == 't':
		return s.literal("true", data)
	case c == 'f':
		return s.literal("false", data)
	case c == 'n':
		return s.literal("null", data)
	}
	return false, unexpected(c, "at start of value")
}

// deepestValue is how far arrays and objects may nest.
const deepestValue = 10_000

func (s *scan) opened(bracket byte, next state) (bool, error) {
	if len(s.open) == deepestValue {
		return false, errors.New("nested too deeply")
	}
	s.open = append(s.open, bracket)
	return s.step(next)
}

func (s *scan) closed() (bool, error) {
	s.open = s.open[:len(s.open)-1]
	return s.step(s.behind())
}

// behind is what comes after a value.
func (s *scan) behind() state {
	if len(s.open) == 0 {
		return nothing
	}
	return aCommaOrEnd
}

func (s *scan) separator(c byte) (bool, error) {
	inObject := s.open[len(s.open)-1] == '{'
	switch {
	case c == ',' && inObject:
		return s.step(aName)
	case c == ',':
		return s.step(aValue)
	case c == '}' && inObject, c == ']' && !inObject:
		return s.closed()
	case inObject:
		return false, unexpected(c, "after the value of a member (expecting ',' or '}')")
	}
	return false, unexpected(c, "after an element of an array (expecting ',' or ']')")
}

func (s *scan) literal(word string, data []byte) (bool, error) {
	rest := data[s.at:min(len(data), s.at+len(word))]
	if string(rest) == word {
		s.at += len(word)
		s.state = s.behind()
		return true, nil
	}
	for i := range rest {
		if rest[i] != word[i] {
			s.at += i
			return false, unexpected(rest[i], "within "+word)
		}
	}
	return false, nil
}

// number reads a number, which ends where something else begins.
func (s *scan) number(data []byte, last bool) (bool, error) {
	i := s.at
	if data[i] == '-' {
		i++
	}
	switch {
	case i < len(data) && data[i] == '0':
		i++
	default:
		i = digitsEnd(data, i)
	}
	if i < len(data) && data[i] == '.' {
		i = digitsEnd(data, i+1)
	}
	if i < len(data) && isDigit(data[i-1]) && (data[i] == 'e' || data[i] == 'E') {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		i = digitsEnd(data, i)
	}
	switch {
	case i >= len(data) && !last:
		return false, nil
	case !isDigit(data[i-1]) && i < len(data):
		s.at = i
		return false, unexpected(data[i], "within a number")
	case !isDigit(data[i-1]):
		return false, nil
	}
	s.at = i
	s.state = s.behind()
	return true, nil
}

func digitsEnd(data []byte, i int) int {
	for i < len(data) && isDigit(data[i]) {
		i++
	}
	return i
}

func unexpected(c byte, where string) error {
	shown := fmt.Sprintf("%q", rune(c))
	if c >= 0x80 {
		shown = strings.Replace(fmt.Sprintf("'%+q'", string([]byte{c})), `"`, "", 2)
	}
	return fmt.Errorf("invalid character %s %s", shown, where)
}

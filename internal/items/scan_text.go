package items

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads the rest of a text, up to and with the quote that ends it.
func (s *scan) text(data []byte) (bool, error) {
	for {
		s.at = plain(data, s.at)
		if s.at == len(data) {
			return false, nil
		}
		n, err := 0, error(nil)
		switch c := data[s.at]; {
		case c == '"':
			if s.state == inName {
				return s.step(aColon)
			}
			return s.step(s.behind())
		case c == '\\':
			n, err = escapeLength(data[s.at:])
		case c >= utf8.RuneSelf:
			n, err = characterLength(data[s.at:])
		default:
			err = unexpected(c, `in a text (write it \u00XX)`)
		}
		if n == 0 || err != nil {
			return false, err
		}
		s.at += n
	}
}

// plain returns where from i on a byte stands that ends a text or is not one plain character of it.
func plain(data []byte, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	for ; i+8 <= len(data); i += 8 {
		// A byte of mark has its high bit if that of the word is a quote, a backslash, a control character or no ASCII. A byte above
		// one that has it may have it by mistake.
		word := binary.LittleEndian.Uint64(data[i:])
		mark := (word | (word ^ '"'*ones - ones) | (word ^ '\\'*ones - ones) | (word - ' '*ones)) & highs
		if mark != 0 {
			return i + bits.TrailingZeros64(mark)/8
		}
	}
	for i < len(data) && data[i] != '"' && data[i] != '\\' && data[i] >= ' ' && data[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// characterLength returns the length of the character at the beginning of data, or 0 when data does not hold all of it.
func characterLength(data []byte) (int, error) {
	r, n := utf8.DecodeRune(data)
	if r != utf8.RuneError || n > 1 {
		return n, nil
	}
	if !utf8.FullRune(data) {
		return 0, nil
	}
	return 0, errUTF8
}

var errEscape = errors.New("an escape that JSON does not have")

// escapeLength returns the length of the escape at the beginning of data, or 0 when data does not hold all of it. The two halves of
// a surrogate pair are one.
func escapeLength(data []byte) (int, error) {
	if len(data) < 2 {
		return 0, nil
	}
	switch data[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
	default:
		return 0, errEscape
	}
	first, n, err := unit(data)
	if n == 0 || err != nil || !utf16.IsSurrogate(first) {
		return n, err
	}
	second, m, err := unit(data[n:])
	if m == 0 || err != nil {
		return 0, err
	}
	if utf16.DecodeRune(first, second) == utf8.RuneError {
		return 0, errors.New("half of a surrogate pair")
	}
	return n + m, nil
}

// unit reads \uXXXX. The length is 0 when data does not hold all of it.
func unit(data []byte) (rune, int, error) {
	const length = len(`\uXXXX`)
	for i, c := range data[:min(len(data), length)] {
		wrong := i == 0 && c != '\\' || i == 1 && c != 'u' || i > 1 && !isHex(c)
		if wrong {
			return 0, 0, errEscape
		}
	}
	if len(data) < length {
		return 0, 0, nil
	}
	n, _ := strconv.ParseUint(string(data[2:length]), 16, 16)
	return rune(n), length, nil
}

func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

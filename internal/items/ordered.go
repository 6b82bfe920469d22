package items

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"prodigy/internal/rawjson"
)

// appendOrdered appends a form of the value whose bytes have the order of values: null, booleans, numbers, texts, arrays, objects;
// numbers by size, texts byte by byte, arrays by their first element that differs, objects by their members in the order of the names.
// Two values have the same form if and only if they are equal, and no form is the beginning of another.
func appendOrdered(b []byte, v value) []byte {
	b = append(b, byte(v.kind)+1) // 0 ends arrays and objects
	switch v.kind {
	case boolean:
		if v.yes {
			return append(b, 1)
		}
		return append(b, 0)
	case number:
		return appendNumber(b, newDecimal(v.text))
	case text:
		return appendText(b, v.text)
	case array:
		for element := range rawjson.Elements(v.raw) {
			b = appendOrdered(b, newValue(element))
		}
		return append(b, 0)
	case objectKind:
		return appendMembers(b, v.members())
	}
	return b
}

// appendNumber appends the sign, and then the exponent and the digits, which are inverted when less is more.
func appendNumber(b []byte, d decimal) []byte {
	b = append(b, byte(d.sign+1))
	if d.sign == 0 {
		return b
	}
	start := len(b)
	b = binary.BigEndian.AppendUint64(b, uint64(d.point)+math.MaxInt64+1)
	b = append(append(b, d.digits...), 0)
	if d.sign < 0 {
		invert(b[start:])
	}
	return b
}

// appendText appends a text and its end, 0 0. A 0 in the text is followed by 1.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if b = append(b, s[i]); s[i] == 0 {
			b = append(b, 1)
		}
	}
	return append(b, 0, 0)
}

func appendMembers(b []byte, members map[string][]byte) []byte {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		b = appendText(append(b, 1), name)
		b = appendOrdered(b, newValue(members[name]))
	}
	return append(b, 0)
}

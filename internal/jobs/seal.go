package jobs

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"sync"
)

// A JSON object is sealed with a CRC32C of its own bytes, so that damage to a stored record is noticed when
// it is read.
//
// A sealed object has the checksum as its last member, in exactly this form:
//
//	{"seq":7,"type":"job_started","crc":"1a2b3c4d"}
//
// The checksum covers every byte of the object before the comma of that member: from its opening brace up to
// and including the last byte of the member before. CRC32C is Castagnoli's polynomial, as in iSCSI and ext4,
// written as eight lower-case hexadecimal digits. An object without members is sealed as {"crc":"…"}, and its
// opening brace alone is covered. The line feed that ends a line is no part of the object.
//
// The form is fixed, so that a check needs no parser and that no second spelling of a sealed object is valid.
const (
	sealKey    = `"crc":"`
	sealEnding = `"}`
	sealDigits = 2 * crc32.Size
	// sealLen is the length of the member with the brace that ends the object, and without the comma before it.
	sealLen = len(sealKey) + sealDigits + len(sealEnding)
)

// ErrNoSeal is the error of a line without a checksum in a place where it must have one.
var ErrNoSeal = errors.New("no checksum")

// SealError is the error of a sealed object whose bytes are not those that were sealed.
type SealError struct {
	// Stored is what stands where the digits belong, Computed the checksum of the bytes that are there.
	Stored, Computed string
}

func (e *SealError) Error() string {
	return fmt.Sprintf("checksum is %q, computed %q", e.Stored, e.Computed)
}

var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// Seal adds the checksum to the JSON object that is buf[start:], and returns the extended buffer. The object
// must end with its closing brace, have no whitespace before that, and have no member "crc" of its own. Seal
// panics when buf[start:] is not in braces.
func Seal(buf []byte, start int) []byte {
	object := buf[start:]
	if len(object) < 2 || object[0] != '{' || object[len(object)-1] != '}' {
		panic("jobs: not a JSON object")
	}
	covered := object[:len(object)-1]
	return AppendSeal(buf[:len(buf)-1], covered)
}

// AppendSeal appends what seals an object whose bytes so far, without its closing brace, are covered: the
// checksum and the brace. Dst may be the buffer that covered lies in.
func AppendSeal(dst, covered []byte) []byte {
	sum := sumOf(covered)
	if len(covered) > 1 {
		dst = append(dst, ',')
	}
	dst = append(dst, sealKey...)
	dst = append(dst, sum[:]...)
	return append(dst, sealEnding...)
}

// CheckSeal reports whether line, a JSON object without its line feed, is sealed, and returns a [*SealError]
// when its bytes are not those that were sealed. A line that does not end exactly as Seal writes it is not
// sealed, whatever else is wrong with it: callers that know that a checksum has to be there treat that as
// damage, see [SealedLines].
func CheckSeal(line []byte) (sealed bool, err error) {
	covered, stored, sealed := cut(line)
	if !sealed {
		return false, nil
	}
	sum := sumOf(covered)
	if !bytes.Equal(stored, sum[:]) {
		return true, &SealError{Stored: string(stored), Computed: string(sum[:])}
	}
	return true, nil
}

// StripSeal returns the object of a sealed line as it was before it was sealed. It does not check the
// checksum, and returns a copy. A line that is not sealed is returned as it is.
func StripSeal(line []byte) []byte {
	covered, _, sealed := cut(line)
	if !sealed {
		return line
	}
	return append(bytes.Clone(covered), '}')
}

// SealedMembers returns the object of a line, sealed or not, without its closing brace and without the
// checksum. It does not copy. It is nil when the line does not end with a brace.
func SealedMembers(line []byte) []byte {
	if covered, _, sealed := cut(line); sealed {
		return covered
	}
	if len(line) == 0 || line[len(line)-1] != '}' {
		return nil
	}
	return line[:len(line)-1]
}

// cut splits a sealed line into the bytes that its checksum covers and the digits.
func cut(line []byte) (covered, stored []byte, sealed bool) {
	at := len(line) - sealLen
	if at < 1 || line[0] != '{' || string(line[at:at+len(sealKey)]) != sealKey ||
		string(line[len(line)-len(sealEnding):]) != sealEnding {
		return nil, nil, false
	}
	stored = line[at+len(sealKey) : at+len(sealKey)+sealDigits]
	switch {
	case at == 1:
		return line[:1], stored, true
	case line[at-1] == ',' && at > 2:
		return line[:at-1], stored, true
	}
	return nil, nil, false
}

// NewChecksum returns a running CRC32C, for files that are no lines of JSON. ChecksumText gives its digits.
func NewChecksum() hash.Hash32 { return crc32.New(castagnoli()) }

// ChecksumText returns the digits of a running checksum, as Seal writes them.
func ChecksumText(h hash.Hash32) string { return hex.EncodeToString(h.Sum(nil)) }

// ChecksumOf returns the digits of the checksum of data.
func ChecksumOf(data []byte) string {
	sum := sumOf(data)
	return string(sum[:])
}

func sumOf(covered []byte) [sealDigits]byte {
	var sum [crc32.Size]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(covered, castagnoli()))
	var text [sealDigits]byte
	hex.Encode(text[:], sum[:])
	return text
}

// SealedLines checks the lines of one file in their order. SealedLines of an older program, which have no
// checksum, may come first. After the first sealed line every line must be sealed. The zero value is ready;
// set Required where the first line must be sealed already.
type SealedLines struct {
	Required bool
}

// Check returns nil for a sound line, a [*SealError] for one that was changed, and [ErrNoSeal] for one
// without the checksum that it has to have.
func (l *SealedLines) Check(line []byte) error {
	sealed, err := CheckSeal(line)
	switch {
	case sealed:
		l.Required = true
		return err
	case l.Required:
		return ErrNoSeal
	}
	return nil
}

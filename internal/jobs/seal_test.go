package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

func TestSealPutsTheChecksumLast(t *testing.T) {
	for _, test := range []struct{ object, want string }{
		{`{}`, `{"crc":"ba6cac67"}`},
		{`{"seq":7,"type":"job_started"}`, `{"seq":7,"type":"job_started","crc":"fb431377"}`},
		{`{"a":{"crc":"00000000"}}`, `{"a":{"crc":"00000000"},"crc":"00b91405"}`},
		{`{"a":"é\u2028"}`, `{"a":"é\u2028","crc":"260d384e"}`},
	} {
		buf := Seal([]byte("before "+test.object), len("before "))
		if got := string(buf); got != "before "+test.want {
			t.Errorf("Seal(%s) = %s, want %s", test.object, got, test.want)
		}
		if sealed, err := CheckSeal([]byte(test.want)); !sealed || err != nil {
			t.Errorf("CheckSeal(%s) = %t, %v", test.want, sealed, err)
		}
		if got := string(StripSeal([]byte(test.want))); got != test.object {
			t.Errorf("StripSeal(%s) = %s, want %s", test.want, got, test.object)
		}
	}
}

// The check value that every description of CRC32C gives for the digits 1 to 9.
func TestThePolynomialIsCastagnolis(t *testing.T) {
	if sum := ChecksumOf([]byte("123456789")); sum != "e3069283" {
		t.Errorf("the checksum of 123456789 is %s, want e3069283", sum)
	}
	running := NewChecksum()
	_, _ = running.Write([]byte("12345"))
	_, _ = running.Write([]byte("6789"))
	if sum := ChecksumText(running); sum != "e3069283" {
		t.Errorf("in two pieces it is %s, want e3069283", sum)
	}
}

func TestWhatIsNotInTheFormIsNotSealed(t *testing.T) {
	for _, line := range []string{
		``, `{`, `{}`, `null`, `{"seq":7}`,
		`{"seq":7,"crc":"8f5711f"}`,
		`{"seq":7,"crc": "fb431377"}`,
		`{"seq":7,"crc":"fb431377" }`,
		`{"seq":7,"crc":"fb431377"}` + "\n",
		`{"seq":7,"crc":8711110}`,
		`{"seq":7 "crc":"fb431377"}`,
		`{,"crc":"fb431377"}`,
		`"seq":7,"crc":"fb431377"}`,
		`{"crc":"fb431377","seq":7}`,
		`{"a":{"crc":"fb431377"}}`,
		`{"a":"\"crc\":\"fb431377"}`,
		`"crc":"fb431377"}`,
	} {
		if sealed, err := CheckSeal([]byte(line)); sealed || err != nil {
			t.Errorf("CheckSeal(%s) = %t, %v, want it to be unsealed", line, sealed, err)
		}
		if got := StripSeal([]byte(line)); string(got) != line {
			t.Errorf("StripSeal(%s) = %s", line, got)
		}
	}
}

// No bit of a sealed line can be flipped unseen where a checksum is required, and upper-case digits are a second spelling that is not valid.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	line := Seal([]byte(`{"seq":7,"time":"2026-01-02T03:04:05Z","type":"agent_completed","item_index":41}`), 0)
	for at := range line {
		for bit := range 8 {
			flipped := bytes.Clone(line)
			flipped[at] ^= 1 << bit
			lines := SealedLines{Required: true}
			if err := lines.Check(flipped); err == nil {
				t.Errorf("bit %d of byte %d flipped is not noticed: %s", bit, at, flipped)
			}
		}
	}
}

func TestLinesAfterASealedOneMustBeSealed(t *testing.T) {
	sound, old := Seal([]byte(`{"seq":2}`), 0), []byte(`{"seq":1}`)
	wrong := bytes.Replace(sound, []byte("2"), []byte("3"), 1)
	var lines SealedLines
	for i, step := range []struct {
		line []byte
		want string
	}{
		{old, ""},
		{old, ""},
		{sound, ""},
		{old, "no checksum"},
		{wrong, `checksum is "` + string(wrong[len(wrong)-10:len(wrong)-2]) + `", computed "` + sumText(`{"seq":3`) + `"`},
		{sound, ""},
	} {
		err := lines.Check(step.line)
		if got := text(err); got != step.want {
			t.Errorf("line %d: %q, want %q", i+1, got, step.want)
		}
	}
	lines = SealedLines{}
	if err := lines.Check(wrong); err == nil {
		t.Error("a first line with a wrong checksum is not noticed")
	}
	if err := lines.Check(old); !errors.Is(err, ErrNoSeal) {
		t.Errorf("after a line with a wrong checksum one without gives %v, want it to be missed", err)
	}
}

func sumText(covered string) string {
	sum := sumOf([]byte(covered))
	return string(sum[:])
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func FuzzSeal(f *testing.F) {
	f.Add([]byte(`{"seq":7}`), 3, byte(1))
	f.Add([]byte(`{}`), 0, byte(255))
	f.Add([]byte(`{"crc":"00000000"}`), 12, byte(32))
	f.Fuzz(func(t *testing.T, object []byte, at int, change byte) {
		if _, err := CheckSeal(object); err != nil && len(object) < sealLen+1 {
			t.Errorf("CheckSeal(%q) found a checksum in so short a line", object)
		}
		if len(object) < 2 || object[0] != '{' || object[len(object)-1] != '}' {
			return
		}
		line := Seal(bytes.Clone(object), 0)
		if sealed, err := CheckSeal(line); !sealed || err != nil {
			t.Fatalf("CheckSeal(%q) = %t, %v", line, sealed, err)
		}
		if !bytes.Equal(StripSeal(line), object) {
			t.Errorf("StripSeal(%q) is not %q", line, object)
		}
		if compact := new(bytes.Buffer); json.Valid(object) && json.Compact(compact, object) == nil && bytes.Equal(compact.Bytes(), object) && !json.Valid(line) {
			t.Errorf("%q is no JSON any more", line)
		}
		if change != 0 {
			line[uint(at)%uint(len(line))] ^= change
			lines := SealedLines{Required: true}
			if lines.Check(line) == nil {
				t.Errorf("a changed byte is not noticed: %q", line)
			}
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	object := append(append([]byte(`{"text":"`), bytes.Repeat([]byte("a"), 300)...), `"}`...)
	buf := make([]byte, 0, 400)
	b.SetBytes(int64(len(object)))
	for b.Loop() {
		buf = Seal(append(buf[:0], object...), 0)
	}
}

func BenchmarkCheck(b *testing.B) {
	line := Seal(append(append([]byte(`{"text":"`), bytes.Repeat([]byte("a"), 300)...), `"}`...), 0)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if _, err := CheckSeal(line); err != nil {
			b.Fatal(err)
		}
	}
}

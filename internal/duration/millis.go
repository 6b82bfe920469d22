package duration

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Millis is a length of time that is written as a number of milliseconds with up to three decimals.
type Millis time.Duration

// String returns the length of time as people write it.
func (m Millis) String() string { return Format(time.Duration(m)) }

// MarshalJSON writes the number, rounded to the microsecond.
func (m Millis) MarshalJSON() ([]byte, error) {
	us := time.Duration(m.Rounded()).Microseconds()
	b := make([]byte, 0, 24)
	if us < 0 {
		b, us = append(b, '-'), -us
	}
	b = strconv.AppendInt(b, us/1000, 10)
	rest := us % 1000
	if rest == 0 {
		return b, nil
	}
	b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b, nil
}

// UnmarshalJSON reads any number of milliseconds, rounded to the microsecond.
func (m *Millis) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	ms, err := strconv.ParseFloat(string(data), 64)
	if err != nil {
		return fmt.Errorf("%s is not a number of milliseconds", data)
	}
	us := math.Round(ms * 1000)
	if math.Abs(us) >= math.MaxInt64/1000 {
		return fmt.Errorf("%s milliseconds are too long", data)
	}
	*m = Millis(time.Duration(us) * time.Microsecond)
	return nil
}

// Rounded returns what is left of m once it was written and read.
func (m Millis) Rounded() Millis {
	return Millis(time.Duration(m).Round(time.Microsecond).Truncate(time.Microsecond))
}

package limit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// USD is an amount of US dollars, in billionths: a sum does not depend on the order of what is added.
type USD int64

// Dollar is one US dollar.
const Dollar USD = 1e9

// maxUSD bounds a single amount, so that no sum can overflow.
const maxUSD = 1e6 * Dollar

// FromFloat returns an amount in dollars. One that is negative or no number is 0.
func FromFloat(dollars float64) USD {
	if !(dollars > 0) {
		return 0
	}
	return USD(math.Round(min(dollars, float64(maxUSD/Dollar)) * float64(Dollar)))
}

var errUSD = errors.New("must be an amount of US dollars from 0.000001 to 1000000, such as 25 or 0.50")

// minUSD is the least amount that can be a limit.
const minUSD = Dollar / 1_000_000

// ParseUSD reads a limit, as in 25, 0.50 or $12.40.
func ParseUSD(text string) (USD, error) {
	f, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	if err != nil {
		return 0, errUSD
	}
	return LimitOf(f)
}

// LimitOf returns a limit of so many dollars.
func LimitOf(dollars float64) (USD, error) {
	if u := FromFloat(dollars); u >= minUSD && dollars <= float64(maxUSD/Dollar) {
		return u, nil
	}
	return 0, errUSD
}

// String returns the amount for people, as in $12.40. Small amounts have four decimals.
func (u USD) String() string {
	dollars := float64(u) / float64(Dollar)
	switch {
	case u < 0:
		return "-" + (-u).String()
	case u > 0 && u < Dollar/10_000:
		return "<$0.0001"
	case u >= Dollar:
		return fmt.Sprintf("$%.2f", dollars)
	}
	text := fmt.Sprintf("$%.4f", dollars)
	for len(text) > len("$0.00") && strings.HasSuffix(text, "0") {
		text = text[:len(text)-1]
	}
	return text
}

// Decimal returns the exact amount as a plain number.
func (u USD) Decimal() string {
	text := fmt.Sprintf("%d.%09d", u/Dollar, u%Dollar)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// MarshalJSON implements json.Marshaler: a number of dollars.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.Decimal()), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (u *USD) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(string(data), 64)
	if err != nil || !(f >= 0) || f > float64(math.MaxInt64/2/Dollar) {
		return errUSD
	}
	*u = USD(math.Round(f * float64(Dollar)))
	return nil
}

// Count is a number of tokens.
type Count int64

var errCount = errors.New("must be a positive number of tokens, such as 500000, 500k or 20M")

// ReadText reads a number above 0, as in 500000, 500k or 20M.
func (n *Count) ReadText(text string) (err error) {
	*n, err = ParseCount(text)
	return err
}

// ParseCount reads a number above 0, as in 500000, 500k or 20M.
func ParseCount(text string) (Count, error) {
	scale, digits := Count(1), text
	switch {
	case strings.HasSuffix(text, "k"):
		scale, digits = 1e3, strings.TrimSuffix(text, "k")
	case strings.HasSuffix(text, "M"):
		scale, digits = 1e6, strings.TrimSuffix(text, "M")
	}
	const most = 999_999_999_999
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, errCount
	}
	return Count(n) * scale, nil
}

// String returns the number for people, as in 1.2M.
func (n Count) String() string {
	switch {
	case n >= 999_950:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 1000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return strconv.FormatInt(int64(n), 10)
}

package items

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// compareNumbers compares two numbers as they are spelled in JSON, exactly, however large or small they are.
func compareNumbers(a, b string) int {
	if len(a) < 19 && len(b) < 19 {
		x, errX := strconv.ParseInt(a, 10, 64)
		y, errY := strconv.ParseInt(b, 10, 64)
		if errX == nil && errY == nil {
			return cmp.Compare(x, y)
		}
	}
	x, y := newDecimal(a), newDecimal(b)
	if x.sign != y.sign || x.sign == 0 {
		return cmp.Compare(x.sign, y.sign)
	}
	if x.point != y.point {
		return x.sign * cmp.Compare(x.point, y.point)
	}
	return x.sign * strings.Compare(x.digits, y.digits)
}

// decimal is sign · 0.digits · 10^point, where digits neither begins nor ends with a zero.
type decimal struct {
	sign   int
	digits string
	point  int64
}

func newDecimal(s string) decimal {
	d := decimal{sign: 1}
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		d.sign, s = -1, rest
	}
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	d.digits = strings.TrimLeft(all, "0")
	d.point = int64(len(whole) - (len(all) - len(d.digits)))
	d.digits = strings.TrimRight(d.digits, "0")
	if d.digits == "" {
		return decimal{}
	}
	d.point += saturated(exponent)
	return d
}

// saturated reads an exponent. One that fits no computer is cut to a size that leaves room to add to.
func saturated(exponent string) int64 {
	const most = math.MaxInt64 / 2
	if exponent == "" {
		return 0
	}
	n, _ := strconv.ParseInt(exponent, 10, 64) // out of range gives the nearest
	return min(max(n, -most), most)
}

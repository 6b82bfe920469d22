package simulate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/limit"
)

// Draws says how much of something there is in each case: how long it takes, what it costs, how many there are. The
// zero Draws is none of it.
type Draws[T amount] struct {
	// sample draws a number of nanoseconds, micro-dollars or tokens. It is nil in the zero Draws.
	sample func(r *rand.Rand) float64
}

type amount interface {
	time.Duration | limit.USD | int64
}

type (
	Distribution = Draws[time.Duration] // how long something takes
	Costs        = Draws[limit.USD]     // what a run of an AI agent costs
	Counts       = Draws[int64]         // how many tokens a run of an AI agent uses
)

// quantity is what a distribution is of.
type quantity struct {
	parse              func(text string) (float64, error)
	value, less, great string // to show people how they are written

	most float64 // the largest value that is drawn
}

// quantityOf returns how amounts of a type are read and written.
func quantityOf[T amount]() quantity {
	switch any(*new(T)).(type) {
	case time.Duration:
		return quantity{orZero(duration.Parse), "2s", "1s", "3s", float64(longest)}
	case limit.USD:
		return quantity{orZero(limit.ParseUSD), "$0.05", "$0.01", "$0.10", float64(10_000 * limit.Dollar)}
	}
	return quantity{orZero(limit.ParseCount), "20k", "5k", "50k", 1e9}
}

// orZero returns what reads an amount by parse, or 0, which is no amount where it limits something.
func orZero[T ~int64](parse func(string) (T, error)) func(text string) (float64, error) {
	return func(text string) (float64, error) {
		if f, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64); err == nil && f == 0 {
			return 0, nil
		}
		n, err := parse(text)
		return float64(n), err
	}
}

// longest is the longest duration that is drawn.
const longest = 30 * 24 * time.Hour

// maxSigma is the largest sigma of a lognormal distribution. Past it, durations of years are common.
const maxSigma = 5

// Forms names the forms of a distribution, for people.
func (Draws[T]) Forms() string {
	q := quantityOf[T]()
	return fmt.Sprintf("%[1]s, const(%[1]s), uniform(%s, %s), exponential(%[1]s), lognormal(%[1]s, 0.8)",
		q.value, q.less, q.great)
}

// ReadText reads a distribution: a plain value, const(D), uniform(FROM, TO), exponential(MEAN) or
// lognormal(MEDIAN, SIGMA).
func (d *Draws[T]) ReadText(text string) error {
	form, list, ok := strings.Cut(strings.TrimSpace(text), "(")
	if !ok {
		form, list = "const", form+")"
	}
	list, closed := strings.CutSuffix(list, ")")
	args := check.Each(strings.Split(list, ","), strings.TrimSpace)
	parameters := map[string]int{"const": 1, "exponential": 1, "uniform": 2, "lognormal": 2}
	if !closed || len(args) != parameters[form] {
		return fmt.Errorf("%q must be one of %s", text, d.Forms())
	}
	parse := quantityOf[T]().parse
	a, err := parse(args[0])
	var b float64
	var second error // in the second parameter
	switch form {
	case "const":
		d.sample = func(*rand.Rand) float64 { return a }
	case "exponential":
		d.sample = func(r *rand.Rand) float64 { return r.ExpFloat64() * a }
	case "uniform":
		if b, second = parse(args[1]); second == nil && b < a {
			second = fmt.Errorf("%s is more than %s", args[0], args[1])
		}
		d.sample = func(r *rand.Rand) float64 { return a + r.Float64()*(b-a) }
	case "lognormal":
		if b, second = strconv.ParseFloat(args[1], 64); second != nil || !(b >= 0 && b <= maxSigma) {
			second = fmt.Errorf("sigma %q must be a number between 0 and %d", args[1], maxSigma)
		}
		d.sample = func(r *rand.Rand) float64 { return a * math.Exp(b*r.NormFloat64()) }
	}
	if err := cmp.Or(err, second); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return nil
}

// Draw returns an amount from r. A duration is of whole milliseconds from a millisecond on.
func (d Draws[T]) Draw(r *rand.Rand) T {
	if d.sample == nil {
		return 0
	}
	drawn := T(min(d.sample(r), quantityOf[T]().most))
	if t, is := any(drawn).(time.Duration); is && t > time.Millisecond {
		return T(t.Round(time.Millisecond))
	}
	return drawn
}

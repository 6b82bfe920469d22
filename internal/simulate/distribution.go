package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/limit"
)

// Draws says how much of something there is in each case: how long it takes, what it costs, how many there are. The
// zero Draws is none of it.
type Draws[T amount] struct{ distribution }

type amount interface {
	time.Duration | limit.USD | int64
}

type (
	Distribution = Draws[time.Duration] // how long something takes
	Costs        = Draws[limit.USD]     // what a run of an AI agent costs
	Counts       = Draws[int64]         // how many tokens a run of an AI agent uses
)

// distribution is of numbers: nanoseconds, US dollars, or tokens.
type distribution struct {
	form *form
	a, b float64
}

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
		return quantity{func(text string) (float64, error) {
			d, err := duration.Parse(text)
			return float64(d), err
		}, "2s", "1s", "3s", float64(longest)}
	case limit.USD:
		return quantity{func(text string) (float64, error) {
			if f, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64); err == nil && f == 0 {
				return 0, nil // it is a cost, not a limit
			}
			u, err := limit.ParseUSD(text)
			return float64(u), err
		}, "$0.05", "$0.01", "$0.10", float64(10_000 * limit.Dollar)}
	}
	return quantity{func(text string) (float64, error) {
		if text == "0" {
			return 0, nil
		}
		n, err := limit.ParseCount(text)
		return float64(n), err
	}, "20k", "5k", "50k", 1e9}
}

// longest is the longest duration that is drawn.
const longest = 30 * 24 * time.Hour

// form is a way to write a distribution: a value, and perhaps a second parameter.
type form struct {
	name   string
	params func(q quantity) string // for people
	second func(d *distribution, q quantity, args []string) error
	sample func(d distribution, r *rand.Rand) float64
}

// forms returns the forms, in the order in which messages name them.
func forms() []*form {
	value := func(q quantity) string { return q.value }
	return []*form{
		{"const", value, nil, func(d distribution, _ *rand.Rand) float64 { return d.a }},
		{
			"uniform", func(q quantity) string { return q.less + ", " + q.great }, greater,
			func(d distribution, r *rand.Rand) float64 { return d.a + r.Float64()*(d.b-d.a) },
		},
		{"exponential", value, nil, func(d distribution, r *rand.Rand) float64 { return r.ExpFloat64() * d.a }},
		{
			"lognormal", func(q quantity) string { return q.value + ", 0.8" }, sigma,
			func(d distribution, r *rand.Rand) float64 { return d.a * math.Exp(d.b*r.NormFloat64()) },
		},
	}
}

// read reads the parameters of a form.
func (d *distribution) read(q quantity, args []string) (err error) {
	want := 1
	if d.form.second != nil {
		want = 2
	}
	if len(args) != want {
		return errArguments
	}
	if d.a, err = q.parse(args[0]); err == nil && want == 2 {
		err = d.form.second(d, q, args)
	}
	return err
}

// greater reads the second parameter of a distribution, which must not lie below the first.
func greater(d *distribution, q quantity, args []string) (err error) {
	if d.b, err = q.parse(args[1]); err == nil && d.b < d.a {
		err = fmt.Errorf("%s is more than %s", args[0], args[1])
	}
	return err
}

// maxSigma is the largest sigma of a lognormal distribution. Past it, durations of years are common.
const maxSigma = 5

// sigma reads the standard deviation of the logarithm of a lognormal distribution.
func sigma(d *distribution, _ quantity, args []string) (err error) {
	if d.b, err = strconv.ParseFloat(args[1], 64); err != nil || !(d.b >= 0 && d.b <= maxSigma) {
		return fmt.Errorf("sigma %q: want a number from 0 to %d", args[1], maxSigma)
	}
	return nil
}

var errArguments = errors.New("it has other parameters")

// Forms names the forms of a distribution, for people.
func (Draws[T]) Forms() string {
	q := quantityOf[T]()
	all := []string{q.value}
	for _, f := range forms() {
		all = append(all, f.name+"("+f.params(q)+")")
	}
	return strings.Join(all, ", ")
}

// ReadText reads a distribution: a plain value, const(D), uniform(FROM, TO), exponential(MEAN) or
// lognormal(MEDIAN, SIGMA).
func (d *Draws[T]) ReadText(text string) error {
	name, rest, has := strings.Cut(strings.TrimSpace(text), "(")
	if !has {
		name, rest = "const", name+")"
	}
	inner, closed := strings.CutSuffix(strings.TrimSpace(rest), ")")
	at := slices.IndexFunc(forms(), func(f *form) bool { return f.name == strings.TrimSpace(name) })
	err := errArguments
	if closed && at >= 0 {
		d.form = forms()[at]
		err = d.read(quantityOf[T](), check.Each(strings.Split(inner, ","), strings.TrimSpace))
	}
	switch {
	case errors.Is(err, errArguments):
		return fmt.Errorf("%q: want one of %s", text, d.Forms())
	case err != nil:
		return fmt.Errorf("%q: %w", text, err)
	}
	return nil
}

// Draw returns an amount from r. A duration is of whole milliseconds from a millisecond on.
func (d Draws[T]) Draw(r *rand.Rand) T {
	if d.form == nil {
		return 0
	}
	drawn := T(min(d.form.sample(d.distribution, r), quantityOf[T]().most))
	if t, is := any(drawn).(time.Duration); is && t > time.Millisecond {
		return T(t.Round(time.Millisecond))
	}
	return drawn
}

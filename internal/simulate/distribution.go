package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/duration"
)

// Distribution says how long something takes. The zero Distribution takes no time.
type Distribution struct {
	form   *form
	a, b   time.Duration
	sigma  float64
	values []time.Duration // a sample to draw from, in place of a form
}

// form is a way to write a distribution.
type form struct {
	name   string
	params string // for people
	read   func(d *Distribution, args []string) error
	sample func(d Distribution, r *rand.Rand) float64 // in nanoseconds
}

// forms returns the forms, in the order in which messages name them.
func forms() []*form {
	return []*form{
		{"const", "2s", oneDuration, func(d Distribution, _ *rand.Rand) float64 { return float64(d.a) }},
		{"uniform", "1s, 3s", twoDurations, func(d Distribution, r *rand.Rand) float64 {
			return float64(d.a) + r.Float64()*float64(d.b-d.a)
		}},
		{"exponential", "2s", oneDuration, func(d Distribution, r *rand.Rand) float64 { return r.ExpFloat64() * float64(d.a) }},
		{"lognormal", "2s, 0.8", median, func(d Distribution, r *rand.Rand) float64 {
			return float64(d.a) * math.Exp(d.sigma*r.NormFloat64())
		}},
	}
}

func oneDuration(d *Distribution, args []string) (err error) {
	if len(args) != 1 {
		return errArguments
	}
	d.a, err = duration.Parse(args[0])
	return err
}

func twoDurations(d *Distribution, args []string) (err error) {
	if len(args) != 2 {
		return errArguments
	}
	if d.a, err = duration.Parse(args[0]); err != nil {
		return err
	}
	if d.b, err = duration.Parse(args[1]); err == nil && d.b < d.a {
		err = fmt.Errorf("%s is more than %s", args[0], args[1])
	}
	return err
}

// maxSigma is the largest sigma of a lognormal distribution. Past it, durations of years are common.
const maxSigma = 5

func median(d *Distribution, args []string) (err error) {
	if len(args) != 2 {
		return errArguments
	}
	if d.a, err = duration.Parse(args[0]); err != nil {
		return err
	}
	if d.sigma, err = strconv.ParseFloat(args[1], 64); err != nil || !(d.sigma >= 0 && d.sigma <= maxSigma) {
		return fmt.Errorf("sigma %q: want a number from 0 to %d", args[1], maxSigma)
	}
	return nil
}

var errArguments = fmt.Errorf("it has other parameters")

// DistributionForms names the forms of a distribution, for people.
func DistributionForms() string {
	var all []string
	for _, f := range forms() {
		all = append(all, f.name+"("+f.params+")")
	}
	return "2s, " + strings.Join(all, ", ")
}

// ParseDistribution reads a distribution: a plain duration, const(D), uniform(FROM, TO), exponential(MEAN) or lognormal(MEDIAN, SIGMA).
func ParseDistribution(text string) (Distribution, error) {
	invalid := func(why error) error {
		if why == errArguments {
			return fmt.Errorf("%q: want one of %s", text, DistributionForms())
		}
		return fmt.Errorf("%q: %w", text, why)
	}
	name, rest, has := strings.Cut(strings.TrimSpace(text), "(")
	if !has {
		name, rest = "const", name+")"
	}
	inner, closed := strings.CutSuffix(strings.TrimSpace(rest), ")")
	at := slices.IndexFunc(forms(), func(f *form) bool { return f.name == strings.TrimSpace(name) })
	if !closed || at < 0 {
		return Distribution{}, invalid(errArguments)
	}
	d := Distribution{form: forms()[at]}
	args := strings.Split(inner, ",")
	for i := range args {
		args[i] = strings.TrimSpace(args[i])
	}
	if err := d.form.read(&d, args); err != nil {
		return Distribution{}, invalid(err)
	}
	return d, nil
}

// longest is the longest duration that is drawn.
const longest = 30 * 24 * time.Hour

// Draw returns a duration from r, in whole milliseconds from a millisecond on.
func (d Distribution) Draw(r *rand.Rand) time.Duration {
	var t time.Duration
	switch {
	case len(d.values) > 0:
		return d.values[r.IntN(len(d.values))]
	case d.form == nil:
		return 0
	default:
		t = time.Duration(min(d.form.sample(d, r), float64(longest)))
	}
	if t > time.Millisecond {
		t = t.Round(time.Millisecond)
	}
	return t
}

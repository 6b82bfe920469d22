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

	"prodigy/internal/duration"
	"prodigy/internal/spend"
)

// Distribution says how long something takes. The zero Distribution takes no time.
type Distribution struct{ distribution }

// Costs says what a run of an AI agent costs. The zero Costs is nothing.
type Costs struct{ distribution }

// Counts says how many tokens a run of an AI agent uses. The zero Counts is none.
type Counts struct{ distribution }

// distribution is of numbers: nanoseconds, US dollars, or tokens.
type distribution struct {
	form  *form
	a, b  float64
	sigma float64
}

// quantity is what a distribution is of.
type quantity struct {
	parse              func(text string) (float64, error)
	value, less, great string // to show people how they are written
}

func durations() quantity {
	return quantity{func(text string) (float64, error) {
		d, err := duration.Parse(text)
		return float64(d), err
	}, "2s", "1s", "3s"}
}

func dollars() quantity {
	return quantity{func(text string) (float64, error) {
		if f, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64); err == nil && f == 0 {
			return 0, nil // it is no limit, but a cost
		}
		u, err := spend.ParseUSD(text)
		return float64(u) / float64(spend.Dollar), err
	}, "$0.05", "$0.01", "$0.10"}
}

func counts() quantity {
	return quantity{func(text string) (float64, error) {
		if text == "0" {
			return 0, nil
		}
		n, err := spend.ParseCount(text)
		return float64(n), err
	}, "20k", "5k", "50k"}
}

// form is a way to write a distribution.
type form struct {
	name   string
	params func(q quantity) string // for people
	read   func(d *distribution, q quantity, args []string) error
	sample func(d distribution, r *rand.Rand) float64
}

// forms returns the forms, in the order in which messages name them.
func forms() []*form {
	value := func(q quantity) string { return q.value }
	return []*form{
		{"const", value, oneValue, func(d distribution, _ *rand.Rand) float64 { return d.a }},
		{
			"uniform", func(q quantity) string { return q.less + ", " + q.great }, twoValues,
			func(d distribution, r *rand.Rand) float64 {
				return d.a + r.Float64()*(d.b-d.a)
			},
		},
		{"exponential", value, oneValue, func(d distribution, r *rand.Rand) float64 { return r.ExpFloat64() * d.a }},
		{
			"lognormal", func(q quantity) string { return q.value + ", 0.8" }, median,
			func(d distribution, r *rand.Rand) float64 {
				return d.a * math.Exp(d.sigma*r.NormFloat64())
			},
		},
	}
}

func oneValue(d *distribution, q quantity, args []string) (err error) {
	if len(args) != 1 {
		return errArguments
	}
	d.a, err = q.parse(args[0])
	return err
}

func twoValues(d *distribution, q quantity, args []string) (err error) {
	if len(args) != 2 {
		return errArguments
	}
	if d.a, err = q.parse(args[0]); err != nil {
		return err
	}
	if d.b, err = q.parse(args[1]); err == nil && d.b < d.a {
		err = fmt.Errorf("%s is more than %s", args[0], args[1])
	}
	return err
}

// maxSigma is the largest sigma of a lognormal distribution. Past it, durations of years are common.
const maxSigma = 5

func median(d *distribution, q quantity, args []string) (err error) {
	if len(args) != 2 {
		return errArguments
	}
	if d.a, err = q.parse(args[0]); err != nil {
		return err
	}
	if d.sigma, err = strconv.ParseFloat(args[1], 64); err != nil || !(d.sigma >= 0 && d.sigma <= maxSigma) {
		return fmt.Errorf("sigma %q: want a number from 0 to %d", args[1], maxSigma)
	}
	return nil
}

var errArguments = errors.New("it has other parameters")

func (q quantity) forms() string {
	all := []string{q.value}
	for _, f := range forms() {
		all = append(all, f.name+"("+f.params(q)+")")
	}
	return strings.Join(all, ", ")
}

// DistributionForms names the forms of a distribution, for people.
func DistributionForms() string { return durations().forms() }

// CostForms names the forms of costs, for people.
func CostForms() string { return dollars().forms() }

// CountForms names the forms of numbers of tokens, for people.
func CountForms() string { return counts().forms() }

// ParseDistribution reads a distribution: a plain duration, const(D), uniform(FROM, TO), exponential(MEAN) or
// lognormal(MEDIAN, SIGMA).
func ParseDistribution(text string) (Distribution, error) {
	d, err := parseDistribution(text, durations())
	return Distribution{d}, err
}

// ParseCosts reads what agents cost, in the same forms, as in lognormal($0.05, 0.5).
func ParseCosts(text string) (Costs, error) {
	d, err := parseDistribution(text, dollars())
	return Costs{d}, err
}

// ParseCounts reads how many tokens agents use, in the same forms, as in uniform(5k, 50k).
func ParseCounts(text string) (Counts, error) {
	d, err := parseDistribution(text, counts())
	return Counts{d}, err
}

func parseDistribution(text string, q quantity) (distribution, error) {
	invalid := func(why error) error {
		if errors.Is(why, errArguments) {
			return fmt.Errorf("%q: want one of %s", text, q.forms())
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
		return distribution{}, invalid(errArguments)
	}
	d := distribution{form: forms()[at]}
	args := strings.Split(inner, ",")
	for i := range args {
		args[i] = strings.TrimSpace(args[i])
	}
	if err := d.form.read(&d, q, args); err != nil {
		return distribution{}, invalid(err)
	}
	return d, nil
}

func (d distribution) draw(r *rand.Rand, most float64) float64 {
	if d.form == nil {
		return 0
	}
	return min(d.form.sample(d, r), most)
}

// The largest values that are drawn.
const (
	longest = 30 * 24 * time.Hour
	dearest = 10_000 // US dollars
	mostOf  = 1e9    // tokens
)

// Draw returns a duration from r, in whole milliseconds from a millisecond on.
func (d Distribution) Draw(r *rand.Rand) time.Duration {
	t := time.Duration(d.draw(r, float64(longest)))
	if t > time.Millisecond {
		t = t.Round(time.Millisecond)
	}
	return t
}

// Draw returns a cost from r.
func (c Costs) Draw(r *rand.Rand) spend.USD { return spend.FromFloat(c.draw(r, dearest)) }

// Draw returns a number of tokens from r.
func (c Counts) Draw(r *rand.Rand) int64 { return int64(c.draw(r, mostOf)) }

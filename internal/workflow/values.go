package workflow

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/check"
	"prodigy/internal/duration"
	"prodigy/internal/shell"
)

// into returns a function that stores in target what read reads, if that is valid.
func into[T any](target *T, read func(entry) (T, bool)) func(entry) {
	return func(e entry) {
		if v, ok := read(e); ok {
			*target = v
		}
	}
}

// text reads a text. A number or a boolean is taken as it is written.
func (r *reader) text(e entry) (string, bool) {
	if !isScalar(e.value) {
		return "", r.wrongType(e, "a string")
	}
	if strings.ContainsRune(e.value.Value, 0) {
		return "", r.fail(e.value, "%s contains a NUL character", e.name)
	}
	return e.value.Value, true
}

// nonBlank reads a text that must not be blank.
func (r *reader) nonBlank(e entry) (string, bool) {
	s, ok := r.text(e)
	if ok && strings.TrimSpace(s) == "" {
		return "", r.fail(e.value, "%s is empty", e.name)
	}
	return s, ok
}

// word reads one of a few words.
func word[T ~string](r *reader, e entry, words ...T) (T, bool) {
	s, ok := r.oneOf(e, check.Words(words...))
	return T(s), ok
}

func (r *reader) oneOf(e entry, words []string) (string, bool) {
	s, ok := r.text(e)
	if ok && !slices.Contains(words, s) {
		return "", r.fail(e.value, "unknown %s %q%s", e.name, s, hint(s, words))
	}
	return s, ok
}

func (r *reader) boolean(e entry) (v, ok bool) {
	if !hasTag(e.value, "!!bool") {
		return false, r.wrongType(e, "true or false")
	}
	return strings.EqualFold(e.value.Value, "true"), true
}

// integer reads a whole number in decimal.
func (r *reader) integer(e entry) (int, bool) {
	n, err := strconv.Atoi(e.value.Value)
	if !isNumber(e.value) || err != nil || strconv.Itoa(n) != e.value.Value {
		return 0, r.wrongType(e, "an integer")
	}
	return n, true
}

func (r *reader) number(e entry) (float64, bool) {
	f, err := strconv.ParseFloat(e.value.Value, 64)
	if !isNumber(e.value) || err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		want := "a number"
		if strings.HasSuffix(e.value.Value, "%") {
			want += ", such as 0.5 for 50%"
		}
		return 0, r.wrongType(e, want)
	}
	return f, true
}

func isNumber(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float")
}

// duration reads a duration. A timeout can also be a plain number of seconds, and must be above 0.
func (r *reader) duration(e entry, timeout bool) (time.Duration, bool) {
	if !isScalar(e.value) {
		return 0, r.wrongType(e, "a duration")
	}
	if !timeout {
		return r.plainDuration(e)
	}
	d, ok := r.seconds(e)
	if ok && d <= 0 {
		return 0, r.fail(e.value, "%s must be more than 0", e.name)
	}
	return d, ok
}

func (r *reader) plainDuration(e entry) (time.Duration, bool) {
	d, err := duration.Parse(e.value.Value)
	if err != nil {
		return 0, r.fail(e.value, "%s: %v", e.name, err)
	}
	return d, true
}

// seconds reads a duration, or a whole number of seconds.
func (r *reader) seconds(e entry) (time.Duration, bool) {
	n, err := strconv.ParseInt(e.value.Value, 10, 64)
	switch {
	case err != nil || !isNumber(e.value) || strconv.FormatInt(n, 10) != e.value.Value:
		return r.plainDuration(e)
	case n > int64(math.MaxInt64/time.Second):
		return 0, r.fail(e.value, "%s: %d seconds is too long", e.name, n)
	}
	return time.Duration(max(n, -1)) * time.Second, true
}

// BuiltinNames returns the names of predefined values in step texts. Ids and captures cannot use them.
func BuiltinNames() []string {
	return strings.Fields(`item map shell claude last workflow job worker env error validation item_id item_index
		item_total attempt`)
}

// checkName checks a name that step texts refer to.
func (r *reader) checkName(e entry, name string, ok func(string) bool, of string) {
	switch {
	case !isScalar(e.value):
	case e.value.Tag == "!!bool", !ok(name):
		r.fail(e.value, "%s: invalid name %q: use %s, not starting with a digit", e.name, e.value.Value, of)
	case slices.Contains(BuiltinNames(), name):
		r.fail(e.value, "%s: %q is a reserved name", e.name, name)
	}
}

// isLabel reports whether s is a name that may hold dashes after its first character.
func isLabel(s string) bool { return shell.IsName(strings.ReplaceAll(s, "-", "_")) && s[0] != '-' }

// filledText reads a text that is not blank, with its position.
func (r *reader) filledText(e entry) (Text, bool) {
	s, ok := r.nonBlank(e)
	return r.withPos(e.value, s), ok
}

func (v *IntOrVar) read(r *reader, e entry) (ok bool) {
	*v = IntOrVar{Pos: posOf(e.value)}
	if isNumber(e.value) {
		v.Value, ok = r.integer(e)
		return ok && r.bounded(e, float64(v.Value), `least:"1"`)
	}
	if v.Var, ok = variableName(e.value); !ok {
		r.wrongType(e, `an integer or "$NAME" of an environment variable`)
	}
	return ok
}

func (v *SecondsOrVar) read(r *reader, e entry) (ok bool) {
	*v = SecondsOrVar{Pos: posOf(e.value)}
	if v.Var, ok = variableName(e.value); ok {
		return true
	}
	if e.value.Kind == yaml.ScalarNode && strings.HasPrefix(e.value.Value, "$") {
		return r.wrongType(e, `a duration, a number of seconds or "$NAME" of an environment variable`)
	}
	v.Value, ok = r.duration(e, true)
	return ok
}

// variableName returns NAME of a text that is exactly "$NAME" or "${NAME}".
func variableName(n *yaml.Node) (string, bool) {
	name, isVar := strings.CutPrefix(n.Value, "$")
	if inner, braced := strings.CutPrefix(name, "{"); braced {
		name, isVar = strings.CutSuffix(inner, "}")
	}
	if n.Kind != yaml.ScalarNode || !isVar || !shell.IsName(name) {
		return "", false
	}
	return name, true
}

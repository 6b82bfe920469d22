package workflow

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"prodigy/internal/breaker"
	"prodigy/internal/duration"
	"prodigy/internal/errorpolicy"
	"prodigy/internal/retry"
)

// value reads e into target, a pointer to a field of a block. It has a case for each type of field. An invalid value is reported and
// leaves the target unchanged.
func (r *reader) value(e entry, target any, timeout bool) {
	switch t := target.(type) {
	case *string:
		set(t)(r.text(e))
	case *Text:
		set(t)(r.textWithPos(e))
	case **Text:
		setPointer(t)(r.textWithPos(e))
	case *bool:
		set(t)(r.boolean(e))
	case **bool:
		setPointer(t)(r.boolean(e))
	case *int:
		set(t)(r.integer(e))
	case **int:
		setPointer(t)(r.integer(e))
	case *float64:
		set(t)(r.number(e))
	case **float64:
		setPointer(t)(r.number(e))
	case *time.Duration:
		set(t)(r.duration(e, timeout))
	case **time.Duration:
		setPointer(t)(r.duration(e, timeout))
	case *[]time.Duration:
		set(t)(r.durations(e))
	default:
		r.workflowValue(e, target)
	}
}

// workflowValue is value for the types of workflow files.
func (r *reader) workflowValue(e entry, target any) {
	switch t := target.(type) {
	case *Mode:
		set(t)(word(r, e, Standard, MapReduce))
	case *[]Step:
		*t = r.steps(e)
	case **Phase:
		*t = r.phase(e)
	case **Map:
		*t = r.mapPhase(e)
	case *Input:
		set(t)(r.input(e))
	case **WriteFile:
		*t = r.writeFile(e)
	case **Foreach:
		*t = r.foreach(e)
	case **Validate:
		*t = r.validate(e)
	case *SecondsOrVar:
		set(t)(r.secondsOrVar(e))
	case *IntOrVar:
		set(t)(r.intOrVar(e))
	case *ExitSteps:
		*t = r.exitSteps(e)
	case *CaptureFormat:
		set(t)(word(r, e, CaptureFormats()...))
	case *Interpreter:
		set(t)(r.interpreter(e))
	case *[]EnvVar:
		*t = r.env(e)
	case *[]Text:
		*t = r.textList(e)
	case *[]Profile:
		*t = r.profiles(e)
	case *[]Secret:
		*t = r.secrets(e)
	case *[]Parameter:
		*t = r.params(e)
	case *ParameterType:
		set(t)(word(r, e, parameterTypes()...))
	case *map[string][]Step:
		*t = r.handlers(e)
	default:
		r.policyValue(e, target)
	}
}

// policyValue is value for the types of other packages: retry, errorpolicy, breaker.
func (r *reader) policyValue(e entry, target any) {
	switch t := target.(type) {
	case *errorpolicy.Policy:
		r.errorPolicy(e)
	case *errorpolicy.ItemAction:
		set(t)(r.itemAction(e))
	case *errorpolicy.Collection:
		set(t)(r.collection(e))
	case **retry.Policy:
		setPointer(t)(r.itemRetry(e))
	case *retry.Backoff:
		set(t)(r.backoff(e))
	case *retry.Jitter:
		set(t)(r.jitter(e))
	case *[]retry.Matcher:
		*t = r.matchers(e)
	case *retry.FailureAction:
		set(t)(r.failureAction(e))
	case **breaker.Config:
		setPointer(t)(r.breaker(e))
	case *breaker.OnOpen:
		set(t)(word(r, e, breaker.Reject, breaker.Wait))
	default:
		panic(fmt.Sprintf("BUG: no way to read a %T", target))
	}
}

// set returns a function that stores a value in target if it is valid.
func set[T any](target *T) func(T, bool) {
	return func(v T, ok bool) {
		if ok {
			*target = v
		}
	}
}

func setPointer[T any](target **T) func(T, bool) {
	return func(v T, ok bool) {
		if ok {
			*target = &v
		}
	}
}

// text reads a text. A number or a boolean is taken as it is written.
func (r *reader) text(e entry) (string, bool) {
	if e.value.Kind != yaml.ScalarNode || isNull(e.value) {
		r.wrongType(e, "text")
		return "", false
	}
	if strings.ContainsRune(e.value.Value, 0) {
		r.fail(e.value, "%s holds a NUL character, which no command or variable can", e.name)
		return "", false
	}
	return e.value.Value, true
}

// nonBlank reads a text that must not be blank.
func (r *reader) nonBlank(e entry) (string, bool) {
	s, ok := r.text(e)
	if ok && strings.TrimSpace(s) == "" {
		r.fail(e.value, "%s is empty", e.name)
		return "", false
	}
	return s, ok
}

// word reads one of a few words.
func word[T ~string](r *reader, e entry, words ...T) (T, bool) {
	s, ok := r.text(e)
	if ok && !slices.Contains(words, T(s)) {
		r.fail(e.value, "unknown %s %q%s", e.name, s, hint(s, toStrings(words)))
		return "", false
	}
	return T(s), ok
}

func toStrings[T ~string](words []T) []string {
	plain := make([]string, len(words))
	for i, w := range words {
		plain[i] = string(w)
	}
	return plain
}

func (r *reader) boolean(e entry) (v, ok bool) {
	if e.value.Kind != yaml.ScalarNode || e.value.Tag != "!!bool" {
		r.wrongType(e, "true or false")
		return false, false
	}
	return strings.EqualFold(e.value.Value, "true"), true
}

// integer reads a whole number in decimal.
func (r *reader) integer(e entry) (int, bool) {
	n, err := strconv.Atoi(e.value.Value)
	if !isNumber(e.value) || err != nil || strconv.Itoa(n) != e.value.Value {
		r.wrongType(e, "a whole number")
		return 0, false
	}
	return n, true
}

// atLeast reads a whole number that is not below least.
func (r *reader) atLeast(e entry, least int) (int, bool) {
	n, ok := r.integer(e)
	if ok && n < least {
		r.fail(e.value, "%s must be at least %d, not %d", e.name, least, n)
		return 0, false
	}
	return n, ok
}

func (r *reader) number(e entry) (float64, bool) {
	f, err := strconv.ParseFloat(e.value.Value, 64)
	if !isNumber(e.value) || err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		r.wrongType(e, "a number")
		return 0, false
	}
	return f, true
}

func isNumber(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float")
}

// duration reads a duration. A timeout can also be a plain number of seconds, and must be above 0.
func (r *reader) duration(e entry, timeout bool) (time.Duration, bool) {
	if e.value.Kind != yaml.ScalarNode || isNull(e.value) {
		r.wrongType(e, "a duration")
		return 0, false
	}
	if !timeout {
		return r.plainDuration(e)
	}
	d, ok := r.seconds(e)
	if ok && d <= 0 {
		r.fail(e.value, "%s must be more than 0", e.name)
		return 0, false
	}
	return d, ok
}

func (r *reader) plainDuration(e entry) (time.Duration, bool) {
	d, err := duration.Parse(e.value.Value)
	if err != nil {
		r.fail(e.value, "%s: %v", e.name, err)
		return 0, false
	}
	return d, true
}

// seconds reads a duration, or a whole number of seconds.
func (r *reader) seconds(e entry) (time.Duration, bool) {
	n, err := strconv.ParseInt(e.value.Value, 10, 64)
	if err != nil || !isNumber(e.value) || strconv.FormatInt(n, 10) != e.value.Value {
		return r.plainDuration(e)
	}
	if n > int64(math.MaxInt64/time.Second) {
		r.fail(e.value, "%s: %d seconds are too long", e.name, n)
		return 0, false
	}
	return time.Duration(max(n, -1)) * time.Second, true
}

func (r *reader) durations(e entry) ([]time.Duration, bool) {
	if e.value.Kind != yaml.SequenceNode {
		r.wrongType(e, "a list of durations")
		return nil, false
	}
	all := make([]time.Duration, 0, len(e.value.Content))
	for _, n := range e.value.Content {
		d, ok := r.duration(e.with(n), false)
		if !ok {
			return nil, false
		}
		all = append(all, d)
	}
	return all, true
}

// textList reads a list of texts that are not blank, or a single one.
func (r *reader) textList(e entry) []Text {
	if e.value.Kind != yaml.SequenceNode {
		if t, ok := r.textWithPos(e); ok {
			return []Text{t}
		}
		return nil
	}
	var all []Text
	for _, n := range e.value.Content {
		if t, ok := r.textWithPos(e.with(n)); ok {
			all = append(all, t)
		}
	}
	return all
}

// maybeBlankText reads a text that can be blank, with its position.
func (r *reader) maybeBlankText(e entry) (Text, bool) {
	s, ok := r.text(e)
	if !ok {
		return Text{}, false
	}
	return r.withPos(e.value, s), true
}

// BuiltinNames returns the names of predefined values in step texts. Ids and captures cannot use them.
func BuiltinNames() []string {
	return []string{
		"item", "map", "shell", "claude", "last", "workflow", "job", "worker", "env", "error", "validation",
		"item_id", "item_index", "item_total", "attempt",
	}
}

// checkName checks a name that step texts refer to.
func (r *reader) checkName(e entry, name string, ok func(string) bool, of string) {
	switch {
	case e.value.Kind != yaml.ScalarNode || isNull(e.value):
	case e.value.Tag == "!!bool", !ok(name):
		r.fail(e.value, "%s: %q is not a name: use %s, and no digit first", e.name, e.value.Value, of)
	case slices.Contains(BuiltinNames(), name):
		r.fail(e.value, "%s: %q is a name of prodigy's own: choose another", e.name, name)
	}
}

// isName reports whether s is a letter or underscore followed by letters, digits and underscores.
func isName(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i], i == 0) {
			return false
		}
	}
	return s != ""
}

// isLabel reports whether s is a name that may hold dashes after its first character.
func isLabel(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i], i == 0) && (i == 0 || s[i] != '-') {
			return false
		}
	}
	return s != ""
}

func isNameByte(c byte, first bool) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		return true
	default:
		return !first && '0' <= c && c <= '9'
	}
}

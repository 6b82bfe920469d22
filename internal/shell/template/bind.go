package template

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/process"
	"prodigy/internal/shell"
)

// Limits of what goes through the environment: systems allow 128 KiB for one string (MAX_ARG_STRLEN on Linux), and
// arguments and environment share about 2 MiB.
const (
	maxValue     = 64 << 10  // bytes of one value
	maxValues    = 128 << 10 // bytes of all values
	maxVariables = 256       // most of which are elements of lists
	maxScript    = 120 << 10 // bytes of the script
)

// Invocation is what to run for one item.
type Invocation struct {
	// Script is for sh -c.
	Script string

	// Env are assignments for the environment: PRODIGY_V0=… and declared names that the script uses as $name.
	Env []string

	// Values are assignments in shell code, of values that are too large for the environment. If it is not empty, the
	// caller writes it to a private file, and puts the file's path in the environment as PRODIGY_VALUES.
	Values string

	// AsFile reports whether the script is too large for -c. The caller writes it to a file and runs that.
	AsFile bool

	// Program is set when the script is one plain command: a program, looked up in the PATH of Env's process, with
	// constant words and values for arguments. Running it directly is the same as running Script,
	// except that a shell sets PWD (bash also _ and SHLVL), and that exported functions of bash may bear the
	// program's name. When the program cannot be started, Script still tells why in the words and with the exit
	// code of a shell, and runs a file without #!.
	process.Program
}

// Bind resolves the values. The error is a *BindError: the step fails before anything runs.
func (t *Template) Bind(r Resolver) (*Invocation, error) {
	b := &binding{vars: make([]variable, 0, len(t.slots)), values: make([][]string, len(t.slots))}
	for i := range t.slots {
		if err := b.addSlot(&t.slots[i], i, r); err != nil {
			return nil, err
		}
	}
	script := write(t.pieces, t.slots, b.values, func(p *piece) string { return t.slots[p.slot].variable })
	inv := &Invocation{Script: script, AsFile: len(script) > maxScript}
	if err := b.setEnv(inv); err != nil {
		return nil, err
	}
	if t.argv != nil && inv.Values == "" && !inv.AsFile {
		inv.Program = process.Program{Argv: t.arguments(b), Redirects: t.redirects}
	}
	return inv, nil
}

// addSlot resolves slot i and adds its variables.
func (b *binding) addSlot(s *slot, i int, r Resolver) error {
	list, err := s.list(r)
	if unset, ok := errors.AsType[*BindError](err); ok && unset.Missing && s.optional {
		return nil
	}
	if err != nil {
		return err
	}
	if s.mode != separate && len(list) != 1 {
		list = []string{strings.Join(list, " ")}
	}
	b.values[i] = list
	switch s.mode {
	case oneText:
		b.vars = append(b.vars, variable{s.variable, list[0], s.written, s.child})
	case separate:
		for n, text := range list {
			b.vars = append(b.vars, variable{s.variable + "_" + strconv.Itoa(n), text, s.written, s.child})
		}
	}
	return nil
}

// setEnv puts the variables into the environment, or into a file when they are too large for that.
func (b *binding) setEnv(inv *Invocation) error {
	size, large := 0, len(b.vars) > maxVariables
	for _, v := range b.vars {
		size += len(v.value)
		large = large || len(v.value) > maxValue || size > maxValues
	}
	// What the script sources is not exported, so the values for other shells stay in the environment.
	inv.Env = slices.Grow(inv.Env, len(b.vars))
	var file strings.Builder
	for _, v := range b.vars {
		if !large || v.child {
			if len(v.value) > maxValue {
				return bindError(v.written, "is inside nested shell code, and its value of %d bytes is too large for the environment",
					len(v.value))
			}
			inv.Env = append(inv.Env, v.name+"="+v.value)
			continue
		}
		file.WriteString(v.name + "=" + shell.Quote(v.value) + "\n")
	}
	if file.Len() > 0 {
		inv.Values = file.String()
		inv.Script = `. "${PRODIGY_VALUES}"; ` + inv.Script
		inv.AsFile = len(inv.Script) > maxScript
	}
	return nil
}

// render returns pieces as a reader sees them: each value quoted for its place, and a placeholder without a value as it
// was written.
func render(pieces []piece, slots []slot, r Resolver) string {
	var b strings.Builder
	for i := range pieces {
		p := &pieces[i]
		text := p.text
		if p.slot >= 0 {
			s := &slots[p.slot]
			if list, err := s.list(r); err == nil {
				text = p.shown(s.mode, list)
			}
		}
		b.WriteString(text)
	}
	return b.String()
}

// shown returns the elements of a value as they are written at the place of the piece.
func (p *piece) shown(mode slotMode, list []string) string {
	text := strings.Join(list, " ")
	switch mode {
	case pastedCode:
		return text
	case separate:
		text = strings.Join(check.Each(list, shell.Quote), " ")
	default:
		text = p.quote.write(text)
	}
	return encode(text, p.around)
}

// modeOf returns the form of a ref's value at a place.
func modeOf(r *ref, p place) slotMode {
	switch {
	case r.expr.has("raw") && !p.data:
		return pastedCode
	case r.expr.isList() && p.quote == unquoted && p.words:
		return separate
	}
	return oneText
}

// list returns the elements of the value, of which one that is no list has one.
func (s *slot) list(r Resolver) ([]string, error) {
	values, err := s.expr.values(r, s.written)
	if err != nil {
		return nil, err
	}
	list := make([]string, len(values))
	for i, v := range values {
		if list[i], err = s.checked(v.String()); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// checked refuses what the place cannot take. A negative number gets parentheses, since a minus before it, as in
// $((1-${item.n})), would make -- of it.
func (s *slot) checked(text string) (string, error) {
	if !s.number {
		if at := strings.IndexByte(text, 0); at >= 0 {
			return "", bindError(s.written, "has a value with a NUL byte at offset %d; items that end with NUL need map -0, or format: nul", at)
		}
		return text, nil
	}
	// In plain decimal: shells read 010 as eight, and 08 as an error.
	n, err := parseWhole(text)
	if err != nil {
		return "", bindError(s.written, "is used in arithmetic, and %v", err)
	}
	text = strconv.FormatInt(n, 10)
	if !s.plain && n < 0 {
		text = "(" + text + ")"
	}
	return text, nil
}

// values resolves an expression. One that stands for no list has one value. Elements without a field that the path goes
// on to are left out.
func (e *expr) values(r Resolver, written string) ([]Value, error) {
	v, ok := r.Resolve(e.root)
	list := []Value{v}
	for _, s := range e.steps {
		if !ok {
			break
		}
		// An empty list has no elements without the field, and so nothing is missing.
		before := len(list)
		list = s.from(list)
		ok = s.kind == all || len(list) > 0 || before == 0
	}
	switch {
	case e.def != nil && (!ok || len(list) == 0 || len(list) == 1 && list[0].isEmpty()):
		list = []Value{Text(*e.def)}
	case !ok && e.has("opt"):
		return nil, nil
	case !ok:
		where := "here"
		if e.root == "item" {
			where = "for this item"
		}
		err := bindError(written, "has no value %s", where)
		err.Missing = true
		return nil, err
	}
	return e.filterAll(list, r, written)
}

// from takes the step from each value, and leaves out those where it leads nowhere.
func (s step) from(list []Value) []Value {
	var next []Value
	for _, v := range list {
		var to Value
		var ok bool
		switch s.kind {
		case all:
			next = append(next, v.elements()...)
			continue
		case byIndex:
			to, ok = v.element(s.index)
		default:
			to, ok = v.Field(s.key)
		}
		if ok {
			next = append(next, to)
		}
	}
	return next
}

// filterAll applies the filters one after the other, each to every value. single reports whether the values are words
// of a list by then.
func (e *expr) filterAll(list []Value, r Resolver, written string) ([]Value, error) {
	single := e.takesAll()
	for _, f := range e.filters {
		var next []Value
		for _, v := range list {
			if f.makesList() {
				next = append(next, expanded(v, f, single)...)
				continue
			}
			out, err := filtered(v, f, r)
			if err != nil {
				return nil, bindError(written, "%v", err)
			}
			next = append(next, out)
		}
		list, single = next, single || f.makesList()
	}
	return list, nil
}

func bindError(written, format string, args ...any) *BindError {
	return &BindError{Placeholder: written, Text: written + " " + fmt.Sprintf(format, args...)}
}

// Render returns the script with the values quoted in place, for people to read and copy. It is never run.
// A placeholder without a value stays as it was written.
func (t *Template) Render(r Resolver) string { return render(t.display, t.slots, r) }

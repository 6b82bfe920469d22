package ai

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/filter"
	"prodigy/internal/rawjson"
)

const (
	maxLine      = 4 << 20  // a longer line of stdout is left out
	maxTextLine  = 64 << 10 // of a text
	maxJoined    = 1 << 20  // of what join puts together
	maxPlain     = 2 << 10
	maxStderr    = 8 << 10
	maxTextLines = 20
	maxOnce      = 4096 // values of once that are remembered
)

// Reading reads the output of one run. It keeps the last line of each pick and some sums, however long the
// output is. It is for one goroutine at a time; stdout and stderr may be written by two.
type Reading struct {
	preset *Preset

	partial []byte // the start of a line that is not complete
	long    bool   // that line is too long
	number  int    // of the lines so far
	skipped int    // lines that were too long
	plain   string // the last line that is no JSON

	lines  map[string][]byte // the last line of each pick that is kept, as JSON
	at     map[string]int    // its number
	open   map[string]int    // of a text: how many further lines belong to the pick
	values []accumulated     // of the sources that add up, as in preset.sums

	signs Signs               // without Tools
	tools map[string]struct{} // the ids of those that run

	stderr tail
	stdout tail // with Text
}

// accumulated is what a source has added up.
type accumulated struct {
	any  bool
	sum  float64
	text strings.Builder
	seen map[string]struct{}
}

// first reports whether id has not been met before, and notes it.
func (v *accumulated) first(id []byte) bool {
	if _, seen := v.seen[string(id)]; seen {
		return false
	}
	if v.seen == nil || len(v.seen) >= maxOnce {
		v.seen = map[string]struct{}{}
	}
	v.seen[string(id)] = struct{}{}
	return true
}

// Read returns a Reading of one run of the CLI.
func (p *Preset) Read() *Reading {
	return &Reading{
		preset: p, lines: map[string][]byte{}, at: map[string]int{}, open: map[string]int{},
		values: make([]accumulated, len(p.sums)), tools: map[string]struct{}{},
		stderr: tail{most: maxStderr}, stdout: tail{most: maxStderr},
	}
}

// Write takes what was printed to stdout. It never fails.
func (r *Reading) Write(p []byte) (int, error) {
	n := len(p)
	if r.preset.Parse == Text {
		r.stdout.write(p)
	}
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		switch {
		case !r.long && len(r.partial) == 0 && i <= r.longest():
			r.line(p[:i])
		case !r.long && r.grow(p[:i]):
			r.line(r.partial)
		default:
			r.long = false
			r.number++
		}
		r.partial = r.partial[:0]
		p = p[i+1:]
	}
	if !r.long && len(p) > 0 {
		r.grow(p)
	}
	return n, nil
}

// grow adds p to the line that is not complete. It reports false when that becomes too long: then it is left out.
func (r *Reading) grow(p []byte) bool {
	if len(r.partial)+len(p) > r.longest() {
		r.long, r.partial = true, nil
		r.skipped++
		return false
	}
	r.partial = append(r.partial, p...)
	return true
}

// longest returns how long a line may be.
func (r *Reading) longest() int {
	if r.preset.Parse == Text {
		return maxTextLine
	}
	return maxLine
}

// WriteStderr takes what was printed to stderr.
func (r *Reading) WriteStderr(p []byte) { r.stderr.write(p) }

// line takes one line.
func (r *Reading) line(line []byte) {
	r.number++
	if r.preset.Parse == Text {
		r.textLine(strings.TrimRight(strings.ToValidUTF8(string(line[:min(len(line), maxTextLine)]), "\uFFFD"), "\r"))
		return
	}
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0:
	case line[0] == '{':
		r.document(line)
	case line[0] == '[' && rawjson.Valid(line):
		for element := range rawjson.Elements(line) {
			r.document(element)
			r.number++
		}
	default:
		r.plain = firstPart(string(line), maxPlain)
		r.sawLine(0)
	}
}

// document takes one JSON document.
func (r *Reading) document(doc []byte) {
	if !rawjson.Valid(doc) {
		doc = bytes.ToValidUTF8(doc, []byte("\uFFFD"))
		if !rawjson.Valid(doc) {
			r.plain = firstPart(string(doc), maxPlain)
			return
		}
	}
	var says sign
	for _, p := range r.preset.picks {
		if p.fits(doc) {
			r.picked(p, doc)
			says |= p.sign
		}
	}
	r.sawLine(says)
}

func (p *Pick) fits(doc []byte) bool {
	for _, f := range p.fields {
		raw := f.path.in(doc)
		if raw == nil || !filter.ValueOf(raw).Equal(f.want) {
			return false
		}
	}
	return true
}

// picked takes a line that fits a pick.
func (r *Reading) picked(p *Pick, doc []byte) {
	r.at[p.name] = r.number
	r.signs.Known = true
	r.watch(p, doc)
	if p.kept {
		r.lines[p.name] = append(r.lines[p.name][:0], doc...)
	}
	r.addUp(p, doc)
}

// addUp adds what a line of a pick has to the sources that add up.
func (r *Reading) addUp(p *Pick, doc []byte) {
	for i, s := range r.preset.sums {
		v := &r.values[i]
		if s.join && s.after == p.name {
			v.text.Reset()
		}
		if s.pick != p.name {
			continue
		}
		if s.once != nil && !v.first(s.once.in(doc)) {
			continue
		}
		switch {
		case s.count:
			v.any = true
			v.sum++
		case s.sum:
			for raw := range s.path.all(doc) {
				if f, ok := number(raw); ok {
					v.any = true
					v.sum += f
				}
			}
			if less, ok := number(s.less.in(doc)); ok && s.less != nil {
				v.sum = max(v.sum-less, 0)
			}
		default:
			if text := textOf(s.path.in(doc)); v.text.Len()+len(text) <= maxJoined {
				v.any = true
				v.text.WriteString(text)
			}
		}
	}
}

// textLine takes a line of a text.
func (r *Reading) textLine(line string) {
	var says sign
	if strings.TrimSpace(line) != "" {
		r.plain = firstPart(line, maxPlain)
		says = progress
	}
	for _, p := range r.preset.picks {
		if more := r.open[p.name]; more > 0 {
			r.open[p.name] = more - 1
			r.lines[p.name] = append(r.lines[p.name], " "+line...)
		}
		m := p.line.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		says |= p.sign
		r.signs.Known = true
		r.at[p.name] = r.number
		r.open[p.name] = p.lines - 1
		var fields strings.Builder
		for i, group := range p.line.SubexpNames() {
			if i > 0 && group != "" {
				fields.WriteString(jsonText(group) + ":" + jsonText(m[i]) + ",")
			}
		}
		r.addUp(p, []byte("{"+strings.TrimSuffix(fields.String(), ",")+"}"))
		r.lines[p.name] = append(r.lines[p.name][:0], "{"+fields.String()+`"text":`+line...) // textDocument makes JSON of the rest
	}
	if says != 0 {
		r.sawLine(says)
	}
}

// textDocument returns the JSON of a line that a pick of a text has kept.
func textDocument(kept []byte) []byte {
	const mark = `"text":`
	i := bytes.Index(kept, []byte(mark)) + len(mark)
	return append(append(slices.Clone(kept[:i]), jsonText(string(kept[i:]))...), '}')
}

// close takes the last line, which may have no end.
func (r *Reading) close() {
	if len(r.partial) > 0 {
		line := r.partial
		r.partial = nil
		r.line(line)
	}
	if r.preset.Parse == Text {
		for name, kept := range r.lines {
			if !rawjson.Valid(kept) {
				r.lines[name] = textDocument(kept)
			}
		}
	}
}

// facts returns what conditions look at.
func (r *Reading) facts(e End) []byte {
	b := []byte(`{"exit":`)
	if e.Signal != "" {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(e.ExitCode), 10)
	}
	b = append(b, `,"stderr":`+jsonText(r.stderr.String())+`,"plain":`+jsonText(r.plain)...)
	if r.preset.Parse == Text {
		b = append(b, `,"stdout":`+jsonText(r.stdout.String())...)
	}
	b = append(
		b,
		`,"allow_denied":`+strconv.FormatBool(e.AllowDenied)+`,"allow_empty":`+strconv.FormatBool(e.AllowEmpty)+`,"at":{`...,
	)
	for i, p := range r.preset.picks {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, jsonText(p.name)+":"+strconv.Itoa(r.at[p.name])...)
	}
	b = append(b, '}')
	for _, name := range slices.Sorted(maps.Keys(r.lines)) {
		b = append(append(b, ","+jsonText(name)+":"...), r.lines[name]...)
	}
	return append(b, '}')
}

// value returns what a source has: a text or a number as it is spelled, or JSON. Empty: nothing.
func (r *Reading) value(s *source) string {
	for i, summed := range r.preset.sums {
		if summed != s {
			continue
		}
		v := &r.values[i]
		switch {
		case !v.any:
			return ""
		case s.join:
			return v.text.String()
		}
		return strconv.FormatFloat(v.sum, 'f', -1, 64)
	}
	line := r.lines[s.pick]
	if line == nil {
		return ""
	}
	return textOf(s.path.in(line))
}

// take returns the first of the sources of a thing that has something, and which one that is.
func (r *Reading) take(name string) (value string, nth int) {
	for i, s := range r.preset.Take[name] {
		if value := r.value(s); strings.TrimSpace(value) != "" {
			return value, i
		}
	}
	return "", -1
}

// named returns what a rule names with a path.
func (r *Reading) named(written string) string {
	switch written {
	case "":
		return ""
	case "stderr":
		return r.stderr.String()
	case "plain":
		return r.plain
	}
	pick, path := splitPath(written)
	return r.value(&source{pick: pick, path: path})
}

// path leads to a value in a JSON document. A number is also the index in a list, and * stands for all members
// or elements.
type path []string

func parsePath(written string) path { return strings.Split(written, ".") }

// splitPath returns the pick that a path begins with, and the rest.
func splitPath(written string) (pick string, rest path) {
	pick, below, ok := strings.Cut(written, ".")
	if !ok {
		return pick, nil
	}
	return pick, parsePath(below)
}

// in returns the value that p leads to, or nil.
func (p path) in(doc []byte) []byte {
	for raw := range p.all(doc) {
		return raw
	}
	return nil
}

// all yields the values that p leads to.
func (p path) all(doc []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) { p.each(doc, yield) }
}

func (p path) each(doc []byte, yield func([]byte) bool) bool {
	doc = bytes.TrimSpace(doc)
	switch {
	case len(doc) == 0:
		return true
	case len(p) == 0:
		return yield(doc)
	case p[0] == "*":
		for _, value := range rawjson.Members(doc) {
			if !p[1:].each(value, yield) {
				return false
			}
		}
		for element := range rawjson.Elements(doc) {
			if !p[1:].each(element, yield) {
				return false
			}
		}
		return true
	case doc[0] == '[':
		i := 0
		for element := range rawjson.Elements(doc) {
			if strconv.Itoa(i) == p[0] {
				return p[1:].each(element, yield)
			}
			i++
		}
		return true
	}
	return p[1:].each(rawjson.Member(doc, p[0]), yield)
}

// textOf returns a text, or a number or boolean as it is spelled; of a list or an object its JSON, of null nothing.
func textOf(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case raw[0] == '"':
		return rawjson.Unquote(raw)
	}
	return string(raw)
}

// number reads a JSON number, or a text that is one, perhaps in thousands or millions, as in 2.4k.
func number(raw []byte) (float64, bool) {
	text := textOf(raw)
	scale := 1.0
	switch {
	case strings.HasSuffix(text, "k"):
		scale = 1e3
	case strings.HasSuffix(text, "M"):
		scale = 1e6
	}
	f, err := strconv.ParseFloat(strings.TrimRight(text, "kM"), 64)
	return f * scale, err == nil && f >= 0
}

// jsonText returns s as a JSON string.
func jsonText(s string) string {
	b, err := json.Marshal(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		panic("BUG: a string has no JSON: " + err.Error())
	}
	return string(b)
}

// firstPart returns at most n bytes of s.
func firstPart(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// tail keeps the end of what is written to it.
type tail struct {
	most int
	kept []byte
}

func (t *tail) write(p []byte) {
	if len(p) > t.most {
		p = p[len(p)-t.most:]
	}
	if over := len(t.kept) + len(p) - 2*t.most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.most:]...)
	}
	t.kept = append(t.kept, p...)
}

func (t *tail) String() string {
	return strings.ToValidUTF8(string(t.kept[max(0, len(t.kept)-t.most):]), "\uFFFD")
}

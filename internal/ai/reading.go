package ai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"prodigy/internal/filter"
	"prodigy/internal/rawjson"
	"prodigy/internal/workflow"
)

// Bounds of what is kept of a run, in bytes but for the last two, which are counts.
const (
	maxLine     = 4 << 20  // a longer line of stdout is left out
	maxTextLine = 64 << 10 // of a text
	maxJoined   = 1 << 20  // of what join puts together
	maxPlain    = 2 << 10
	maxStderr   = 8 << 10
	maxOnce     = 4096 // values of once that are remembered
	maxTools    = 1000 // that are known to run; a CLI has a few
)

// Reading reads the output of one run. It keeps the last line of each pick and some sums, however long the
// output is. It is for one goroutine at a time; stdout and stderr may be written by two.
type Reading struct {
	preset *Preset

	split splitter

	// number counts the lines so far.
	number int

	// plain is the last line that is not JSON.
	plain string

	// lines has the last line of each pick that is kept, as JSON, and at its number.
	lines map[string][]byte
	at    map[string]int

	// texts has the last lines of each pick of a text: what its groups match and, as text, the lines. open is how many
	// further lines belong to the pick.
	texts map[string]map[string]string
	open  map[string]int

	// values are those of the sources that add up.
	values map[*source]*accumulated

	// signs are those so far, without Tools. tools has the ids of the tools that run.
	signs Signs
	tools map[string]struct{}

	// stdout is only kept of a CLI that prints text.
	stderr, stdout tail
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
	r := &Reading{
		preset: p, split: splitter{most: maxLine}, lines: map[string][]byte{}, at: map[string]int{},
		texts: map[string]map[string]string{}, open: map[string]int{}, values: map[*source]*accumulated{},
		tools: map[string]struct{}{}, stderr: tail{most: maxStderr}, stdout: tail{most: maxStderr},
	}
	if p.Parse == Text {
		r.split.most = maxTextLine
	}
	for _, s := range p.sums {
		r.values[s] = new(accumulated)
	}
	return r
}

// Write takes what was printed to stdout. It never fails.
func (r *Reading) Write(p []byte) (int, error) {
	if r.preset.Parse == Text {
		r.stdout.write(p)
	}
	r.split.write(p, func(line []byte, long bool) {
		if long {
			r.number++
			return
		}
		r.line(line)
	})
	return len(p), nil
}

// splitter cuts what is printed into lines.
type splitter struct {
	// most is how long a line may be.
	most int

	// begun is the start of a line that is not complete. It is dropped when long says that the line is too long.
	begun []byte
	long  bool
}

// write calls take with each line that p completes. One that is too long is empty.
func (s *splitter) write(p []byte, take func(line []byte, long bool)) {
	for {
		before, after, whole := bytes.Cut(p, []byte("\n"))
		if s.long = s.long || len(s.begun)+len(before) > s.most; s.long {
			s.begun = nil
		} else {
			s.begun = append(s.begun, before...)
		}
		if !whole {
			return
		}
		take(s.begun, s.long)
		s.begun, s.long, p = s.begun[:0], false, after
	}
}

// WriteStderr takes what was printed to stderr.
func (r *Reading) WriteStderr(p []byte) { r.stderr.write(p) }

// line takes one line.
func (r *Reading) line(line []byte) {
	r.number++
	if r.preset.Parse == Text {
		r.textLine(strings.TrimRight(strings.ToValidUTF8(string(line), "\uFFFD"), "\r"))
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
	// What the line says of tools and of waits.
	for _, at := range p.begins {
		for id := range at.all(doc) {
			if len(r.tools) < maxTools {
				r.tools[string(id)] = struct{}{}
			}
		}
	}
	for _, at := range p.ends {
		for id := range at.all(doc) {
			delete(r.tools, string(id))
		}
	}
	for _, at := range p.waits {
		if d := seconds(at.text(doc), time.Millisecond); d > 0 {
			r.signs.Waits++
			r.signs.Wait = d
		}
	}
	if p.kept {
		r.lines[p.name] = append(r.lines[p.name][:0], doc...)
	}
	r.addUp(p, doc)
}

// addUp adds what a line of a pick has to the sources that add up.
func (r *Reading) addUp(p *Pick, doc []byte) {
	for s, v := range r.values {
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
			if text := s.path.text(doc); v.text.Len()+len(text) <= maxJoined {
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
			r.texts[p.name]["text"] += " " + line
		}
		if m := p.line.FindStringSubmatch(line); m != nil {
			says |= p.sign
			r.signs.Known = true
			r.at[p.name] = r.number
			r.open[p.name] = p.lines - 1
			fields := map[string]string{"text": line}
			for i, group := range p.line.SubexpNames() {
				if group != "" {
					fields[group] = m[i]
				}
			}
			r.texts[p.name] = fields
			r.addUp(p, rawjson.Of(fields))
		}
		if fields := r.texts[p.name]; fields != nil {
			r.lines[p.name] = rawjson.Of(fields)
		}
	}
	if says != 0 {
		r.sawLine(says)
	}
}

// facts returns what conditions look at.
func (r *Reading) facts(e End) []byte {
	at := map[string]int{}
	for _, p := range r.preset.picks {
		at[p.name] = r.at[p.name]
	}
	facts := map[string]any{
		"exit": e.ExitCode, "stderr": r.stderr.String(), "plain": r.plain, "allow_denied": e.AllowDenied,
		"allow_empty": e.AllowEmpty, "at": at,
	}
	if e.Signal != "" {
		facts["exit"] = nil
	}
	if r.preset.Parse == Text {
		facts["stdout"] = r.stdout.String()
	}
	for name, line := range r.lines {
		facts[name] = json.RawMessage(line)
	}
	return rawjson.Of(facts)
}

// value returns what a source has: a text or a number as it is spelled, or JSON. Empty: nothing.
func (r *Reading) value(s *source) string {
	if v := r.values[s]; v != nil {
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
	return s.path.text(line)
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

// said returns a thing that the run has said, or "".
func (r *Reading) said(name string) string {
	value, _ := r.take(name)
	return value
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

// Signs are what the output so far says of how a run gets on.
type Signs struct {
	// Known means that the run has printed a line that the preset knows.
	Known bool

	// Progress counts the lines that are progress, and Idle the idle lines since the last of them.
	Progress, Idle int

	// Waits counts the lines that announce a wait, and Wait is what the last of them announces.
	Waits int
	Wait  time.Duration

	// Tools is how many tools run.
	Tools int
	Turns int

	// Ended means that the last line of these was that of the end.
	Ended bool
}

// Signs returns the signs so far.
func (r *Reading) Signs() Signs {
	s := r.signs
	s.Tools = len(r.tools)
	return s
}

// sawLine takes what a whole line says.
func (r *Reading) sawLine(says sign) {
	if len(r.preset.Watch.Progress) == 0 && says&idle == 0 {
		says |= progress
	}
	switch {
	case says&idle != 0:
		r.signs.Idle++
	case says&progress != 0:
		r.signs.Progress++
		r.signs.Idle, r.signs.Ended = 0, false
	}
	if says&turn != 0 {
		r.signs.Turns++
	}
	if says&end != 0 {
		r.signs.Ended = true
	}
}

// seconds returns the time that a text holds in units; 0 when it holds none.
func seconds(text string, unit time.Duration) time.Duration {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || f <= 0 || f > float64(maxWait/unit) {
		return 0
	}
	return time.Duration(f * float64(unit))
}

const maxWait = 400 * 24 * time.Hour

// End is how a run ended, and what its step allows.
type End struct {
	ExitCode int

	// Signal is the name of the signal that ended the run, such as SIGTERM. It is empty if the run exited.
	Signal string

	// Now is the time of the end, which times without a date are relative to.
	Now time.Time

	// May is what the run was allowed beyond what the CLI allows by itself.
	May workflow.May

	// AllowDenied means that tools which were not permitted do not matter, and AllowEmpty that an empty answer does not.
	AllowDenied, AllowEmpty bool
}

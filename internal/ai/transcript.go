package ai

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/rawjson"
	"prodigy/internal/term"
)

// compileShow checks p.Show.
func (p *Preset) compileShow() error {
	for _, s := range p.Show {
		if _, err := p.need("show", s.Of); err != nil {
			return err
		}
		if p.Parse != JSONL {
			return fmt.Errorf("show is only for parse: %s; plain text is shown as it is", JSONL)
		}
		what := slices.DeleteFunc([]path{s.Say, s.Tool, s.Result, s.Note}, func(at path) bool { return at == nil })
		if len(what) != 1 {
			return fmt.Errorf("show of %s must be one of say, tool, result, note", s.Of)
		}
	}
	return nil
}

const (
	shownArgument  = 80  // characters of an argument of a tool
	shownArguments = 300 // of all of them
	shownResult    = 160 // of the first line of a result
)

// Transcript makes a conversation for people of what a CLI prints: what the agent says, its tools with their
// arguments shortened, and the first line of each result. It is for one goroutine at a time.
type Transcript struct {
	// Apart keeps what comes in pieces in lines of its own, so that what was masked in none of them does not stand
	// there as a whole.
	Apart bool

	preset *Preset

	// cut means that the beginning of the line is not known.
	split splitter
	cut   bool

	// middle means that what the agent says is in the middle of a line.
	middle bool

	// said is what the agent has said last, which a result may repeat.
	said string
	out  bytes.Buffer
}

// Transcript returns a Transcript of one run. cut says that its first line may be without its beginning.
func (p *Preset) Transcript(cut bool) *Transcript {
	return &Transcript{preset: p, split: splitter{most: maxLine}, cut: cut}
}

// Gap says that something is missing here.
func (t *Transcript) Gap() { t.split.begun, t.split.long, t.cut, t.said = nil, false, true, "" }

// Write takes what was printed, and returns what people see of it: whole lines, except where the agent goes on
// in the middle of one.
func (t *Transcript) Write(p []byte) []byte {
	if t.preset.Parse == Text {
		return p
	}
	t.out.Reset()
	t.split.write(p, t.line)
	return bytes.Clone(t.out.Bytes())
}

// Close returns the rest.
func (t *Transcript) Close() []byte {
	t.out.Reset()
	t.line(t.split.begun, false)
	t.newLine()
	t.split.begun = nil
	return bytes.Clone(t.out.Bytes())
}

// line takes a line.
func (t *Transcript) line(line []byte, long bool) {
	cut := t.cut
	t.cut = false
	line = bytes.TrimSpace(line)
	switch {
	case long:
		t.add("· ", "a line longer than "+strconv.Itoa(maxLine>>20)+" MiB")
	case len(line) == 0:
	case line[0] == '[' && rawjson.Valid(line):
		for element := range rawjson.Elements(line) {
			t.document(element)
		}
	case line[0] == '{' && rawjson.Valid(line):
		t.document(line)
	case !cut:
		t.add("", string(line))
	}
}

// document shows what is to be seen of one document.
func (t *Transcript) document(doc []byte) {
	for _, s := range t.preset.Show {
		if !t.preset.pick(s.Of).fits(doc) {
			continue
		}
		if s.Each == nil {
			t.part(s, doc)
			continue
		}
		for part := range s.Each.all(doc) {
			t.part(s, part)
		}
	}
}

func (t *Transcript) part(s *Shown, part []byte) {
	for name, want := range s.If {
		if !filter.ValueOf(parsePath(name).in(part)).Equal(filter.ValueOf(rawjson.Of(want))) {
			return
		}
	}
	switch {
	case s.Say != nil:
		text := s.Say.text(part)
		if s.Join && !t.Apart {
			t.out.WriteString(harmless(text))
			t.middle = text != "" && !strings.HasSuffix(text, "\n") || text == "" && t.middle
			return
		}
		if text = strings.TrimRight(text, "\n"); strings.TrimSpace(text) != "" && text != t.said {
			t.add("", text)
			t.said = text
		}
	case s.Tool != nil:
		if name := s.Tool.text(part); name != "" {
			t.add("→ ", strings.TrimSpace(term.Shorten(name, shownArgument)+" "+arguments(s.Args.in(part))))
		}
	case s.Result != nil:
		t.add("  ← ", folded(t.contentOf(s.Result.in(part))))
	case s.Note != nil:
		if text := s.Note.text(part); strings.TrimSpace(text) != "" {
			t.add("· ", term.Shorten(text, maxSentence))
		}
	}
}

// add adds whole lines.
func (t *Transcript) add(mark, text string) {
	t.newLine()
	t.out.WriteString(mark + harmless(text) + "\n")
}

func (t *Transcript) newLine() {
	if t.middle {
		t.out.WriteByte('\n')
		t.middle = false
	}
}

// arguments returns what a tool is given, on one line.
func arguments(raw []byte) string {
	if len(raw) == 0 || raw[0] != '{' {
		return term.Shorten(rawjson.Text(raw), shownArguments)
	}
	var b strings.Builder
	for quoted, value := range rawjson.Members(raw) {
		text := term.Shorten(rawjson.Text(value), shownArgument)
		if value[0] == '"' {
			text = strconv.Quote(text)
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(term.Shorten(rawjson.Unquote(quoted), shownArgument) + "=" + text)
		if b.Len() > 4*shownArguments {
			break
		}
	}
	return term.Shorten(b.String(), shownArguments)
}

// contentOf returns the text of a result: that of its parts, if it is a list of them.
func (t *Transcript) contentOf(raw []byte) string {
	if len(raw) == 0 || raw[0] != '[' {
		return rawjson.Text(raw)
	}
	var b strings.Builder
	for element := range rawjson.Elements(raw) {
		text := path{"text"}.text(element)
		if text == "" && len(element) > 0 && element[0] == '{' {
			text = "[" + path{"type"}.text(element) + "]"
		}
		if t.Apart && b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(text)
	}
	return b.String()
}

// folded returns the first line of a text, and how many follow.
func folded(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return "(nothing)"
	}
	first, rest, _ := strings.Cut(text, "\n")
	line := term.Shorten(first, shownResult)
	if rest == "" {
		return line
	}
	return line + "  (" + check.Counted(strings.Count(rest, "\n")+1, "more line") + ")"
}

// harmless replaces what a terminal would obey: in JSON it was written as an escape that nobody obeys.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

package view

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"

	"prodigy/internal/check"
	"prodigy/internal/outputs"
	"prodigy/internal/term"
)

// LogPrinter prints what commands have printed, for people: as it is, or each line with a prefix that names its
// command. As it is, headings tell the commands apart on a terminal. Elsewhere, where a program may read it, only
// several tries of an item have headings.
type LogPrinter struct {
	// Prefix begins each line with the item and the step.
	Prefix bool

	// Tries gives the tries of an item headings also where no terminal is, if there are several.
	Tries bool

	out  io.Writer
	look term.Look

	// safe is set if the output goes to a terminal.
	safe bool

	// tried and repeated are set if there are several tries of a step, and several attempts. The first one was attempt.
	tried, repeated bool
	attempt         int

	// before is the command that printed last. Another one gets a heading.
	before outputs.Source

	// open holds lines whose end has not been printed yet.
	open map[logStream][]byte

	// middle is set while the last output without prefixes did not end its line.
	middle bool
}

// logStream is a stream of a command.
type logStream struct {
	source outputs.Source
	stream outputs.Stream
}

// NewLogPrinter returns a printer of entries to out. Safe means that it is a terminal, where everything is made safe to
// show.
func NewLogPrinter(out io.Writer, look term.Look, safe bool) *LogPrinter {
	return &LogPrinter{out: out, look: look, safe: safe, open: map[logStream][]byte{}}
}

// Learn reads entries of an item that Print is about to print, so that it knows whether there are several tries.
func (p *LogPrinter) Learn(entries iter.Seq2[outputs.Entry, error]) {
	for e, err := range entries {
		if err == nil && e.Limit == "" { // else Print tells
			p.count(e)
		}
	}
}

// count notes that there are several tries.
func (p *LogPrinter) count(e outputs.Entry) {
	p.attempt = cmp.Or(p.attempt, e.Attempt)
	p.tried, p.repeated = p.tried || e.Try > 1, p.repeated || e.Attempt != p.attempt
}

// Print prints entries.
func (p *LogPrinter) Print(entries iter.Seq2[outputs.Entry, error]) error {
	for e, err := range entries {
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if p.Prefix {
			p.lines(&b, e)
		} else {
			p.plain(&b, e)
		}
		if _, err := p.out.Write(b.Bytes()); err != nil {
			return err
		}
	}
	return p.end()
}

// end prints what is left.
func (p *LogPrinter) end() error {
	var b bytes.Buffer
	left := slices.SortedFunc(maps.Keys(p.open), func(a, b logStream) int {
		return cmp.Or(cmp.Compare(a.source.ItemID, b.source.ItemID), cmp.Compare(a.source.Command, b.source.Command),
			cmp.Compare(a.stream.String(), b.stream.String()))
	})
	for _, k := range left {
		p.line(&b, k, p.open[k])
	}
	if p.middle && p.safe {
		b.WriteByte('\n')
	}
	_, err := p.out.Write(b.Bytes())
	return err
}

// plain adds the output as it is, below a heading where another command begins.
func (p *LogPrinter) plain(b *bytes.Buffer, e outputs.Entry) {
	p.count(e)
	headed := p.safe || p.Tries && (p.tried || p.repeated)
	if (e.First || e.Source != p.before) && len(e.Printed) > 0 {
		if p.middle {
			b.WriteByte('\n')
		}
		if headed {
			p.heading(b, p.headingOf(e))
		}
		p.before, p.middle = e.Source, false
	}
	if e.Missing > 0 {
		_, _ = fmt.Fprintf(b, "… [%d bytes dropped] …", e.Missing)
		p.middle = true
	}
	for _, part := range e.Printed {
		b.Write(p.shown(part.Text))
		p.middle = !bytes.HasSuffix(part.Text, []byte("\n"))
	}
	if e.End == nil || !headed || e.Source != p.before {
		return
	}
	if end := e.End.Trouble(); end != "" {
		if p.middle {
			b.WriteByte('\n')
		}
		p.heading(b, end)
		p.middle = false
	}
}

// heading adds a line about a command.
func (p *LogPrinter) heading(b *bytes.Buffer, text string) {
	b.WriteString(p.look.Paint(term.Bold, "── "+term.Visible(text)+" ──") + "\n")
}

// headingOf names the command of an entry, and says when it printed that.
func (p *LogPrinter) headingOf(e outputs.Entry) string {
	heading := e.Step
	if e.Phase != "" {
		heading = e.Phase + ", " + heading
	}
	if e.ItemID != "" {
		heading = e.ItemID + ", attempt " + strconv.Itoa(e.Attempt) + ", " + heading
	}
	if p.tried {
		heading += ", try " + strconv.Itoa(max(e.Try, 1))
	}
	return heading + ", " + check.Moment(e.Time)
}

// lines adds the whole lines of an entry, each with its prefix.
func (p *LogPrinter) lines(b *bytes.Buffer, e outputs.Entry) {
	if e.Missing > 0 {
		p.flush(b, e.Source)
		b.WriteString(p.prefixOf(e.Source, "=") + fmt.Sprintf("%d bytes dropped\n", e.Missing))
	}
	for _, part := range e.Printed {
		k := logStream{e.Source, part.Stream}
		text := part.Text
		for {
			line, rest, whole := bytes.Cut(text, []byte("\n"))
			if !whole {
				break
			}
			p.line(b, k, append(p.open[k], line...))
			delete(p.open, k)
			text = rest
		}
		if len(text) > 0 {
			p.open[k] = append(p.open[k], text...)
		}
	}
	if e.End == nil {
		return
	}
	p.flush(b, e.Source)
	if end := e.End.Trouble(); end != "" {
		b.WriteString(p.prefixOf(e.Source, "=") + p.look.Paint(term.Red, end) + "\n")
	}
}

// flush adds the incomplete lines of a command.
func (p *LogPrinter) flush(b *bytes.Buffer, s outputs.Source) {
	for _, stream := range []outputs.Stream{outputs.Stdout, outputs.Stderr} {
		k := logStream{s, stream}
		if rest := p.open[k]; len(rest) > 0 {
			p.line(b, k, rest)
		}
		delete(p.open, k)
	}
}

// line adds one line with its prefix, without a carriage return at its end.
func (p *LogPrinter) line(b *bytes.Buffer, k logStream, text []byte) {
	mark := "|"
	if k.stream == outputs.Stderr {
		mark = "!"
	}
	b.WriteString(p.prefixOf(k.source, mark))
	b.Write(p.shown(bytes.TrimSuffix(text, []byte("\r"))))
	b.WriteByte('\n')
}

// prefixOf names a command in front of a line.
func (p *LogPrinter) prefixOf(s outputs.Source, mark string) string {
	who := s.Phase
	if s.ItemID != "" {
		if who = s.ItemID; s.Attempt > 1 {
			who += "/" + strconv.Itoa(s.Attempt)
		}
	}
	if who != "" {
		who += " "
	}
	if who += s.Step; s.Try > 1 {
		who += " (try " + strconv.Itoa(s.Try) + ")"
	}
	return p.look.Paint(term.Cyan, term.Visible(who)+" "+mark) + " "
}

// shown returns text of others for the terminal, where no byte of it may pass for one of prodigy's own colours.
func (p *LogPrinter) shown(text []byte) []byte {
	if !p.safe {
		return text
	}
	return bytes.ToValidUTF8(text, []byte("\ufffd"))
}

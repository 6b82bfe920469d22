package view

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"iter"
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

	// lines are those that get prefixes.
	lines outputs.Lines

	// next is what is printed next.
	next bytes.Buffer

	// middle is set while the last output without prefixes did not end its line.
	middle bool
}

// NewLogPrinter returns a printer of entries to out. Safe means that it is a terminal, where everything is made safe to
// show.
func NewLogPrinter(out io.Writer, look term.Look, safe bool) *LogPrinter {
	p := &LogPrinter{out: out, look: look, safe: safe}
	p.lines = outputs.Lines{Line: p.line, Join: func(before, more []byte) []byte { return append(before, more...) }}
	return p
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
		if p.Prefix {
			p.prefixed(e)
		} else {
			p.plain(e)
		}
		if err := p.flush(); err != nil {
			return err
		}
	}
	p.lines.Close()
	if p.middle && p.safe {
		p.next.WriteByte('\n')
	}
	return p.flush()
}

// flush prints what is next.
func (p *LogPrinter) flush() error {
	_, err := p.next.WriteTo(p.out)
	return err
}

// plain adds the output as it is, below a heading where another command begins.
func (p *LogPrinter) plain(e outputs.Entry) {
	b := &p.next
	p.count(e)
	headed := p.safe || p.Tries && (p.tried || p.repeated)
	if (e.First || e.Source != p.before) && len(e.Printed) > 0 {
		if p.middle {
			b.WriteByte('\n')
		}
		if headed {
			p.heading(p.headingOf(e))
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
		p.heading(end)
		p.middle = false
	}
}

// heading adds a line about a command.
func (p *LogPrinter) heading(text string) {
	p.next.WriteString(p.look.Paint(term.Bold, "── "+term.Visible(text)+" ──") + "\n")
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

// prefixed adds the whole lines of an entry, each with its prefix.
func (p *LogPrinter) prefixed(e outputs.Entry) {
	note := func(text string) { p.next.WriteString(p.prefixOf(e.Source, "=") + text + "\n") }
	if e.Missing > 0 {
		p.lines.Flush(e.Source)
		note(fmt.Sprintf("%d bytes dropped", e.Missing))
	}
	p.lines.Add(e)
	if e.End == nil {
		return
	}
	if end := e.End.Trouble(); end != "" {
		note(p.look.Paint(term.Red, end))
	}
}

// line adds one line with its prefix, without a carriage return at its end.
func (p *LogPrinter) line(of outputs.StreamOf, text []byte) {
	mark := "|"
	if of.Stream == outputs.Stderr {
		mark = "!"
	}
	p.next.WriteString(p.prefixOf(of.Source, mark))
	p.next.Write(p.shown(bytes.TrimSuffix(text, []byte("\r"))))
	p.next.WriteByte('\n')
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

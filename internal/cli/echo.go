package cli

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"prodigy/internal/agent"
	"prodigy/internal/job"
	"prodigy/internal/rawjson"
	"prodigy/internal/term"
	"prodigy/internal/web"
)

// echoOptions are the flags that show what the commands of items print.
type echoOptions struct {
	usual                 term.EchoMode // without a flag
	group, lines, ungroup bool
	tag                   bool
}

// add gives cmd the flags. usual is the mode that it has without them.
func (o *echoOptions) add(cmd *cobra.Command, usual term.EchoMode) {
	o.usual = usual
	f := cmd.Flags()
	f.BoolVar(&o.group, string(term.Grouped), false,
		"print each item's output when it finishes: stdout, then stderr"+ifUsual(usual == term.Grouped))
	f.BoolVar(&o.lines, string(term.LineByLine), false, "print each line as soon as it is complete")
	f.BoolVarP(&o.ungroup, string(term.AtOnce), "u", false, "print output as it arrives, unbuffered")
	f.BoolVar(&o.tag, "tag", false, "prefix each line with the item and a tab")
}

func ifUsual(is bool) string {
	if is {
		return " (default)"
	}
	return ""
}

// mode returns the mode that the flags ask for.
func (o echoOptions) mode() term.EchoMode {
	switch {
	case o.ungroup:
		return term.AtOnce
	case o.lines:
		return term.LineByLine
	case o.group || o.tag:
		return term.Grouped
	}
	return o.usual
}

// check returns what is wrong with the flags, together with others.
func (o echoOptions) check(job jobOptions) error {
	modes := 0
	for _, given := range []bool{o.group, o.lines, o.ungroup} {
		if given {
			modes++
		}
	}
	switch {
	case modes > 1:
		return usagef("--group, --line-buffer and --ungroup cannot be used together")
	case o.tag && o.ungroup:
		return usagef("--tag cannot be used with --ungroup")
	case job.keepOrder && o.ungroup:
		return usagef("--keep-order cannot be used with --ungroup")
	case o.mode() != "" && (job.print || job.format == term.JSON):
		return usagef("--group, --line-buffer, --ungroup and --tag cannot be used with --print or --json")
	}
	return nil
}

// checkAgain is check for a job that runs again, whose earlier items are not shown.
func (o echoOptions) checkAgain(job jobOptions) error {
	switch {
	case o.mode() == "":
		return nil
	case job.keepOrder:
		return usagef("--keep-order cannot be used with --group, --line-buffer, --ungroup or --tag when resuming")
	}
	return o.check(job)
}

// flags returns the flags for another command that shows the same.
func (o echoOptions) flags() []string {
	flags := []string{"--" + string(o.mode())}
	if o.tag {
		flags = append(flags, "--tag")
	}
	return flags
}

// showItems has p show what the commands of items print, if o asks for that.
func (p *printer) showItems(con *console, o echoOptions, ordered bool) {
	if o.mode() == "" {
		return
	}
	if o.mode() != term.Grouped {
		p.screen.Live = false // what comes at any time would be written into the live lines
	}
	p.echo, p.ofCommands = term.NewEcho(o.mode(), ordered, con.out, con.raw), true
	p.tagged = o.tag
}

// Command implements agent.Echo.
func (p *printer) Command(a *agent.Attempt, step string, try int) (stdout, stderr io.Writer) {
	from := term.EchoSource{Item: a.ItemIndex, Attempt: a.Number, Step: step, Try: try}
	if p.tagged {
		from.Tag = func() string { return tagOf(a) }
	}
	return p.echo.Streams(from)
}

// echoEndedBefore prints the outputs of the items of a job that have ended so far. What earlier runs have printed of
// them is not known.
func echoEndedBefore(to *term.Echo, jobID string) error {
	place, err := findJob(jobName{id: jobID, all: true})
	if err != nil {
		return err
	}
	for line, err := range resultsOf(place) {
		var row web.Result
		if err == nil {
			err = json.Unmarshal(line, &row)
		}
		if err == nil && row.Status != "success" {
			row.Output = ""
		}
		if err == nil {
			err = to.Printed(row.Index, row.Output)
		}
		if errors.Is(err, job.ErrNoItems) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tagOf returns what begins the lines of an item: the item if it is a text, the items of a batch, else its JSON.
func tagOf(a *agent.Attempt) string {
	if a.Batch {
		var words []string
		for raw := range rawjson.Elements(a.Item) {
			words = append(words, textOf(raw))
		}
		return term.Visible(strings.Join(words, " "))
	}
	return term.Visible(textOf(a.Item))
}

func textOf(raw json.RawMessage) string {
	if len(raw) > 0 && raw[0] == '"' {
		return rawjson.Unquote(raw)
	}
	return string(raw)
}

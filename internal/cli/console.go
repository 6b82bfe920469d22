package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/fleet"
	"prodigy/internal/jobs"
	"prodigy/internal/mask"
	"prodigy/internal/settings"
	"prodigy/internal/shell"
	"prodigy/internal/term"
)

// console is the output of the process: results go to out, everything else to err.
type console struct {
	// out is stdout. A terminal gets everything through a safeWriter.
	out io.Writer
	// err is stderr, for all that is said besides the results.
	err io.Writer
	// raw gets what commands print to stderr, which is masked already. On a terminal it is a writer of its own, since other
	// goroutines write to it.
	raw io.Writer
	// format is that of the results.
	format term.Format
	// noColor is set by the flag --no-color or the variable NO_COLOR.
	noColor bool
	// live is set if err is a terminal on which lines can be redrawn.
	live bool
	// size returns the size of the terminal that err is.
	size func() (w, h int)
	// wide returns the width of the terminal that out is, or 0 if it is not one.
	wide func() int
	// safe is set if out is a terminal.
	safe bool

	// backend reaches the broker of a fleet.
	backend fleet.Backend

	// secrets are those of the job that is shown or run.
	secrets jobSecrets
}

// hide masks secrets in everything that is printed from now on.
func (c *console) hide(m *mask.Masker) {
	if m != nil {
		c.out, c.err = m.Writer(c.out), m.Writer(c.err) // what goes to raw is masked already
	}
}

// useSecrets masks the secrets of a job that this process runs, and shows its items without them.
func (c *console) useSecrets(s settings.Settings) {
	c.hide(s.Mask)
	c.secrets.Settings = s
}

// close prints what was held back because it could have been the beginning of a secret.
func (c *console) close() {
	for _, w := range []io.Writer{c.out, c.err} {
		if w, ok := w.(*mask.Writer); ok {
			_ = w.Close()
		}
	}
}

// newConsole returns a console for the terminal and the environment.
func newConsole(out, err *os.File, getenv func(string) string) *console {
	able := getenv("TERM") != "dumb"
	c := &console{
		out:     out,
		err:     term.NewSafeWriter(err),
		format:  term.Human,
		noColor: getenv("NO_COLOR") != "",
		live:    able && term.Is(err),
		size: func() (int, int) {
			w, h := term.Size(err)
			return cmp.Or(w, 80), cmp.Or(h, 24)
		},
		wide: func() int {
			if !able {
				return 0
			}
			w, _ := term.Size(out)
			return w
		},
	}
	if c.raw = io.Writer(err); term.Is(err) {
		c.raw = term.NewSafeWriter(err) // its own, since it is written to from elsewhere
	}
	if term.Is(out) {
		c.out, c.safe = term.NewSafeWriter(out), true
	}
	return c
}

// text returns the writer for human-readable results. Results for programs and the output of steps go to out directly.
func (c *console) text() io.Writer {
	if c.safe {
		return c.out
	}
	return term.NewSafeWriter(c.out)
}

// printRows prints values as a table, or in a format for programs.
func printRows[T any](c *console, columns []term.Column[T], all iter.Seq2[T, error]) error {
	_, err := term.Rows[T]{Format: c.format, Look: c.look(), Columns: columns}.Print(c.results(), all)
	return err
}

// results returns the writer for results. What is for people must be safe in a pipe too.
func (c *console) results() io.Writer {
	if c.format == term.Human {
		return c.text()
	}
	return c.out
}

// print prints a result as JSON if that is asked for, else what people see of it.
func (c *console) print(v any, people func(term.Lines)) error {
	if c.format == term.JSON {
		return c.printJSON(v)
	}
	people(c.lines())
	return nil
}

// end prints an outcome if JSON is asked for, and returns the exit code as an error.
func (c *console) end(code int, outcome any) error {
	if c.format == term.JSON {
		return cmp.Or(c.printJSON(outcome), status(code))
	}
	return status(code)
}

// printJSON prints a result as JSON.
func (c *console) printJSON(v any) error { return term.PrintJSON(c.out, v) }

// look returns how lines for people are printed on out.
func (c *console) look() term.Look {
	if c.wide == nil {
		return term.Look{}
	}
	width := c.wide()
	return term.Look{Colours: width > 0 && !c.noColor, Width: width}
}

// errLook returns how lines for people are printed on err.
func (c *console) errLook() term.Look {
	if !c.live {
		return term.Look{}
	}
	width, _ := c.size()
	return term.Look{Colours: c.colours(), Width: width}
}

// lines returns the printer of results for people.
func (c *console) lines() term.Lines { return term.Lines{W: c.text(), Look: c.look()} }

// say returns the printer of what is said beside the results, on stderr.
func (c *console) say() term.Lines { return term.Lines{W: c.err, Look: c.errLook()} }

// sayf prints a line beside the results, on stderr.
func (c *console) sayf(format string, args ...any) { c.say().Printf(format, args...) }

// next prints the commands to type next.
func (c *console) next(commands ...string) {
	for _, command := range commands {
		c.sayf("next: %s", command)
	}
}

// colours reports whether output on err is coloured.
func (c *console) colours() bool { return c.live && !c.noColor }

// writeOut calls write with a file, written as by writeWhole, or with stdout if file is "-".
func writeOut(con *console, file string, write func(io.Writer) error) error {
	buffered := func(w io.Writer) error {
		out := bufio.NewWriter(w)
		return errors.Join(write(out), out.Flush())
	}
	if file == "-" {
		return buffered(con.out)
	}
	err := writeWhole(file, buffered)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refusef("export to %s: directory not found", file)
	case err != nil:
		return fmt.Errorf("export to %s: %w", file, err)
	}
	return nil
}

// writeWhole creates or replaces the file at path with what write writes, atomically. Devices and pipes are written to
// directly.
func writeWhole(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	return jobs.Finish(f, path, write(f))
}

// canAsk returns an error if the user has to be asked, since yes is not set, and there is no terminal for that.
func canAsk(yes bool) error {
	if yes || term.Is(os.Stdin) {
		return nil
	}
	return refusef("no terminal for confirmation; use --yes")
}

// confirm asks the user on the terminal, unless yes is set. The answer no is an error that ends the command.
func (c *console) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	agreed, err := askYesNo(os.Stdin, c.err, question)
	if err == nil && !agreed {
		c.sayf("Nothing was removed.")
		err = status(exitFailed)
	}
	return err
}

// askYesNo reports whether the answer is y or yes; anything else counts as no.
func askYesNo(in io.Reader, out io.Writer, question string) (bool, error) {
	_, _ = fmt.Fprintf(out, "%s [y/N] ", question)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// jobSecrets are the secrets of a job for those who show its items, which are recorded unmasked.
type jobSecrets struct {
	settings.Settings
	// unknown says why not even the names of the secrets are known. Items are hidden then.
	unknown error
}

// known reports whether Mask knows all secrets of the job. What a command gives it does not know.
func (s jobSecrets) known() bool { return s.unknown == nil && !s.Unmasked }

// item returns the data of an item as it may be shown.
func (s jobSecrets) item(data json.RawMessage) json.RawMessage {
	if s.unknown != nil && len(data) > 0 {
		return json.RawMessage(`"` + mask.Mark + `"`)
	}
	return s.Mask.JSON(data)
}

// quoted returns a word for a command line that people can copy.
func quoted(word string) string { return shell.Quote(term.Visible(word)) }

// shellWords returns a command line of words.
func shellWords(words []string) string { return strings.Join(check.Each(words, quoted), " ") }

// readNamed reads a file that the user has named.
func readNamed(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		if err = failed.Err; errors.Is(err, fs.ErrNotExist) {
			err = errors.New("file not found")
		}
		return nil, refusef("%s: %w", path, err)
	}
	return data, err
}

// isFile reports whether path is a regular file. A link to one counts.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

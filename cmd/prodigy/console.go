package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"prodigy/internal/mask"
)

// console is the output of the process: results go to out, everything else to err.
type console struct {
	out     io.Writer // a terminal gets it through a safeWriter, whatever it is
	err     io.Writer
	plain   bool              // err is no terminal
	noColor bool              // the flag, or NO_COLOR is set
	live    bool              // err is a terminal on which lines can be redrawn
	unicode bool              // it can show more than ASCII
	size    func() (w, h int) // of that terminal
	wide    func() int        // of the terminal that out is; 0: it is none
	safe    bool              // out is a terminal

	secrets jobSecrets // of the job that is shown
}

// hide masks secrets in everything that is printed from now on.
func (c *console) hide(m *mask.Masker) {
	if m != nil {
		c.out, c.err = m.Writer(c.out), m.Writer(c.err)
	}
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
	terminal := term.IsTerminal(int(err.Fd())) && able
	c := &console{
		out:     out,
		err:     &safeWriter{w: err},
		plain:   !terminal,
		noColor: getenv("NO_COLOR") != "",
		live:    terminal,
		size: func() (int, int) {
			w, h, sizeErr := term.GetSize(int(err.Fd()))
			if sizeErr != nil || w < 1 || h < 1 {
				return 80, 24
			}
			return w, h
		},
		unicode: utf8Locale(getenv),
		wide: func() int {
			if w, _, sizeErr := term.GetSize(int(out.Fd())); sizeErr == nil && able {
				return w
			}
			return 0
		},
	}
	if term.IsTerminal(int(out.Fd())) {
		c.out, c.safe = &safeWriter{w: out}, true
	}
	return c
}

// text returns the writer for human-readable results. Results for programs and the output of steps go to out directly.
func (c *console) text() io.Writer {
	if c.safe {
		return c.out
	}
	return &safeWriter{w: c.out}
}

// look returns how lines for people are printed on out.
func (c *console) look() look {
	if c.wide == nil {
		return look{}
	}
	width := c.wide()
	return look{colours: width > 0 && !c.noColor, width: width}
}

// utf8Locale reports whether the locale is UTF-8, by the first of LC_ALL, LC_CTYPE and LANG that is set.
func utf8Locale(getenv func(string) string) bool {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"))
	return runtime.GOOS == "windows" || strings.Contains(strings.ReplaceAll(strings.ToUpper(locale), "-", ""), "UTF8")
}

// colours reports whether output on err is coloured.
func (c *console) colours() bool { return !c.plain && !c.noColor }

// logger returns the log for people that writes to w.
func (c *console) logger(w io.Writer) zerolog.Logger {
	lines := zerolog.ConsoleWriter{Out: w, NoColor: true, TimeFormat: "15:04:05"}
	if c.colours() {
		g := region{colours: true}
		lines.FormatTimestamp = func(at any) string {
			t, err := time.Parse(time.RFC3339, fmt.Sprint(at))
			if err != nil {
				return fmt.Sprint(at)
			}
			return g.paint("90", t.Local().Format("15:04:05"))
		}
		lines.FormatLevel = func(level any) string {
			word := strings.ToUpper(fmt.Sprintf("%.3s", level))
			return g.paint(map[string]colour{"INF": green, "WAR": yellow, "ERR": red}[word], map[string]string{"INF": "INF", "WAR": "WRN", "ERR": "ERR"}[word])
		}
		lines.FormatMessage = func(text any) string { return g.paint("1", fmt.Sprint(text)) }
		lines.FormatFieldName = func(name any) string { return g.paint("36", fmt.Sprint(name)+"=") }
	}
	return zerolog.New(lines).With().Timestamp().Logger()
}

// printJSON prints v as one indented document.
func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

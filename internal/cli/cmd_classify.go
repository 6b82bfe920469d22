package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"prodigy/internal/retry"
	"prodigy/internal/shell"
	"prodigy/internal/term"
)

// classifyOptions are the flags of classify.
type classifyOptions struct {
	// code is the exit code of the command.
	code int
	// lines (--jsonl) judges each line of stdin.
	lines bool
}

// newClassifyCommand returns the command that names the error type of a failure, by the same rules that retry_on and
// the error policy use.
func newClassifyCommand(con *console) *cobra.Command {
	var o classifyOptions
	cmd := &cobra.Command{
		Use:   "classify [command]",
		Short: "Classify a failure",
		Long: `Print the error type of a failure, and the rule that matched, as for a failed step. The command's
stderr is read from stdin. The command (quoted as one word) and its exit code count too: exit code 7
means something for curl.

With --jsonl, each line of stdin is a failure of its own: an object with command, exit_code, signal
(a number), stdout and stderr. Each failure is printed as one line with its type and rule.`,
		Example:           "  prodigy classify --exit 7 curl",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			if o.lines {
				if len(args) > 0 || con.format == term.JSON {
					return usagef("--jsonl takes the commands from stdin and prints lines")
				}
				return classifyLines(con.out, os.Stdin)
			}
			return runClassify(con, o, strings.Join(args, ""))
		},
	}
	formerly(cmd, map[string]string{"exit-code": "exit"})
	cmd.Flags().IntVar(&o.code, "exit", 1, "exit code of the command")
	addFlag(cmd, &o.lines, "jsonl", "classify each line of stdin, a JSON object")
	addFormat(con, cmd, term.JSON)
	return cmd
}

// judgement is what classify prints.
type judgement struct {
	// ID is what the line of stdin had as its id, if it had one.
	ID   json.RawMessage `json:"id,omitempty"`
	Type retry.Type      `json:"type"`
	// Rule is empty if no rule matched.
	Rule string `json:"rule,omitempty"`
}

// runClassify judges one failure, whose stderr it reads from stdin. A terminal is not read if there is a command to
// judge by.
func runClassify(con *console, o classifyOptions, command string) error {
	f := retry.Failure{ExitCode: o.code}
	if !term.Is(os.Stdin) || command == "" {
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return fmt.Errorf("read stdin: %w", err)
		}
		f.Stderr = string(text)
	}
	var j judgement
	j.Type, j.Rule = retry.Judge(f, shell.Deciders(command))
	if con.format == term.JSON {
		return json.NewEncoder(con.out).Encode(j)
	}
	text := string(j.Type)
	if j.Rule != "" {
		text += ", matched by " + j.Rule
	}
	if slices.Contains(retry.MatcherNames(), string(j.Type)) {
		text += fmt.Sprintf("\nretry_on: [%s] retries it", j.Type)
	}
	_, err := fmt.Fprintln(con.out, text)
	return err
}

// classifyLines judges one failure for each line.
func classifyLines(w io.Writer, r io.Reader) error {
	in, out := bufio.NewReader(r), json.NewEncoder(w)
	for n := 1; ; n++ {
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read stdin: %w", err)
		}
		if strings.TrimSpace(line) != "" {
			var given struct {
				ID       json.RawMessage `json:"id"`
				Command  string          `json:"command"`
				ExitCode int             `json:"exit_code"`
				Signal   int             `json:"signal"`
				Stdout   string          `json:"stdout"`
				Stderr   string          `json:"stderr"`
			}
			if err := json.Unmarshal([]byte(line), &given); err != nil {
				return refusef("line %d of stdin: %v", n, err)
			}
			f := retry.Failure{ExitCode: given.ExitCode, Stdout: given.Stdout, Stderr: given.Stderr}
			if given.Signal != 0 {
				f.Signal = syscall.Signal(given.Signal).String()
			}
			j := judgement{ID: given.ID}
			j.Type, j.Rule = retry.Judge(f, shell.Deciders(given.Command))
			if err := out.Encode(j); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// asker asks a person and returns whether the answer is yes. Nil: there is nobody to ask.
type asker func(question string) (bool, error)

// terminalAsker returns what asks the person at the terminal.
func terminalAsker(con *console) asker {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	return func(question string) (bool, error) { return askYesNo(os.Stdin, con.err, question) }
}

// askYesNo takes y and yes for a yes, and all else for a no.
func askYesNo(in io.Reader, out io.Writer, question string) (bool, error) {
	_, _ = fmt.Fprintf(out, "%s [y/N] ", question)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

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

// asker asks the user a question and reports whether the answer is yes. A nil asker means that there is no terminal to ask on.
type asker func(question string) (bool, error)

// terminalAsker returns an asker for the terminal, or nil if stdin is not one.
func terminalAsker(con *console) asker {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	return func(question string) (bool, error) { return askYesNo(os.Stdin, con.err, question) }
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

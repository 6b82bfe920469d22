// Package items finds the items of a map phase: sources, formats, JSONPath, filter, sort; and keeps the chosen ones with the job.
//
// What JSON means without a path: an array gives its elements, and anything else is one item. Of several values one after the
// other each is an item. An array that does not end on its first line, or within its first 64 KiB, gives its elements whatever
// follows, for nobody can wait to see that; in JSONL it never does. Data whose format nobody tells is the same, except that a line that
// does not read as JSON is a text. Lines that hold only blanks count for nothing.
//
// With a path, each value, row, line or document of the data is evaluated apart, one after the other.
package items

import (
	"encoding/json"
	"io"

	"prodigy/internal/process"
)

// Item is one unit of work.
type Item struct {
	ID    string          `json:"item_id"`
	Index int             `json:"index"` // from 0, after selection
	Data  json.RawMessage `json:"item"`  // compact, with numbers as they were spelled

	// Masked is Data without the secrets of the run that chose it, which those who show it later may not know. Nil: there are none.
	Masked json.RawMessage `json:"masked,omitempty"`
}

// Shown returns the data as people may see it.
func (it Item) Shown() json.RawMessage {
	if it.Masked != nil {
		return it.Masked
	}
	return it.Data
}

// Env is the environment of a selection.
type Env struct {
	Dir     string    // where relative file names start and commands run
	Environ []string  // of commands
	Stdin   io.Reader // nil: there is none
	Temp    string    // directory of scratch files; empty: that of the system

	// Fill puts the values of parameters and variables in the name of a file or a pattern. Its error is an ErrLater when they are only
	// known to a run. Nil: names stay as they are written.
	Fill func(text string) (string, error)

	// Secret reports whether a text holds a secret and so cannot be the name of an item, since names are in every event. Nil: none does.
	Secret func(text string) bool

	// Register, when there is one, has a record of the command that runs.
	Register *process.Register
}

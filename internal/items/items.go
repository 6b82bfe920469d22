// Package items finds the items of a map phase: sources, formats, JSONPath, filter, sort; and keeps the
// chosen ones with the job.
//
// Select runs the pipeline of a map phase: a source is read as it comes, the JSONPath selects values in it,
// and filter, sort_by, distinct, offset and max_items choose among them. A Store records the chosen items,
// and a Cursor reads them.
//
// JSON without a path means: the elements of an array that stands alone, else each value is an item. An array
// that does not end on its first line, or within its first 64 KiB, counts as alone without looking further,
// since that would mean waiting; in JSONL no array does. Data without a format is read in the same way,
// except that a line that is not JSON is a text. Blank lines are skipped.
//
// A path is evaluated on each value, row, line or document of the data separately.
package items

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"prodigy/internal/process"
)

// errStop ends the reading of a source when no more items are wanted.
var errStop = errors.New("enough")

// Item is one unit of work. Its JSON is a line of a Store.
type Item struct {
	// ID is item_<index>, or the key of the item.
	ID string `json:"item_id"`

	// Index counts the chosen items from 0, in the order in which they are run.
	Index int `json:"index"`

	// Data is compact JSON in which numbers keep their spelling.
	Data json.RawMessage `json:"item"`

	// Masked is Data with the secrets masked that were known when it was chosen. Nil means that it holds none.
	Masked json.RawMessage `json:"masked,omitempty"`

	// From are the ids of the items of another job whose results Data is made from, with an input of that
	// kind. It has more than one of a batch.
	From []string `json:"from,omitempty"`
}

// Shown returns the data as people may see it.
func (it Item) Shown() json.RawMessage {
	if it.Masked != nil {
		return it.Masked
	}
	return it.Data
}

// ID returns the id of an item without a key.
func ID(index int) string {
	return "item_" + strconv.Itoa(index)
}

// Env is the environment of a selection.
type Env struct {
	// Dir is where relative file names start and commands run.
	Dir string

	// Environ is the environment of commands.
	Environ []string

	// Stdin is the standard input of prodigy. Nil means that there is none to read.
	Stdin io.Reader

	// Temp is the directory of scratch files. Empty means that of the system.
	Temp string

	// Fill fills in the parameters and variables in a file name or pattern. Its error is an ErrLater if a
	// value is only known to a run. Nil means that names stay as they are.
	Fill func(text string) (string, error)

	// Secret reports whether a text holds a secret. Such a text cannot be the name of an item, since names
	// are in every event. Nil means that no text does.
	Secret func(text string) bool

	// Results calls emit with each result of the job that is the input, and the id of its item there. The
	// result is compact and only valid during the call. It returns the error of emit at once. Nil means that the
	// input is of another kind.
	Results func(emit func(itemID string, result []byte) error) error

	// Warn is called at the end of a selection with what is hardly meant. It may be nil.
	Warn func(text string)

	// origin is where the pipeline finds the item of the result that is being emitted. Select sets it.
	origin *string

	// Register records the running command. It may be nil.
	Register *process.Register
}

package events

import (
	"encoding/json"

	"prodigy/internal/check"
)

// What several types of events say is a struct that is embedded in each. Its keys are among theirs.

// AttemptID names an attempt at an item.
type AttemptID struct {
	ItemID    string `json:"item_id"`
	ItemIndex int    `json:"item_index"`

	// It is empty if nothing was run.
	AgentID string `json:"agent_id"`

	// The number of the attempt at the item, from 1.
	Attempt int `json:"attempt"`
}

// Place is where a worker of a fleet runs an attempt. It is zero if the attempt runs on the machine of the job.
type Place struct {
	// The name of the worker.
	Node string `json:"node,omitempty"`

	// The machine of the worker, if it has another name.
	Host string `json:"host,omitempty"`

	// The slot of the worker, from 1; 0 if it does not matter.
	Slot int `json:"slot,omitempty"`
}

// Machine returns the place without its slot.
func (p Place) Machine() Place {
	p.Slot = 0
	return p
}

// OnWorker returns " on WORKER" for an attempt that ran on a fleet, and "" for any other.
func (p Place) OnWorker() string {
	if p.Node == "" {
		return ""
	}
	text := " on " + p.Node
	if p.Host != "" {
		text += " (host " + p.Host + ")"
	}
	return text + check.Some(" in slot %d", p.Slot)
}

// Delivered is the result of a job with workspaces.
type Delivered struct {
	// The commit that the job began at.
	Base string `json:"base,omitempty"`

	// The commit with everything that was merged.
	Head string `json:"head,omitempty"`

	// The branch that it was delivered as, and the branch of the user that was moved to it.
	Branch string `json:"branch,omitempty"`
	Into   string `json:"into,omitempty"`
}

// ItemOutput is what an attempt gives as its result: in the record, or in a file past MaxOutput.
type ItemOutput struct {
	Captured map[string]json.RawMessage `json:"captured,omitempty" log:"mask"`

	// It is empty with OutputFile.
	Output string `json:"output,omitempty" log:"mask"`

	// It is synced before the record.
	OutputFile string `json:"output_file,omitempty"`

	// The CRC32C of that file; absent in records of older versions.
	OutputCRC string `json:"output_crc,omitempty"`
}

// ItemFiles are the files that an item is made from, and those that its attempt left.
type ItemFiles struct {
	Uses     []File `json:"uses,omitempty"`
	Produced []File `json:"produced,omitempty"`
}

// Changes are what an attempt has changed in its workspace. They are zero without workspaces.
type Changes struct {
	// The commit with all that the attempt changed. It is empty when it changed nothing.
	Commit string `json:"commit,omitempty"`

	// The number of files that differ from the base.
	Files int `json:"files,omitempty"`

	Insertions int `json:"insertions,omitempty"`
	Deletions  int `json:"deletions,omitempty"`

	// With `take: commits`: the number of files that were changed and not committed, whose changes are lost.
	Discarded int `json:"discarded,omitempty"`
}

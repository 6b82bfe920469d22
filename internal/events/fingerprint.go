package events

import "maps"

// Fingerprint is the part of the fingerprint that all items share which are run with the same workflow and the same
// values.
type Fingerprint struct {
	Steps string `json:"steps"` // digest of the steps of the agent and of its handler
	// digests of the parameters, variables and outputs of setup, by name
	Values  map[string]string `json:"values,omitempty"`
	Version string            `json:"version,omitempty"` // of the workflow, as it is written
}

// Equal reports whether f and other are the same.
func (f Fingerprint) Equal(other Fingerprint) bool {
	return f.Steps == other.Steps && f.Version == other.Version && maps.Equal(f.Values, other.Values)
}

// File is the content of a file at one moment.
type File struct {
	// from the directory of the job, with slashes; what is no UTF-8 in it is replaced
	Path string `json:"path" log:"mask,clip"`
	Size int64  `json:"size"` // in bytes
	// nanoseconds since 1970; 0 means so recent that it may change again and keep its time
	Modified int64  `json:"modified,omitempty"`
	Sum      string `json:"sum,omitempty"` // first 12 bytes of the SHA-256; empty if it changed while it was read
}

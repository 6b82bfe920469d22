// Package fingerprint identifies the work of an item, so that another job can tell whether it would do the same
// work again.
//
// The fingerprint of an item has a part that all items of a job share, [Job], a part for its data, which [Data]
// computes, and a part for the files that it is made from, each a [File], which [Files] reads. Each part is
// compared on its own, so that people can be told which of them differs.
package fingerprint

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"prodigy/internal/filter"
)

// Sum is a digest: the first 12 bytes of a SHA-256.
type Sum [12]byte

// String returns the digest in hexadecimal.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// Of returns the digest of data.
func Of(data []byte) Sum {
	sum := sha256.Sum256(data)
	return Sum(sum[:12])
}

// Job is the part of the fingerprint that all items share which are run with the same workflow and the same values.
type Job struct {
	Steps string `json:"steps"` // digest of the steps of the agent and of its handler
	// digests of the parameters, variables and outputs of setup, by name
	Values  map[string]string `json:"values,omitempty"`
	Version string            `json:"version,omitempty"` // of the workflow, as it is written
}

// Equal reports whether j and other are the same.
func (j Job) Equal(other Job) bool {
	return j.Steps == other.Steps && j.Version == other.Version && maps.Equal(j.Values, other.Values)
}

// Unknown is the digest of a value that nobody knows before the run. It is equal to every other.
const Unknown = "?"

// Part names the part of two fingerprints that differs first, in the order in which people want to know it:
// "steps", "version", or a value as in "values: RATE". It returns "" if none does.
func (j Job) Part(before Job) string {
	switch {
	case j.Steps != before.Steps:
		return "steps"
	case j.Version != before.Version:
		return "version"
	}
	names := slices.Collect(maps.Keys(j.Values))
	for name := range before.Values {
		if _, ok := j.Values[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		now, has := j.Values[name]
		then, had := before.Values[name]
		if (now != then || has != had) && now != Unknown && then != Unknown {
			return "values: " + name
		}
	}
	return ""
}

// OfValue returns the digest of a value that may be written to the log.
func OfValue(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic("BUG: a value has no JSON: " + err.Error())
	}
	return Of(data).String()
}

// OfSecret returns the digest of a secret, which nobody can find by trying values unless they have the key.
func OfSecret(key []byte, value string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(value))
	return hex.EncodeToString(mac.Sum(nil)[:12])
}

// Data computes the digests of the data of items. It is not safe for use by several goroutines.
type Data struct {
	fields []filter.Path
	form   []byte
}

// NewData returns a Data for which the fields with these paths count; none: the whole item. An error shows the
// place with a caret.
func NewData(fields []string) (*Data, error) {
	if len(fields) == 0 {
		fields = []string{"item"}
	}
	d := new(Data)
	for _, field := range fields {
		path, err := filter.ParsePath(field)
		if err != nil {
			return nil, err
		}
		d.fields = append(d.fields, path)
	}
	return d, nil
}

// Of returns the digest of the data of an item. Two items have the same if their values are equal, however they
// are written.
func (d *Data) Of(item json.RawMessage) Sum {
	d.form = d.form[:0]
	for _, path := range d.fields {
		v, _ := path.In(item)
		d.form = v.AppendOrdered(d.form)
	}
	return Of(d.form)
}

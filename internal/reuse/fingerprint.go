// Package reuse takes over the results of earlier jobs: for items that would do the same work again, and as the items
// of another job.
//
// The fingerprint of an item tells whether it would. It has a part that all items of a job share, [events.Fingerprint],
// a part for its data, and a part for the files that it is made from, each an [events.File], which [Dir] reads. Each
// part is compared on its own, so that people can be told which of them differs. An index, beside the results of a job,
// has the fingerprints of its items.
package reuse

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"prodigy/internal/check"
	"prodigy/internal/events"
	"prodigy/internal/filter"
	"prodigy/internal/jobs"
	"prodigy/internal/process"
	"prodigy/internal/settings"
	"prodigy/internal/workflow"
)

// Sum is a digest: the first 12 bytes of a SHA-256.
type digest [12]byte

// String returns the digest in hexadecimal.
func (s digest) String() string { return hex.EncodeToString(s[:]) }

// digestOf returns the digest of data.
func digestOf(data []byte) digest {
	sum := sha256.Sum256(data)
	return digest(sum[:12])
}

// unknownValue is the digest of a value that nobody knows before the run. It is equal to every other.
const unknownValue = "?"

// partOf names the part of two fingerprints that differs first, in the order in which people want to know it:
// "steps", "version", or a value as in "values: RATE". It returns "" if none does.
func partOf(now, before events.Fingerprint) string {
	switch {
	case now.Steps != before.Steps:
		return "steps"
	case now.Version != before.Version:
		return "version"
	}
	names := slices.Collect(maps.Keys(now.Values))
	for name := range before.Values {
		if _, ok := now.Values[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		is, has := now.Values[name]
		was, had := before.Values[name]
		if (is != was || has != had) && is != unknownValue && was != unknownValue {
			return "values: " + name
		}
	}
	return ""
}

// ofValue returns the digest of a value that may be written to the log.
func ofValue(value any) string {
	return digestOf(check.Must(json.Marshal(value))).String()
}

// ofSecret returns the digest of a secret, which nobody can find by trying values unless they have the key.
func ofSecret(key []byte, value string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(value))
	return hex.EncodeToString(mac.Sum(nil)[:12])
}

// hasher computes the digests of the data of items. It is not safe for use by several goroutines.
type hasher struct {
	fields []filter.Path
	form   []byte
}

// newHasher returns a hasher for which the fields with these paths count, or the whole item if there are no paths. An error shows the
// place with a caret.
func newHasher(fields []string) (*hasher, error) {
	if len(fields) == 0 {
		fields = []string{"item"}
	}
	d := new(hasher)
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
func (d *hasher) Of(item json.RawMessage) digest {
	d.form = d.form[:0]
	for _, path := range d.fields {
		v, _ := path.In(item)
		d.form = v.AppendOrdered(d.form)
	}
	return digestOf(d.form)
}

// inEnv matches what names a variable of the environment in a step.
var inEnv = check.Regexp(`\benv(?:[.:]|\[\\?["'])([A-Za-z_][A-Za-z0-9_]*)`)

// FingerprintOf returns what the items of w share that are run from now on. Captured has the outputs of setup by name.
// Values that nobody knows are settled by running their commands, which register lists, if that is not nil.
func FingerprintOf(ctx context.Context, c Config, w *workflow.Workflow, captured map[string]string,
	register *process.Register,
) events.Fingerprint {
	unknown := func() string { return unknownValue }
	if register != nil {
		c.Settings, unknown = c.Settings.Settle(ctx, c.Dir, c.Environ, register), rand.Text
	}
	return fingerprintOf(c, w, captured, unknown, func(value string) string {
		key, err := c.Home.FingerprintKey()
		if err != nil {
			key = []byte(rand.Text()) // equal to no other
		}
		return ofSecret(key, value)
	})
}

// fingerprintOf returns what the items of w share with these settings. Captured has the outputs of setup by name.
// Unknown gives the digest of a variable that has no value, secret that of a secret.
func fingerprintOf(c Config, w *workflow.Workflow, captured map[string]string, unknown func() string,
	secret func(string) string,
) events.Fingerprint {
	m, s := w.Map, c.Settings
	handler := w.Handlers[w.ErrorPolicy.OnItemFailure.Handler]
	texts := slices.Concat(workflow.Content(m.AgentTemplate), workflow.Content(handler))
	f := events.Fingerprint{Version: w.Version, Values: map[string]string{}}
	f.Steps = digestOf(strconv.AppendBool(texts, m.Batch > 0)).String()
	digest := func(value string) string {
		if s.Mask.Holds(value) {
			return secret(value)
		}
		return ofValue(value)
	}
	for _, name := range inEnv().FindAllSubmatch(texts, -1) {
		if value, ok := s.Find(w, c.Environ, string(name[1])); ok {
			f.Values[string(name[1])] = digest(value)
		}
	}
	env := s.Env
	if env == nil {
		env = w.Env
	}
	for _, v := range env {
		if v.Secret {
			continue
		}
		value, known := s.Lookup(v.Name)
		if s.Env == nil && v.Command == nil && v.Choice == nil { // nothing has resolved it
			value, known = v.Value.Value, true
		}
		if f.Values[v.Name] = unknown(); known {
			f.Values[v.Name] = digest(value)
		}
	}
	for name, value := range check.ByKey(s.Secrets) {
		f.Values[name] = secret(value)
	}
	// Parameters and captures are not in the environment of a command that does not name them.
	var setup []workflow.Step
	if w.Setup != nil {
		setup = w.Setup.Commands // may leave files that items read
	}
	made := workflow.Content(setup)
	for _, arg := range s.Args {
		if name := []byte(arg.Name); bytes.Contains(texts, name) || bytes.Contains(made, name) {
			f.Values[arg.Name] = ofValue(arg.Value)
		}
	}
	for _, step := range setup {
		if step.Capture == "" || !bytes.Contains(texts, []byte(step.Capture)) {
			continue
		}
		value, known := captured[step.Capture]
		if f.Values[step.Capture] = unknownValue; known {
			f.Values[step.Capture] = ofValue(value)
		}
	}
	return f
}

// Config is what is asked of a run whose workflow takes over results.
type Config struct {
	Home     jobs.Home
	Dir      string // of the run
	Environ  []string
	Settings settings.Settings
	Since    jobs.Since // its JobID is as somebody named it: a prefix, "latest", or for no job "none" or ""
}

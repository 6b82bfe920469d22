package mapreduce

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"prodigy/internal/agent"
	"prodigy/internal/events"
	"prodigy/internal/workflow"
)

// itemKeys are the keys of the limits that hold an item back. They are empty where all items have one.
type itemKeys struct {
	rate    string
	breaker string
}

// noKey is the key of a breaker for the items for which it cannot be told.
const noKey = "(no key)"

// BreakerKey returns the key of the circuit breaker of an item whose data is as it may be shown; "" if all
// items have one breaker.
func BreakerKey(w *workflow.Workflow, id string, item json.RawMessage) string {
	if w == nil || w.BreakerPer == nil {
		return ""
	}
	of, err := agent.Keys(*w.BreakerPer)
	if err != nil {
		return ""
	}
	return cmp.Or(bounded(of(id, item)), noKey)
}

// keyOf returns the key of an item, as the log may have it; nil if per is.
func (j *owner) keyOf(per *workflow.Text) (func(id string, item json.RawMessage) string, error) {
	if per == nil {
		return nil, nil
	}
	of, err := agent.Keys(*per)
	if err != nil {
		return nil, err
	}
	return func(id string, item json.RawMessage) string {
		return bounded(j.config.Settings.Mask.Text(of(id, item)))
	}, nil
}

// maxKey bounds a key, in bytes.
const maxKey = 200

// bounded returns a key that is valid and not too long. Of a longer one it has the beginning, and a checksum of
// all of it.
func bounded(key string) string {
	key = strings.ToValidUTF8(key, "\ufffd")
	if len(key) <= maxKey {
		return key
	}
	return fmt.Sprintf("%s… %x", events.Clip(key, maxKey/2), sha256.Sum256([]byte(key)))[:maxKey/2+40]
}

// Package errorpolicy decides what follows the outcome of an item, for the item and for its job.
//
// Policy is the block of the workflow file, Machine the policy at work in one job: a pure state machine, with
// outcomes and the clock as input and decisions as output. Action and Status are the tables of what can
// happen to an item.
package errorpolicy

import (
	"slices"
	"strconv"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/limit"
	"prodigy/internal/retry"
)

// Policy is an error_policy block. The zero Policy sends failed items to the dead letter queue, and the job continues.
type Policy struct {
	OnItemFailure ItemAction `yaml:"on_item_failure"` // action for failed items; default dlq

	// whether the job continues after a failure; default true
	ContinueOnFailure *bool `yaml:"continue_on_failure"`

	// number of failed items at which the job stops; default no limit
	MaxFailures int `yaml:"max_failures" least:"1"`

	// failure rate of finished items, from 0 to 1, above which the job stops once 10 items have finished, or all if
	// there are fewer; default no limit
	FailureThreshold *float64 `yaml:"failure_threshold" range:"0 1"`

	// when failures are reported: at the end, immediately, or in batches; default aggregate
	ErrorCollection Collection `yaml:"error_collection"`

	// circuit breaker that holds items back while they keep failing; default none
	CircuitBreaker *limit.BreakerConfig `yaml:"circuit_breaker"`

	// how failed items are retried before `on_item_failure` applies; default no retries, and an empty block
	// with `on_item_failure: retry`
	RetryConfig *retry.Policy `yaml:"retry_config"`

	// maximum number of retries, of items and steps, per first attempt, such as `0.2`; further retries wait
	// without a slot, while first attempts continue; default no limit
	RetryRatio *retry.Ratio `yaml:"retry_ratio"`

	// what happens to an item that was killed for lack of memory (type `oom`, on Linux): `alone` retries it
	// after all others, while nothing else runs; a failure then is handled like any other. Default as for any
	// other failure
	OnOOM OnOOM `yaml:"on_oom" words:"alone"`

	// what happens when the plan limit of an AI is reached; default items wait until it resets
	Quota *limit.QuotaPolicy `yaml:"quota"`

	Adapt     limit.AdaptiveConfig // of the number of agents at once, which the map phase sets, if it has such a limit
	Rate      limit.Rate           // of the starts of agents, which the map phase sets, if it has such a limit
	StepRates map[int]limit.Rate   // of the starts of steps of agents, by position, which the map phase sets
	Straggler limit.StragglerAfter // how long an attempt may take, which the map phase sets, if it has such a limit

	// timeout_action of the map phase. Without it, a timeout is a failure like any other
	OnTimeout TimeoutAction
}

// Retries returns how often and when a failed item is run again, or nil if it never is.
func (p Policy) Retries() *retry.Policy {
	if p.RetryConfig == nil && p.OnItemFailure.Kind == Retry {
		return new(retry.Default())
	}
	return p.RetryConfig
}

// OnOOM says what happens to an item that was killed for lack of memory.
type OnOOM string

// OOMAlone is the one choice of OnOOM, beside none.
const OOMAlone OnOOM = "alone"

// ItemAction is the value of on_item_failure. Handler is set only for custom:<handler>. The zero ItemAction is DLQ.
type ItemAction struct {
	Kind    Action
	Handler string
}

// Collection is when failures are reported. The zero Collection is Aggregate.
type Collection struct {
	Kind CollectionKind
	Size int // with Batched: failures a batch, at least 1
}

// CollectionKind is the kind of a Collection.
type CollectionKind string

const (
	Aggregate CollectionKind = "aggregate"
	Immediate CollectionKind = "immediate"
	Batched   CollectionKind = "batched"
)

const collectionForms = `aggregate, immediate, batched, batched:10 or {batched: {size: 10}}`

const defaultBatch = 10

// actionForms returns what on_item_failure takes, for messages.
func actionForms() string {
	var forms []string
	for _, r := range actions {
		forms = append(forms, r.written)
	}
	return check.OneOf(forms)
}

// ReadText reads the value of on_item_failure.
func (a *ItemAction) ReadText(text string) error {
	*a = ItemAction{Kind: Action(text)}
	handler, custom := strings.CutPrefix(text, string(Custom)+":")
	switch {
	case custom && handler != "":
		*a = ItemAction{Kind: Custom, Handler: handler}
		return nil
	case slices.Contains(Actions(), a.Kind):
		return nil
	case text == "":
		return check.Sentencef("on_item_failure must be one of %s", actionForms())
	case custom || a.Kind == Custom:
		return check.Sentencef("on_item_failure: custom needs the name of a handler, as in custom:notify")
	}
	return check.Sentencef("unknown on_item_failure %q%s", text, check.Hint(text, Actions(), actionForms()))
}

// ReadText reads a value of error_collection that is a single word.
func (c *Collection) ReadText(text string) error {
	*c = Collection{Kind: CollectionKind(text)}
	size, sized := strings.CutPrefix(text, string(Batched)+":")
	switch n, err := strconv.Atoi(size); {
	case text == "":
		return check.Sentencef("error_collection must be one of %s", collectionForms)
	case sized && err != nil:
		return check.Sentencef("invalid batch size %q: use an integer, as in batched:10", size)
	case sized && n < 1:
		return check.Sentencef("the size of error_collection batched must be at least 1, got %d", n)
	case sized:
		*c = Collection{Kind: Batched, Size: n}
	case c.Kind == Batched:
		c.Size = defaultBatch
	case c.Kind != Aggregate && c.Kind != Immediate:
		words := []CollectionKind{Aggregate, Immediate}
		return check.Sentencef("unknown error_collection %q%s", text, check.Hint(text, words, collectionForms))
	}
	return nil
}

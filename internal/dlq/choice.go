package dlq

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"prodigy/internal/check"
	"prodigy/internal/filter"
	"prodigy/internal/retry"
)

// Choice selects the dead letters to retry. Its zero value selects those that may be retried at all.
type Choice struct {
	JobID  string
	Items  []string // their ids; all items if it is empty
	Type   retry.Type
	Filter *filter.Filter // over the data of items; it may be nil
	Where  *filter.Filter // over the names of ParseWhere; it may be nil
	// Cluster is the number of the only signature that counts; the largest is 1. 0 means all signatures.
	Cluster int
	// MaxRetries is after how many retries an item is left alone.
	MaxRetries int
	// Mended is set if the workflow is another than the one that the items failed in.
	Mended bool
	// Force also chooses items that are not eligible.
	Force bool

	// The rest is set by Make.
	Total  int             // dead letters of the job
	Named  map[string]bool // selected by all but their eligibility
	Chosen []string        // the ones to run
	Kept   Kept            // why others of the named are not run

	signature string // of Cluster
}

// ChoiceError says that a choice names what is not there.
type ChoiceError struct{ text string }

func (e *ChoiceError) Error() string { return e.text }

// Kept counts why dead letters are not eligible for a retry.
type Kept struct {
	spent int // retried too often
	limit int // how often that is
	types map[retry.Type]int
}

// String returns the reasons, each with the flag that overrides it.
func (r Kept) String() string {
	var parts []string
	if r.spent > 0 {
		parts = append(parts, fmt.Sprintf("%d already retried %s (to run them: a higher --max-retries, or --force)", r.spent, check.Counted(r.limit, "time")))
	}
	for t, n := range check.ByKey(r.types) {
		parts = append(parts, fmt.Sprintf("%d failed with %s, which a retry does not fix (to run them: --workflow with the fixed file, or --force)", n, t))
	}
	return strings.Join(parts, "; ")
}

// Names returns the names in an expression over dead letters.
func Names() []string {
	return strings.Fields(`item item_id error.type error.message error.step error.exit_code error.signature failures
		retries`)
}

// ParseWhere parses an expression over [Names] and what is below item.
func ParseWhere(text string) (*filter.Filter, error) {
	f, err := filter.Parse(text)
	if err != nil {
		return nil, err
	}
	for _, path := range f.Paths {
		if len(path) > 0 && path[0] == "item" {
			continue
		}
		if name := strings.Join(check.First(path, 2), "."); !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("unknown field %s: an expression can use %s", name, strings.Join(Names(), ", "))
		}
	}
	return f, nil
}

// letterValues returns the values of Names.
func letterValues(e Entry) (map[string]json.RawMessage, error) {
	last := e.Last()
	values := map[string]json.RawMessage{"item": e.Item}
	for name, v := range map[string]any{
		"item_id": e.ItemID, "failures": e.FailureCount, "retries": e.RetryCount,
		"error": map[string]any{"type": last.ErrorType, "message": last.Message, "step": last.Step, "exit_code": last.ExitCode, "signature": e.ErrorSignature},
	} {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		values[name] = raw
	}
	return values, nil
}

// findCluster finds the signature of --cluster among all dead letters.
func (c *Choice) findCluster(all iter.Seq2[Entry, error]) error {
	n := c.Cluster
	if n == 0 {
		return nil
	}
	var groups Analysis
	for e, err := range all {
		if err != nil {
			return err
		}
		groups.Add(e)
	}
	clusters := groups.BySignature()
	if n > len(clusters) {
		return choicef("--cluster: group %d not found; there are %d (to list them: prodigy dlq analyze %s)", n, len(clusters), c.JobID)
	}
	c.signature = clusters[n-1].Signature
	return nil
}

// Make chooses among all dead letters and calls chosen, if not nil, for each one to run.
func (c *Choice) Make(all iter.Seq2[Entry, error], chosen func(Entry)) error {
	if err := c.findCluster(all); err != nil {
		return err
	}
	c.Named, c.Kept = map[string]bool{}, Kept{limit: c.MaxRetries, types: map[retry.Type]int{}}
	missing := map[string]bool{}
	for _, id := range c.Items {
		missing[id] = true
	}
	for e, err := range all {
		if err != nil {
			return err
		}
		named := len(c.Items) == 0 || missing[e.ItemID]
		delete(missing, e.ItemID)
		c.Total++
		asked, err := c.asked(e)
		if err != nil {
			return err
		}
		if !named || !asked {
			continue
		}
		c.Named[e.ItemID] = true
		if !c.eligible(e) {
			continue
		}
		c.Chosen = append(c.Chosen, e.ItemID)
		if chosen != nil {
			chosen(e)
		}
	}
	for _, id := range c.Items {
		if missing[id] {
			return choicef("dead letter %q not found in job %s (to list them: prodigy dlq list --job-id %s)", id, c.JobID, c.JobID)
		}
	}
	return nil
}

// asked reports whether the conditions select e, whatever its item is.
func (c *Choice) asked(e Entry) (bool, error) {
	typed := c.Type == "" || e.Last().ErrorType == c.Type
	if !typed || c.Filter != nil && !c.Filter.Match(e.Item) || c.Cluster > 0 && e.ErrorSignature != c.signature {
		return false, nil
	}
	if c.Where == nil {
		return true, nil
	}
	values, err := letterValues(e)
	return err == nil && c.Where.MatchNamed(values), err
}

// eligible reports whether e may be retried, and counts why not. A higher --max-retries makes entries eligible that
// were only retried too often, and another workflow those whose failure lies in the workflow.
func (c *Choice) eligible(e Entry) bool {
	if c.Force {
		return true
	}
	if e.RetryCount >= c.MaxRetries {
		c.Kept.spent++
		return false
	}
	if t := e.Last().ErrorType; !eligible(t) && !e.ReprocessEligible && !c.Mended {
		c.Kept.types[t]++
		return false
	}
	return true
}

func choicef(format string, args ...any) error { return &ChoiceError{fmt.Sprintf(format, args...)} }

// Left counts the dead letters in the queue at path: those that were selected, and others.
func (c *Choice) Left(path string) (selected, others int, err error) {
	ids, err := IDs(path)
	for _, id := range ids {
		if c.Named[id] {
			selected++
		} else {
			others++
		}
	}
	return selected, others, err
}

package mapreduce

import (
	"maps"
	"math/rand/v2"
	"time"

	"prodigy/internal/retry"
)

// crowds count the retries of items by the second in which they are due, so that many that fail at once do not
// all come back at once.
type crowds map[int64]int

const (
	// crowdFrom is how many retries in a second are no crowd.
	crowdFrom = 16
	// crowdPace is the time between two retries of a crowd.
	crowdPace = 20 * time.Millisecond
	// crowdMost bounds what a crowd is spread over, but for the random part.
	crowdMost = time.Minute
	// crowdSeconds is how many seconds are kept before those are looked for that are over.
	crowdSeconds = 1024
)

func (c *crowds) add(due time.Time) int {
	if *c == nil {
		*c = crowds{}
	}
	n := (*c)[due.Unix()] + 1
	(*c)[due.Unix()] = n
	return n
}

// spread delays a retry that comes in a crowd, and whose policy has no jitter, and returns by how much: by a
// random part of its delay, which follows from the seed of rnd, and where retries are limited also by its place
// in the crowd.
func (c *crowds) spread(d *retry.Decision, p retry.Policy, limited bool, now time.Time, rnd *rand.Rand) time.Duration {
	if len(*c) > crowdSeconds {
		maps.DeleteFunc(*c, func(second int64, _ int) bool { return second < now.Unix() })
	}
	n := c.add(now.Add(d.Delay))
	if n <= crowdFrom || p.Jitter != retry.NoJitter {
		return 0
	}
	more := time.Duration(rnd.Int64N(int64(max(d.Delay, crowdPace))))
	if limited {
		more += min(time.Duration(n-crowdFrom)*crowdPace, crowdMost)
	}
	if p.Budget > 0 {
		more = max(0, min(more, d.BudgetLeft))
	}
	d.Delay += more
	d.State.Waited += more
	d.State.Previous = d.Delay
	return more
}

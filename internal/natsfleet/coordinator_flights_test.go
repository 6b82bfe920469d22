package natsfleet

import (
	"context"
	"encoding/json"
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"prodigy/internal/agent"
	"prodigy/internal/fleet"
	"prodigy/internal/testenv"
)

// A flight does not hold its attempt, so whatever an attempt has must be either in what it shares with others or in the flight.
func TestAFlightMakesItsAttemptAgain(t *testing.T) {
	full := agent.Attempt{}
	testenv.Fill(t, reflect.ValueOf(&full).Elem())
	full.JobID, full.ItemID = "job", "item_7"
	full.CorrelationID, full.ID = "job/item_7", "job/item_7/"+strconv.Itoa(full.Number)
	plain := agent.Attempt{JobID: "job", CorrelationID: "job/item_7", ID: "job/item_7/1", ItemID: "item_7", Item: json.RawMessage("7"), Number: 1, Token: 12}
	for name, a := range map[string]agent.Attempt{"with all that there is": full, "of a common item": plain} {
		t.Run(name, func(t *testing.T) {
			spec := &sharedSpec{template: fleet.NewSpec(a).Template}
			f := newFlight(context.Background(), &a, spec, nil)
			if diff := cmp.Diff(&a, f.attempt()); diff != "" {
				t.Errorf("the attempt of the flight is another (-want +got):\n%s", diff)
			}
			if (f.more != nil) != (a.Base != "") {
				t.Errorf("got rare parts %v", f.more)
			}
		})
	}
}

// A coordinator may have tens of thousands of attempts out.
func TestAnAttemptThatIsOutIsSmall(t *testing.T) {
	const out, most = 5000, 400
	a := agent.Attempt{JobID: "job", Phase: "map"}
	spec := &sharedSpec{template: fleet.NewSpec(a).Template}
	dispatcher := fleet.NewDispatcher(time.Minute, time.Second, time.Now())
	flights := map[int64]*flight{}
	before := live()
	for i := range out {
		own := a
		own.ItemID, own.ItemIndex, own.Number, own.Token = "item", i, 1, int64(i)
		flights[own.Token] = newFlight(t.Context(), &own, spec, nil)
		dispatcher.Add(own.Token)
	}
	after := live()
	if got := (after - before) / out; got > most {
		t.Errorf("an attempt that is out takes %d bytes, want %d at most", got, most)
	}
	runtime.KeepAlive(flights)
	runtime.KeepAlive(dispatcher)
}

func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it is not so large
}

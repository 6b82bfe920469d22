package events

import "fmt"

// maxIndex is the highest index of an item that is believed: far more items than a job can have, and few enough for counts of them.
const maxIndex = 1<<31 - 1

// checkBounds returns an error for an event with numbers that none has, so that nobody has to be prepared for them.
func checkBounds(e Event) error {
	if index, attempt, ok := numbersOf(e); ok {
		if err := checkNumber("item_index", index); err != nil {
			return err
		}
		return checkNumber("attempt", attempt)
	}
	switch e := e.(type) {
	case ItemsSelected:
		return checkNumber("total_items", e.TotalItems)
	case JobStarted:
		return checkNumber("max_parallel", e.MaxParallel)
	case StepCompleted:
		return checkNumber("step_index", e.StepIndex)
	}
	return nil
}

func checkNumber(name string, n int) error {
	if n < 0 || n > maxIndex {
		return fmt.Errorf("%s is %d, which no record has", name, n)
	}
	return nil
}

// believable returns an error for a record that cannot be in the log of a job, though it can be read.
func believable(r Record) error {
	// Items are started in their order, so that there are at least as many records before the first about an item as there are items.
	if index, _, ok := numbersOf(r.Event); ok && (int64(index) >= r.Seq || r.Event.About() == "") {
		return fmt.Errorf("it is about item %q with index %d, which no job has begun by then", r.Event.About(), index)
	}
	switch e := r.Event.(type) {
	case Unknown:
		return fmt.Errorf("this version knows no record of type %q", e.Name)
	case AgentFailed:
		return checkAction(e)
	case PhaseStarted:
		return checkPhase(e.Phase)
	case PhaseCompleted:
		return checkPhase(e.Phase)
	}
	return nil
}

func checkAction(e AgentFailed) error {
	switch {
	case !e.Action.Known():
		return fmt.Errorf("there is no action %q", e.Action)
	case e.Action.RunsAgain() && e.RetryAt == nil:
		return fmt.Errorf("it has action %s and no retry_at", e.Action)
	}
	return nil
}

func checkPhase(name string) error {
	switch name {
	case "setup", "map", "reduce", "merge":
		return nil
	}
	return fmt.Errorf("there is no phase %q", name)
}

// numbersOf returns which item an event is about, and which attempt of it if it says so.
func numbersOf(e Event) (index, attempt int, ok bool) {
	switch e := e.(type) {
	case AgentStarted:
		return e.ItemIndex, e.Attempt, true
	case AgentCompleted:
		return e.ItemIndex, e.Attempt, true
	case AgentFailed:
		return e.ItemIndex, e.Attempt, true
	case AgentSkipped:
		return e.ItemIndex, 0, true
	case AgentInterrupted:
		return e.ItemIndex, e.Attempt, true
	}
	return 0, 0, false
}

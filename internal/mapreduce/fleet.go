package mapreduce

import "fmt"

// OnFleetError is the error for a job that is resumed without the fleet that may still run some of its attempts.
type OnFleetError struct {
	JobID    string
	Attempts int
}

func (e *OnFleetError) Error() string {
	return fmt.Sprintf("workers of a fleet may still run items of job %s: %d; resume it with --fleet (--fleet none gives them up, and they may run twice)", e.JobID, e.Attempts)
}

// onFleet is the number of attempts that workers of a fleet may still run.
func (j *job) onFleet() int {
	n := 0
	for _, f := range j.state.Running {
		if f.Fleet {
			n++
		}
	}
	return n
}

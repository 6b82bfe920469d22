package jobs

// State is the state of a job. A job that a process runs is Running, also while it is paused and starts nothing. The
// other states are how its last run ended.
type State string

const (
	Running   State = "running"
	Completed State = "completed"
	Failed    State = "failed"    // also if the error policy ended it, whose action is called stop
	Stopped   State = "stopped"   // by a signal, a drain or a limit; a resume continues it
	Cancelled State = "cancelled" // by a person, for good
	Killed    State = "killed"    // the run ended without a word
)

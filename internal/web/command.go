package web

import "strconv"

// Command returns the arguments of the command that a person would type for the action on a job, without the flags
// about a fleet.
func (a Action) Command(jobID string) []string {
	switch a.Kind {
	case Accept:
		return []string{"resume", jobID, "--accept"}
	case Skip, RetryNow:
		return append([]string{string(a.Kind), jobID, "--"}, a.Items...)
	case Scale:
		return []string{"scale", jobID, strconv.Itoa(a.Slots)}
	case Stop, Resume, Pause, Continue, Drain, Cancel:
		return []string{string(a.Kind), jobID}
	}
	args := []string{"dlq", "retry", jobID}
	for _, item := range a.Items {
		args = append(args, "--item", item)
	}
	if len(a.Items) > 0 {
		args = append(args, "--force") // a person has looked at it
	}
	if a.Reduce {
		args = append(args, "--reduce")
	}
	return args
}

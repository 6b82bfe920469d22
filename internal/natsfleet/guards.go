package natsfleet

import (
	"time"

	"prodigy/internal/fleet"
	"prodigy/internal/limit"
)

// measureEvery is how long there is between two looks at what the machine of a worker has left and lacks.
const measureEvery = time.Second

// measureLoop follows what this machine has left, and what jobs that were refused lacked, until the worker ends.
func (w *worker) measureLoop() {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.forgetSilent(time.Now())
			w.measure()
		case <-w.life.Done():
			return
		}
	}
}

// measure finds out what may begin here: nothing at all while the guards of the worker are closed, and nothing of a job
// while its guards are, or while this worker lacks what it needs. What runs goes on. A directory that does not answer
// keeps nobody else waiting.
func (w *worker) measure() {
	before := ""
	jobs := map[*workerJob]workerLook{}
	w.turn(func(s *workerState) {
		before = s.short
		for _, j := range s.jobs {
			if !j.untrusted {
				jobs[j] = workerLook{j.Job, j.refuses, j.short}
			}
		}
	})
	short := w.closed(w.o.Guards, before, w.o.Home)
	w.turn(func(s *workerState) {
		if s.short = short; (short == "") == (before == "") {
			return
		}
		for _, j := range s.jobs {
			j.dirty, j.full, s.woken = true, true, true
		}
		w.sayShort("", short)
	})
	for j, was := range jobs {
		refuses, short := was.refuses, was.short
		if refuses != "" { // else the worker takes part, whatever it lacks since
			refuses = w.unfit(was.entry)
		}
		if refuses == "" {
			short = w.shortOf(was.entry, was.short)
		}
		w.turn(func(s *workerState) {
			if j.Owner != was.entry.Owner || j.Serial != was.entry.Serial {
				return
			}
			changed := (short == "") != (was.short == "")
			if changed {
				w.sayShort(was.entry.ID, short)
			}
			if changed || refuses != was.refuses {
				j.dirty, j.full = true, true
			}
			j.refuses, j.short, s.woken = refuses, short, true
		})
	}
}

// workerLook is a job as it was when a worker began to look at what it has for it.
type workerLook struct {
	entry          fleet.Job
	refuses, short string
}

// shortOf returns why nothing of a job may begin here, or "". was is what it returned the last time.
func (w *worker) shortOf(j fleet.Job, was string) string {
	dirs := []string{w.o.Home}
	switch {
	case j.Files != "" || j.Seed != "": // it runs in a directory of the worker
	case w.o.Dir != "":
		dirs = append(dirs, w.o.Dir)
	default:
		dirs = append(dirs, j.Dir)
	}
	if short := w.closed(w.o.Guards, was, dirs...); short != "" {
		return short
	}
	return w.closed(j.Guards, was, dirs...)
}

// closed returns why guards hold back what uses some directories, or "". What cannot be measured changes nothing.
func (w *worker) closed(g limit.Guards, was string, dirs ...string) string {
	if !g.Any() {
		return ""
	}
	measure := limit.MachineNow
	if w.o.Machine != nil {
		measure = w.o.Machine
	}
	m, err := measure(dirs...)
	if err != nil {
		return was
	}
	return g.Closed(m, was != "")
}

// sayShort says that nothing begins any more, of a job or at all, or that it does again.
func (w *worker) sayShort(jobID, short string) {
	of := ""
	if jobID != "" {
		of = " of job " + jobID
	}
	if short == "" {
		w.o.Say("accepts attempts" + of + " again")
		return
	}
	w.o.Say("accepts no attempts" + of + " for now: " + short)
}

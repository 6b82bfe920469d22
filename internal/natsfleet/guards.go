package natsfleet

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"prodigy/internal/fleet"
	"prodigy/internal/limit"
)

// measureEvery is how long there is between two looks at what the machine of a worker has left and lacks.
const measureEvery = time.Second

// measure finds out what may begin here: nothing at all while the guards of the worker are closed, and nothing of a job
// while its guards are, or while this worker lacks what it needs. What runs goes on. A directory that does not answer
// keeps nobody else waiting.
func (w *worker) measure() {
	before := ""
	jobs := map[*workerJob]standing{}
	w.turn(func(s *workerState) {
		before = s.short
		for _, j := range s.jobs {
			if !j.untrusted {
				jobs[j] = j.standing
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
			refuses = w.unfit(was.Job)
		}
		if refuses == "" {
			short = w.shortOf(was.Job, was.short)
		}
		w.turn(func(s *workerState) {
			if j.Owner != was.Owner || j.Serial != was.Serial {
				return
			}
			changed := (short == "") != (was.short == "")
			if changed {
				w.sayShort(was.ID, short)
			}
			if changed || refuses != was.refuses {
				j.dirty, j.full = true, true
			}
			j.refuses, j.short, s.woken = refuses, short, true
		})
	}
}

// shortOf returns why nothing of a job may begin here, or "". was is what it returned the last time.
func (w *worker) shortOf(j fleet.Job, was string) string {
	dirs := []string{w.o.Home}
	if j.Files == "" && j.Seed == "" { // else it runs in a directory of the worker
		dirs = append(dirs, cmp.Or(w.o.Dir, j.Dir))
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
	m, err := w.o.Machine(dirs...)
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
		w.say("accepts attempts%s again", of)
		return
	}
	w.say("accepts no attempts%s for now: %s", of, short)
}

// unfit returns why the worker cannot take part in a job, or nothing.
func (w *worker) unfit(j fleet.Job) string {
	node := w.node
	node.Lacks = lacking(j.Programs)
	if why := node.Unfit(j); why != "" {
		return why
	}
	if j.Guards.Any() && !limit.CanMeasure {
		return "the job has guards, and the free resources of this machine cannot be measured"
	}
	probe := filepath.Join(j.Dir, j.Probe)
	switch {
	case j.Seed != "":
		return w.lacks()
	case j.Files != "":
	case w.o.Dir != "":
		if info, err := os.Stat(w.o.Dir); err != nil || !info.IsDir() {
			return fmt.Sprintf("%s (--dir) is not a directory on %s", w.o.Dir, w.node.Host)
		}
	default:
		if _, err := os.Stat(probe); err != nil {
			return fmt.Sprintf("the working directory is not shared with %s: %s not found. Mount it there at the "+
				"same path, start the worker with --dir, or send the files with files: in the map", w.node.Host, probe)
		}
	}
	return ""
}

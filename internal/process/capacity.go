package process

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// Capacity is how many commands prodigy can run at once.
type Capacity struct {
	Most  int    // more can never run: each has at least one file and one process
	Fits  int    // so many do as commands commonly are; at least 1
	Limit string // what bounds Fits, in words
}

// MaxCommands is how many commands prodigy runs at once at most, whatever the limits are. It is below the
// 10,000 threads that Go allows a program: each command that runs has one, which waits for it.
const MaxCommands = 8000

// What prodigy needs for itself, and for each command: a pipe for each of its outputs and a descriptor of the
// process, a thread that waits, the command, and in a shell what that runs.
const (
	ownFiles, filesEach         = 32, 3
	ownProcesses, processesEach = 24, 4
)

// limits are those that the system sets to this process; 0 means none.
type limits struct {
	files     int
	processes int // of the user, threads included
}

// CapacityNow returns how many commands the limits of this process allow now.
func CapacityNow() Capacity { return capacityOf(currentLimits()) }

func capacityOf(l limits) Capacity {
	c := Capacity{Most: MaxCommands, Fits: MaxCommands, Limit: "prodigy's own limit"}
	if l.files > 0 {
		c.bound(l.files, (l.files-ownFiles)/filesEach, fmt.Sprintf("the limit of %d open files (ulimit -n)", l.files))
	}
	if l.processes > 0 {
		c.bound(l.processes, (l.processes-ownProcesses)/processesEach,
			fmt.Sprintf("the user's limit of %d processes and threads (ulimit -u)", l.processes))
	}
	return c
}

// Slots reads a number of slots as GNU parallel does: 8, 200% of the processors of this machine, +1 or -2 of them, and
// 0 for as many as fit.
func (c Capacity) Slots(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
	cpus := runtime.NumCPU()
	switch {
	case err != nil || n < 0 && text[0] != '-':
		return 0, errors.New("must be an integer, such as 8, or 200%, +1 or -1 of the processors")
	case strings.HasSuffix(text, "%"):
		n = max(1, n*cpus/100)
	case text[0] == '+' || text[0] == '-':
		n = max(1, cpus+n)
	case n == 0:
		n = c.Fits
	}
	return n, c.Check(n)
}

// Check returns an error when n commands can never run at once, with the number that would do.
func (c Capacity) Check(n int) error {
	if n <= c.Most {
		return nil
	}
	return fmt.Errorf("%d slots are more than %s allows: use at most %d", n, c.Limit, c.Fits)
}

func (c *Capacity) bound(most, fits int, limit string) {
	c.Most = min(c.Most, most)
	if fits = max(1, fits); fits < c.Fits {
		c.Fits, c.Limit = fits, limit
	}
}

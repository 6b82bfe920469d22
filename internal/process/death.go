package process

import (
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	diedSuffix   = ".died" // of the file beside a register in which its watcher notes when the owner died
	watchedWord  = "watched"
	stoppingWord = "stopping"
)

// Death is what is known of how the process that kept a register died. The zero Death is that of one that
// nobody watched: its watcher ended with it, as when the machine went down or everything in a container was
// killed.
type Death struct {
	At       time.Time
	Stopping bool // it had been asked to stop
}

// noteWait is how long LastDeath waits for the note of a watcher. The death wakes the watcher, which may have to start a
// program to write it.
const noteWait = 2 * time.Second

// LastDeath returns how the process that kept the register at path died. The caller knows that it is dead.
func LastDeath(path string) Death {
	o, _, _ := readRegister(path) // of a register that cannot be read nothing is known
	for deadline := time.Now().Add(noteWait); o.watched; time.Sleep(5 * time.Millisecond) {
		data, _ := os.ReadFile(path + diedSuffix)
		if words := strings.Fields(string(data)); len(words) == 2 && words[0] == o.mark {
			if n, err := strconv.ParseInt(words[1], 10, 64); err == nil {
				return Death{At: time.Unix(0, n), Stopping: o.stopping}
			}
		}
		if time.Now().After(deadline) {
			break
		}
	}
	return Death{Stopping: o.stopping}
}

// Stopping notes that the owner has been asked to stop, which explains its death if it is killed now.
func (r *Register) Stopping() { r.note(stoppingWord) }

func (r *Register) note(word string) {
	if r != nil {
		r.write(r.takeLine(), line(word, r.mark))
	}
}

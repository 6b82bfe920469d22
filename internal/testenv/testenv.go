// Package testenv has what tests share: how much they do, temporary files in memory, values to fill what they compare,
// the cases of JSON, the times of clocks that disagree, and a proxy that cuts the way to a broker.
package testenv

import (
	"os"
	"testing"
)

// OneIn returns how many cases of a long table or generator there are to one that a test runs: short with -short, plain without, and 1 when
// EXHAUSTIVE is set, which `make exhaustive` does. A test that takes every nth case must still have one of each class.
func OneIn(short, plain int) int {
	switch {
	case os.Getenv("EXHAUSTIVE") != "":
		return 1
	case testing.Short():
		return short
	}
	return plain
}

// UseMemory has t.TempDir make its directories in memory, where the system has a place for that with enough room: much of what is tested
// syncs its files, and on a disk that takes several times as long as all the rest. A TMPDIR that is set stays, so that
// `TMPDIR=/tmp go test ./...` tests on the disk. It is called by TestMain.
func UseMemory() {
	if os.Getenv("TMPDIR") != "" {
		return
	}
	if dir := memory(); dir != "" {
		_ = os.Setenv("TMPDIR", dir)
	}
}

// Offsets returns the places at which a file of lines is cut or damaged: every nth, where n is as for OneIn, and those around each line end.
func Offsets(data []byte, short, plain int) (places []int) {
	n := OneIn(short, plain)
	for i := range data {
		if i%n == 0 || data[i] == '\n' || i > 0 && data[i-1] == '\n' || i+1 < len(data) && data[i+1] == '\n' {
			places = append(places, i)
		}
	}
	return places
}

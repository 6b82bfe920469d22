package simulate

import (
	"errors"
	"fmt"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// errStuck is the error of inVirtualTime when everything waits, and nothing is due that could end it.
var errStuck = errors.New("simulation deadlock: every running item is waiting, and no timer is pending")

// inVirtualTime calls f in time that does not pass by itself: it stands still while anything works, and moves
// on to the next timer once all goroutines wait. It is start when f is called. The error is that of f.
// inVirtualTime returns when f and all goroutines that it has started have ended. A panic of f is an error;
// one of another goroutine ends the program, as everywhere.
//
// Time passes only while every goroutine of f waits for another of them or for time. What waits for a channel
// that was made before inVirtualTime, for a file, or for a mutex, holds it up.
//
// It is the bubble of testing/synctest, in a program that is no test. No other clock moves all timers of a
// program, those of the standard library among them, without each of their uses knowing of it: contexts with
// time limits, tickers, and time.Now. What is run is the code of real jobs, which uses them in dozens of
// places, and is not to be another code when it is simulated.
//
// The package testing/synctest promises nothing about its use outside of tests. It is used here by its
// exported function, with a testing.T that nothing is asked of. The tests hold what is relied on, and so a
// new version of Go that changes it is noticed.
func inVirtualTime(start time.Time, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil { // synctest found a deadlock
			err = errors.Join(err, fmt.Errorf("%w: %v", errStuck, p))
		}
	}()
	synctest.Test(new(testing.T), func(*testing.T) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		time.Sleep(time.Until(start)) // a bubble begins at the year 2000
		err = f()
	})
	return err
}

//go:build !unix

package jobs

import "os"

// Own reports whether the job is there: who may read its files is left to the system.
func (j Job) Own() bool {
	_, err := os.Stat(j.StateDir())
	return err == nil
}

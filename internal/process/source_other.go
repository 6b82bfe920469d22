//go:build !linux

package process

import (
	"fmt"
	"os"
)

// OpenSource opens nothing here: this system does not show whether a path leads to a descriptor of the process
// that opens it.
func OpenSource(path string, _ int) (*os.File, error) {
	return nil, fmt.Errorf("open %s: %w", path, errIrregular)
}

//go:build !linux

package process

import (
	"fmt"
	"os"
)

// OpenSource opens nothing here: this system does not tell a file from a way to a descriptor of the process that opens it.
func OpenSource(path string, _ int) (*os.File, error) {
	return nil, fmt.Errorf("open %s: %w", path, errIrregular)
}

//go:build !linux

package pressure

import "errors"

// Supported reports whether MachineNow can measure anything here.
const Supported = false

// MachineNow measures nothing: it is made for Linux.
func MachineNow(...string) (Machine, error) { return Machine{}, errors.ErrUnsupported }

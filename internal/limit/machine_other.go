//go:build !linux

package limit

import "errors"

// CanMeasure reports whether MachineNow can measure anything here.
const CanMeasure = false

// MachineNow measures nothing: it is made for Linux.
func MachineNow(...string) (Machine, error) { return Machine{}, errors.ErrUnsupported }

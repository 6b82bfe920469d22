package limit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Guards are what the machine must have left for something to start. The zero Guards is nothing.
type Guards struct {
	// maximum load per CPU, averaged over a minute, such as 0.9
	Load float64 `yaml:"load" above:"0"`

	// minimum available memory, such as `10%` or `2GB`; in a container, of its limit
	MinFreeMemory *Amount `yaml:"min_free_memory"`

	// minimum free space on the disks of the working directory and of the job's log, such as `5GB` or `5%`
	MinFreeDisk *Amount `yaml:"min_free_disk"`
}

// Any reports whether there is one.
func (g Guards) Any() bool { return g.Load > 0 || g.MinFreeMemory != nil || g.MinFreeDisk != nil }

// Amount is a number of bytes, or a share of all there are.
type Amount struct {
	Bytes uint64
	Share float64 // from 0 to 1. Without a share, Bytes counts
}

// ReadText reads an amount such as 10%, 5GB or 512MiB.
func (a *Amount) ReadText(text string) error {
	wrong := fmt.Errorf("invalid amount %q: use a percentage or a size, such as 10%%, 5GB or 512MiB", text)
	digits := len(text) - len(strings.TrimLeft(text, "0123456789."))
	n, err := strconv.ParseFloat(text[:digits], 64)
	if err != nil {
		return wrong
	}
	unit := strings.TrimSpace(text[digits:])
	if unit == "%" {
		if n <= 0 || n >= 100 {
			return fmt.Errorf("invalid percentage %q: must be more than 0%% and less than 100%%", text)
		}
		*a = Amount{Share: n / 100}
		return nil
	}
	sizes := map[string]float64{
		"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20,
		"GiB": 1 << 30, "TiB": 1 << 40,
	}
	size, ok := sizes[unit]
	if !ok || n <= 0 || n*size > math.MaxInt64 {
		return wrong
	}
	*a = Amount{Bytes: uint64(n * size)}
	return nil
}

// of returns the bytes that the amount is of a total.
func (a Amount) of(total uint64) uint64 {
	if a.Share > 0 {
		return uint64(a.Share * float64(total))
	}
	return a.Bytes
}

// Machine is what a machine has left. What is not known is zero, and its total too.
type Machine struct {
	Load                    float64 // of the last minute
	CPUs                    int
	MemoryFree, MemoryTotal uint64
	DiskFree, DiskTotal     uint64
}

// eased is how much more there must be before a guard that is closed opens again, so that it does not flutter.
const eased = 0.05

// Closed returns why nothing may start, or "". A guard that was closed opens only when there is some more
// than it wants.
func (g Guards) Closed(m Machine, was bool) string {
	more := 1.0
	if was {
		more += eased
	}
	if each := m.Load / float64(max(m.CPUs, 1)); g.Load > 0 && each*more > g.Load {
		return fmt.Sprintf("the load per CPU is %.2f, the limit is %g", each, g.Load)
	}
	short := func(want *Amount, free, total uint64) bool {
		return want != nil && total > 0 && float64(free) < more*float64(want.of(total))
	}
	switch {
	case short(g.MinFreeMemory, m.MemoryFree, m.MemoryTotal):
		return fmt.Sprintf("available memory is %s, min_free_memory is %s", bytesText(m.MemoryFree),
			bytesText(g.MinFreeMemory.of(m.MemoryTotal)))
	case short(g.MinFreeDisk, m.DiskFree, m.DiskTotal):
		return fmt.Sprintf("free disk space is %s, min_free_disk is %s", bytesText(m.DiskFree),
			bytesText(g.MinFreeDisk.of(m.DiskTotal)))
	}
	return ""
}

func bytesText(bytes uint64) string {
	switch {
	case bytes >= 1e9:
		return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
	case bytes >= 1e6:
		return fmt.Sprintf("%.0f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.0f kB", float64(bytes)/1e3)
}

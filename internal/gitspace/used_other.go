//go:build !linux

package gitspace

func usedElsewhere(string) bool { return false }

//go:build !linux

package process

func startChild(c Command) (child, error) { return startPiped(c) }

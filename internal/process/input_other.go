//go:build !linux

package process

func openInput() (input, error) { return temporaryInput() }

//go:build !linux

package job

import "net"

// checkPeer leaves it to the rights of the socket and its directory.
func checkPeer(*net.UnixConn) error { return nil }

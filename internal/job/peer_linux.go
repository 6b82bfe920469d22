package job

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// checkPeer refuses a caller that is another user. The rights of the socket and its directory refuse it too,
// unless somebody has changed them.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	return allowed(int(peer.Uid), os.Geteuid())
}

// allowed returns an error for a user that may not steer the jobs of another.
func allowed(peer, own int) error {
	if peer != own && peer != 0 {
		return errors.New("the job belongs to another user")
	}
	return nil
}

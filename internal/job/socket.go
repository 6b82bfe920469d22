package job

import (
	"net"
	"os"
	"path/filepath"
)

// maxPath is how long the path of a socket may be on every system: 104 bytes on macOS, 108 on Linux, with a NUL.
const maxPath = 103

// short calls do with a path of the same socket that is short enough.
func short(path string, do func(path string) error) error {
	if len(path) <= maxPath {
		return do(path)
	}
	temp, err := os.MkdirTemp("", "pg")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	link := filepath.Join(temp, "d")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		return err
	}
	return do(filepath.Join(link, filepath.Base(path)))
}

func listen(path string) (l *net.UnixListener, err error) {
	err = short(path, func(path string) error {
		if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err == nil {
			l.SetUnlinkOnClose(false) // that path may not be there any more
		}
		return err
	})
	return l, err
}

func dial(path string) (c *net.UnixConn, err error) {
	err = short(path, func(path string) error {
		c, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	return c, err
}

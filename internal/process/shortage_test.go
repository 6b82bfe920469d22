package process

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"
)

func TestAShortageIsAnErrorAndNoExit(t *testing.T) {
	for _, shortage := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		exit, err := run(t.Context(), Command{Argv: []string{"true"}}, func(c Command) (child, error) { return nil, startError(c, shortage) })
		if !errors.Is(err, shortage) || !Short(err) || Shortage(err) == "" || exit.Start != nil {
			t.Errorf("%v: got %+v %v, want the error", shortage, exit, err)
		}
	}
	for _, other := range []error{syscall.ENOENT, syscall.EACCES, syscall.E2BIG, syscall.EIO, syscall.ENOTDIR, fs.ErrInvalid} {
		exit, err := run(t.Context(), Command{Argv: []string{"true"}}, func(c Command) (child, error) { return nil, startError(c, other) })
		if err != nil || Short(exit.Start) || exit.Start == nil {
			t.Errorf("%v: got %+v %v, want an exit that says so", other, exit, err)
		}
	}
}

func TestCapacityIsBoundByTheLowestLimit(t *testing.T) {
	for _, test := range []struct {
		limits
		most, fits int
	}{
		{limits{}, MaxCommands, MaxCommands},
		{limits{files: 1 << 20}, MaxCommands, MaxCommands},
		{limits{files: 1024}, 1024, 330},
		{limits{files: 64}, 64, 10},
		{limits{files: 20}, 20, 1},
		{limits{files: 1024, processes: 60}, 60, 9},
		{limits{files: 1024, processes: 25}, 25, 1},
		{limits{files: 64, processes: 96_000}, 64, 10},
	} {
		c := capacityOf(test.limits)
		if c.Most != test.most || c.Fits != test.fits || c.Limit == "" {
			t.Errorf("%+v: got %+v, want at most %d, of which %d fit", test.limits, c, test.most, test.fits)
		}
	}
}

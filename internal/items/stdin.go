package items

import (
	"context"
	"errors"
	"io"
)

var errNoStdin = errors.New("there is no standard input to read")

// eachOfStdin reads the standard input of prodigy, as it comes.
func (s source) eachOfStdin(ctx context.Context, e Env, p path, take func([]byte) error) error {
	if e.Stdin == nil {
		return errNoStdin
	}
	in, done, err := interruptible(ctx, e.Stdin)
	if err != nil {
		return trouble(Stdin, err)
	}
	defer done()
	f := &feed{r: in}
	err = f.read(s.format, p, take)
	switch {
	case errors.Is(err, errEnough):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case f.err != nil && f.err != io.EOF:
		return trouble(Stdin, f.err)
	}
	return inPlace(err, Stdin, nil)
}

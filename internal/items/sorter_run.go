package items

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// runReader stands at a record of a run.
type runReader struct {
	number    int
	in        *bufio.Reader
	key, data []byte
}

// next goes to the next record. The error is io.EOF behind the last one.
func (r *runReader) next() error {
	key, err := binary.ReadUvarint(r.in)
	if err == io.EOF {
		return err
	}
	data, dataErr := binary.ReadUvarint(r.in)
	if err = errors.Join(err, dataErr); err == nil {
		r.key, err = fill(r.in, r.key, int(key))
	}
	if err == nil {
		r.data, err = fill(r.in, r.data, int(data))
	}
	if err != nil {
		return fmt.Errorf("read the sorted items: %w", err)
	}
	return nil
}

// fill reads n bytes into b, which grows as is needed.
func fill(in io.Reader, b []byte, n int) ([]byte, error) {
	if cap(b) < n {
		b = make([]byte, n, n+n/2)
	}
	b = b[:n]
	_, err := io.ReadFull(in, b)
	return b, err
}

// runHeap has the run with the least record first; of equal ones that which was written first.
type runHeap []*runReader

func (h runHeap) less(i, j int) bool {
	if c := bytes.Compare(h[i].key, h[j].key); c != 0 {
		return c < 0
	}
	return h[i].number < h[j].number
}

// put adds a run, at its first record.
func (h *runHeap) put(r *runReader) error {
	if err := r.next(); err != nil {
		return err
	}
	*h = append(*h, r)
	for i := len(*h) - 1; i > 0 && h.less(i, (i-1)/2); i = (i - 1) / 2 {
		(*h)[i], (*h)[(i-1)/2] = (*h)[(i-1)/2], (*h)[i]
	}
	return nil
}

// step goes past the least record.
func (h *runHeap) step() error {
	switch err := (*h)[0].next(); {
	case err == io.EOF:
		last := len(*h) - 1
		(*h)[0] = (*h)[last]
		*h = (*h)[:last]
	case err != nil:
		return err
	}
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(*h); child++ {
			if h.less(child, least) {
				least = child
			}
		}
		if least == i {
			return nil
		}
		(*h)[i], (*h)[least] = (*h)[least], (*h)[i]
		i = least
	}
}

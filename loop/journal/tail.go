package journal

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/superloop/superloop/internal/durable"
)

// Tail gives the last n events of path, oldest first; it reads the file's end
// only. Half a last line is left out. What Read says of its checks holds here.
func Tail(path string, n int) ([]Event, error) {
	f, err := durable.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a journal: %w", err)
	}
	defer f.Close()
	if n <= 0 {
		return nil, nil
	}
	piece, at, err := lastLines(f, n)
	if err == errTooLong {
		return nil, &CorruptError{Path: path, Offset: at, Why: err.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("reading a journal: %w", err)
	}
	var (
		events []Event
		c      = chain{any: at > 0}
		d      decoder
		h      header
	)
	for len(piece) > 0 {
		i := bytes.IndexByte(piece, '\n')
		h.seq = 0
		why := h.parse(piece[:i])
		if why == "" {
			why = c.follow(&h)
		}
		if why != "" {
			return events, &CorruptError{Path: path, Line: c.line(), Offset: at, Seq: h.seq, Why: why}
		}
		events = append(events, d.event(&h))
		piece = piece[i+1:]
		at += int64(i) + 1
	}
	return events, nil
}

// lastLines gives the last n whole lines of f, or all if it has fewer, and where
// they begin.
func lastLines(f *os.File, n int) (piece []byte, at int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	size := info.Size()
	for window := int64(16 << 10); ; window *= 2 {
		at = max(size-window, 0)
		piece = make([]byte, size-at)
		got, err := f.ReadAt(piece, at)
		if err != nil && err != io.EOF {
			return nil, 0, err
		}
		piece = piece[:got]
		piece = piece[:bytes.LastIndexByte(piece, '\n')+1]
		// n lines are whole if the newline before the first of them is here too.
		begin, whole := len(piece), 0
		for whole < n && begin > 0 {
			i := bytes.LastIndexByte(piece[:begin-1], '\n')
			if i < 0 && at > 0 {
				break
			}
			begin = i + 1
			whole++
		}
		if whole == n || at == 0 {
			return piece[begin:], at + int64(begin), nil
		}
		if begin > MaxLine+1 || len(piece) == 0 && got > MaxLine+1 {
			return nil, at, errTooLong
		}
	}
}

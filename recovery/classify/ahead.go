package classify

import (
	"context"
	"io"
	"os"

	"github.com/superloop/superloop/internal/multiscan"
)

// placeable is an input that can be read at any place, by several at once: a
// file, a part of one, or a text in memory.
type placeable interface {
	io.ReaderAt
	io.Seeker
}

// extent gives the part of an input that is still to be read. It is not ok
// where only reading on can tell what comes.
func extent(r io.Reader) (in placeable, from, to int64, ok bool) {
	switch v := r.(type) {
	case *os.File:
		info, err := v.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return nil, 0, 0, false
		}
		in, to = v, info.Size()
	case interface {
		placeable
		Size() int64
	}:
		in, to = v, v.Size()
	default:
		return nil, 0, 0, false
	}
	from, err := in.Seek(0, io.SeekCurrent)
	return in, from, to, err == nil
}

// ahead reads the whole blocks of a large input that can be read at any place, on
// all cores. What is found is what reading it block by block finds. The input then stands
// behind them; how many bytes of buf are before the next block is returned. Where
// that input ends, or cannot be read, is left to who reads on.
func (rd *reading) ahead(ctx context.Context, sc *multiscan.Scanner, r io.Reader, buf []byte) int {
	if multiscan.Workers() < 2 {
		return 0
	}
	in, from, to, ok := extent(r)
	if !ok || to-from < aheadLeast*blockSize {
		return 0
	}
	a := rd.p.set.NewAhead(in, from, to, multiscan.AheadOptions{Block: blockSize, Back: backSize})
	defer a.Close()
	for b := a.Next(ctx); b != nil; b = a.Next(ctx) {
		rd.window = b.Window
		rd.base = rd.out.bytes - int64(b.Back)
		rd.out.bytes += int64(len(b.Window) - b.Back)
		sc.WriteBlock(b)
		rd.place(false)
	}
	if _, err := in.Seek(from+rd.out.bytes, io.SeekStart); err != nil {
		rd.out.broken = true
	}
	// The last block's memory is given back, and place may look at it once more.
	rd.window = append(buf[:0], rd.window...)
	return rd.keep(buf)
}

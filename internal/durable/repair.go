package durable

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
)

// Repair says what was cut off the end of a file, and where it is kept.
type Repair struct {
	Cut    int64  // the number of bytes; 0: there was nothing to repair
	Broken string // the file that holds them now; "" if nothing was cut
}

// maxAsides bounds the search for a free name beside a file that keeps tearing at the same place.
const maxAsides = 1000

// CutTail cuts path at offset, after what is behind it was copied aside and the copy flushed. Killed at any point it
// leaves the tail in one of the two places or in both. Steps: those of CopyAside, then open, truncate, sync.
func (d Disk) CutTail(op, path string, offset int64) (Repair, error) {
	broken, err := d.CopyAside(op, path, offset)
	if err != nil {
		return Repair{}, err
	}
	f, err := d.open(op, "open", path, os.O_WRONLY, 0)
	if err != nil {
		return Repair{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	err = fail(op, "open", path, err)
	if err == nil {
		err = d.do(op, "truncate", path, func() error { return f.Truncate(offset) })
	}
	if err == nil {
		err = d.do(op, "sync", path, f.Sync)
	}
	if err != nil {
		return Repair{}, err
	}
	return Repair{Cut: info.Size() - offset, Broken: broken}, nil
}

// CopyAside copies what path holds from offset on (0: all of it) to "<path>.broken-<offset>" and flushes the copy and
// its directory. path itself is not touched. A copy that is there already with the same bytes is the copy; one with
// other bytes is evidence of another crash and is left alone: the new one gets ".2", ".3" and so on at the end of its
// name. Steps: read, aside, aside-write (each 256 KiB), aside-sync, dirsync.
func (d Disk) CopyAside(op, path string, offset int64) (string, error) {
	src, err := d.open(op, "read", path, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer src.Close()
	name := path + ".broken-" + strconv.FormatInt(offset, 10)
	for i, base := 2, name; i <= maxAsides+1; i++ {
		dst, err := d.open(op, "aside", name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		same := true
		if err == nil {
			if err = d.copyTail(op, dst, src, offset); err != nil {
				_ = os.Remove(name)
			}
		} else if errors.Is(err, fs.ErrExist) {
			if dst, err = d.open(op, "aside", name, os.O_RDONLY, 0); err == nil {
				same, err = sameBytes(tail(src, offset), dst)
				err = fail(op, "aside", name, err)
			}
		}
		if err == nil && same { // who made it may have been killed before the flush
			err = d.do(op, "aside-sync", name, dst.Sync)
		}
		dst.Close()
		if err != nil {
			return "", err
		}
		if same {
			return name, d.syncDir(op, name)
		}
		name = base + "." + strconv.Itoa(i)
	}
	return "", fail(op, "aside", path, errors.New("there are too many broken copies beside it; look at them and remove them"))
}

func tail(f *os.File, offset int64) io.Reader {
	return io.NewSectionReader(f, offset, math.MaxInt64-offset)
}

func (d Disk) copyTail(op string, dst, src *os.File, offset int64) error {
	from, buf := tail(src, offset), make([]byte, 256<<10)
	for {
		n, err := io.ReadFull(from, buf)
		if n > 0 {
			if _, err := d.write(dst.Write, op, "aside-write", dst.Name(), buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return fail(op, "read", src.Name(), err)
		}
	}
}

// sameBytes compares what is left in the two, in constant memory.
func sameBytes(a, b io.Reader) (bool, error) {
	x, y := sha256.New(), sha256.New()
	_, errA := io.Copy(x, a)
	_, errB := io.Copy(y, b)
	return string(x.Sum(nil)) == string(y.Sum(nil)), errors.Join(errA, errB)
}

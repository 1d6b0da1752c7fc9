package durable

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
)

// Repair says what was cut off the end of a file, and where it is kept.
type Repair struct {
	// Cut is the number of bytes; 0: there was nothing to repair.
	Cut int64
	// Broken is the file that holds them now; "" if nothing was cut.
	Broken string
}

// maxAsides bounds the search for a free name beside a file that keeps tearing
// at the same place.
const maxAsides = 1000

// RepairTail makes path end with a newline (or be empty): a torn last line, what
// a crash in the middle of an append leaves, is copied to "<path>.broken-<n>"
// (n: the offset it began at), the copy is flushed, and only then is it cut off
// and the cut flushed. It never touches anything else: whole lines are the
// caller's to judge. A file that is not there needs no repair.
//
// Steps: read, and for a torn line those of CutTail.
func (d Disk) RepairTail(op, path string) (Repair, error) {
	f, err := d.open(op, "read", path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Repair{}, nil
	}
	if err != nil {
		return Repair{}, err
	}
	size, keep, err := lastLineEnd(f)
	f.Close()
	if err != nil {
		return Repair{}, fail(op, "read", path, err)
	}
	if keep == size {
		return Repair{}, nil
	}
	return d.CutTail(op, path, keep)
}

// CutTail cuts path at offset, after what is behind it was copied aside and the
// copy flushed. Killed at any point it leaves the tail in one of the two places
// or in both.
//
// Steps: those of CopyAside, then open, truncate, sync.
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
	if err != nil {
		return Repair{}, fail(op, "open", path, err)
	}
	if err := d.check(op, "truncate", path); err != nil {
		return Repair{}, err
	}
	if err := f.Truncate(offset); err != nil {
		return Repair{}, fail(op, "truncate", path, err)
	}
	if err := d.sync(f, op, "sync"); err != nil {
		return Repair{}, err
	}
	return Repair{Cut: info.Size() - offset, Broken: broken}, nil
}

// CopyAside copies what path holds from offset on (0: all of it) to
// "<path>.broken-<offset>" and flushes the copy and its directory. path itself
// is not touched. A copy that is there already with the same bytes is the copy;
// one with other bytes is evidence of another crash and is left alone: the new
// one gets ".2", ".3" and so on at the end of its name.
//
// Steps: read, aside, aside-write (each 256 KiB), aside-sync, dirsync.
func (d Disk) CopyAside(op, path string, offset int64) (string, error) {
	src, err := d.open(op, "read", path, os.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer src.Close()
	for i := 1; i <= maxAsides; i++ {
		name := path + ".broken-" + strconv.FormatInt(offset, 10)
		if i > 1 {
			name += "." + strconv.Itoa(i)
		}
		dst, err := d.open(op, "aside", name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			same, err := sameTail(src, offset, name)
			if err != nil {
				return "", fail(op, "aside", name, err)
			}
			if !same {
				continue
			}
			// The copier may have been killed before its flush.
			if dst, err = d.open(op, "aside", name, os.O_RDWR, 0); err != nil {
				return "", err
			}
		} else if err != nil {
			return "", err
		} else if err := d.copyTail(op, dst, src, offset); err != nil {
			_ = dst.Close()
			_ = os.Remove(name)
			return "", err
		}
		err = d.sync(dst, op, "aside-sync")
		dst.Close()
		if err != nil {
			return "", err
		}
		return name, d.syncDir(op, name)
	}
	return "", fail(op, "aside", path, errors.New("there are too many broken copies beside it; look at them and remove them"))
}

func (d Disk) copyTail(op string, dst, src *os.File, offset int64) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := src.ReadAt(buf, offset)
		if n > 0 {
			if _, err := d.write(dst, op, "aside-write", buf[:n]); err != nil {
				return err
			}
			offset += int64(n)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fail(op, "read", src.Name(), err)
		}
	}
}

func sameTail(src *os.File, offset int64, path string) (bool, error) {
	other, err := openRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer other.Close()
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := int64(0); ; {
		n, errA := src.ReadAt(a, offset+at)
		m, errB := other.ReadAt(b, at)
		if errA != nil && errA != io.EOF {
			return false, errA
		}
		if errB != nil && errB != io.EOF {
			return false, errB
		}
		if !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		if errA == io.EOF {
			return true, nil
		}
		at += int64(n)
	}
}

// lastLineEnd gives the size of f and the offset behind its last newline.
func lastLineEnd(f *os.File) (size, end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	size = info.Size()
	buf := make([]byte, 64<<10)
	for pos := size; pos > 0; {
		n := min(int64(len(buf)), pos)
		if size == pos {
			n = min(n, 4096) // nearly always the very last byte is the newline
		}
		pos -= n
		if _, err := f.ReadAt(buf[:n], pos); err != nil {
			return 0, 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return size, pos + int64(i) + 1, nil
		}
	}
	return size, 0, nil
}

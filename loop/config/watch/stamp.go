package watch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/schemas"
)

// racy is how old a change must be before the file's times can tell that there
// was no other: the system's clock for them moves in steps of up to 10 ms.
const racy = 100 * time.Millisecond

// stamp is the identity of a file's content as far as the file system tells it;
// the zero value is that of no file.
type stamp struct {
	dev, ino, size uint64
	mtime, ctime   unix.Timespec
	// fresh: the last change was so near to the look that a later one may have
	// the same times.
	fresh bool
}

// stampOf looks at the file that path leads to.
func stampOf(path string) stamp {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return stamp{}
	}
	return stampFrom(&st)
}

func stampFrom(st *unix.Stat_t) stamp {
	return stamp{dev: uint64(st.Dev), ino: st.Ino, size: uint64(st.Size), mtime: st.Mtim, ctime: st.Ctim,
		fresh: time.Since(time.Unix(st.Ctim.Unix())) < racy}
}

// proves reports whether a later look with the stamp now proves that the content
// is still the one that was read when s was taken.
func (s stamp) proves(now stamp) bool {
	now.fresh = false
	return !s.fresh && s.ino != 0 && s == now
}

// read gives the file's bytes, and the stamp that it had before they were read.
// A pipe or a device is an error and does not make the reader wait. At most one
// byte more than a configuration may have is read. The stamp is zero next to an error.
func read(path string) ([]byte, stamp, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, stamp{}, fmt.Errorf("looking at %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, stamp{}, errors.New("it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(schemas.Config.Limit())+1))
	if err != nil {
		return nil, stamp{}, err
	}
	return data, stampFrom(&st), nil
}

// whole reports whether the bytes can be all that somebody meant to write: no
// beginning of a configuration is valid JSON. What is too large is for the
// reader to refuse.
func whole(data []byte) bool { return len(data) > schemas.Config.Limit() || json.Valid(data) }

// fingerprint is the SHA-256 of a file's bytes, as config.Config.Digest, or why
// there are none.
func fingerprint(data []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}

package journal

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
)

// sealBeyond is the usual value of Options.SealBeyond.
const sealBeyond = 64 << 20

// Seal makes a segment of the active file if that has Options.SealBeyond bytes or more, and begins an empty one. The
// caller calls it where no program runs that must not reach a new file. All events are on the disk before and after.
//
// Seal keeps every Append waiting: for 64 MiB it needs about 0.6 s of processor time, and flushes some 10 MiB. If it
// fails, nothing has changed, and the next Seal tries again. There is one exception, after which every Append fails
// with the same error: it is not known which file is in place. The caller then has to open the journal again.
//
// If the process or the power dies, the active file is the old one or an empty one. The segment is on the disk before
// the file is replaced. As long as the old file is there, it counts, and Open removes the segment.
func (j *Journal) Seal() error {
	j.flush.Lock()
	defer j.flush.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.app == nil:
		return j.closed()
	case j.app.Size() < cmp.Or(j.o.SealBeyond, sealBeyond) || j.last.seq == j.base.seq:
		return nil
	}
	if err := j.sync(j.app, j.last); err != nil {
		return err
	}
	next, err := j.writeSegment()
	if err != nil {
		return j.unsealed(err)
	}
	size := j.app.Size()
	failed := j.disk.WriteFile("swap", j.path, nil, 0o600)
	// Opening says which of the two files is in place, and flushes the directory of an empty one.
	_ = j.app.Close() // all of it is on the disk
	if j.app, j.lost = j.disk.OpenAppend("events", j.path, 0o600); j.lost != nil {
		j.app = nil
		return j.lost
	}
	if failed != nil && j.app.Size() == size {
		return j.unsealed(failed)
	}
	j.base, j.seal = j.last, next
	j.keep()
	return nil
}

// unsealed removes the segment of a sealing that failed with err, if there is one: the active file is the old one.
func (j *Journal) unsealed(err error) error {
	if rerr := j.disk.Remove("seal", segmentPath(j.path, j.seal.Segments+1)); !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return fmt.Errorf("sealing a journal: %w", err)
}

// closed is the error for a journal without an open file.
func (j *Journal) closed() error {
	if j.lost != nil {
		return j.lost
	}
	return fmt.Errorf("appending to %s: %w", j.path, fs.ErrClosed)
}

// writeSegment writes the lines of the active file to a new segment.
func (j *Journal) writeSegment() (known, error) {
	if err := j.disk.MkdirAll("seal", Segments(j.path), 0o700); err != nil {
		return known{}, err
	}
	f, _, err := door.Open(j.path)
	if err != nil {
		return known{}, err
	}
	defer f.Close()
	sum := sha256.New()
	to := segmentPath(j.path, j.seal.Segments+1)
	err = j.disk.WriteFileBy("seal", to, 0o600, func(w io.Writer) error {
		l := newLines(j.path, f, j.base, scanBuffer)
		return writeSegment(io.MultiWriter(w, sum), l, j.last, cmp.Or(j.o.block, blockSize))
	})
	return j.seal.and(sum), err
}

// tidy removes what a sealing left that was interrupted: unfinished files, and a segment of lines that the active file
// has, too.
func (j *Journal) tidy(copied bool) error {
	if copied {
		if err := j.disk.Remove("seal", segmentPath(j.path, j.seal.Segments+1)); err != nil {
			return err
		}
	}
	if _, err := j.disk.RemoveTemps("seal", Segments(j.path)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// known says that the first Segments segments of a journal were checked, by a digest of their files. It lies beside the
// head. It only saves time.
type known struct {
	Version  int    `json:"version"`
	Segments int    `json:"segments"`
	Digest   string `json:"digest"` // of the digest before and the SHA-256 of the last segment's file; "" for none
}

const knownVersion = 1

func knownPath(head string) string { return head + ".sealed" }

// readKnown reads what lies beside a head. If that cannot be read, it knows nothing.
func readKnown(head string) (k known) {
	if head == "" {
		return k
	}
	data, err := door.Read(knownPath(head), door.MaxParsed)
	if err != nil || text.Decode(data, &k) != nil || k.Version != knownVersion {
		return known{}
	}
	return k
}

// and returns what is known with one more segment, whose file has that sum.
func (k known) and(file hash.Hash) known {
	sum := sha256.Sum256(file.Sum([]byte(k.Digest)))
	return known{Version: knownVersion, Segments: k.Segments + 1, Digest: hex.EncodeToString(sum[:])}
}

// fits reports whether the segments are those that are known.
func (k known) fits(l *files) bool {
	if k.Segments < 1 || k.Segments > len(l.sealed) {
		return false
	}
	got, err := digest(l.sealed[:k.Segments])
	return err == nil && got == k
}

// digest computes what is to be known of segments.
func digest(sealed []*segment) (k known, err error) {
	for _, s := range sealed {
		sum := sha256.New()
		err := s.with(func(f *os.File, _ int64) error {
			_, err := io.Copy(sum, f)
			return err
		})
		if err != nil {
			return known{}, err
		}
		k = k.and(sum)
	}
	return k, nil
}

// know notes that all segments were checked.
func (j *Journal) know(l *files) (err error) {
	if j.seal.Segments == len(l.sealed) {
		return nil
	}
	if j.seal, err = digest(l.sealed); err == nil {
		j.keep()
	}
	return err
}

// keep writes what is known. A failure costs the next Open time.
func (j *Journal) keep() {
	if j.o.Head == "" {
		return
	}
	if data, err := json.Marshal(j.seal); err == nil {
		_ = j.disk.WriteProjection("sealed", knownPath(j.o.Head), data, 0o600)
	}
}

package worktree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
)

// Format of a snapshot file. Numbers are unsigned varints. The file consists of the line "superloop snapshot 1", the
// number of entries, the entries, the number of stamps, the stamps, and the SHA-256 of everything before it. An entry
// consists of the length of the prefix that its path shares with the path before, the length of the rest of the path,
// the rest, the mode, and an id of 20 bytes (32 bytes if the mode has the mark "wide"). A stamp consists of its path,
// in the form of the paths of entries, its size and its time.
const (
	snapHead = "superloop snapshot 1\n"
	wide     = 1 << 31

	maxSnapshot = 256 << 20 // bytes of a snapshot file
)

var errDamaged = errors.New("the snapshot file is damaged")

// Save writes the snapshot to a file. The file survives a kill. Load refuses a file that a power cut has damaged.
func (s Snapshot) Save(disk durable.Disk, file string) error {
	if err := disk.WriteProjection("snapshot", file, s.encode(), 0o600); err != nil {
		return fmt.Errorf("saving the snapshot of the tree: %w", err)
	}
	return nil
}

// Load reads a snapshot that Save wrote. For a missing file the error is fs.ErrNotExist. For a damaged file Load
// returns an error and no snapshot.
func Load(file string) (s Snapshot, err error) {
	data, err := door.Read(file, maxSnapshot)
	if err == nil {
		s, err = decodeSnapshot(data)
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("reading the snapshot of the tree from %s: %w", file, err)
	}
	return s, nil
}

func (s Snapshot) encode() []byte {
	out := make([]byte, 0, len(snapHead)+len(s.entries)*48+sha256.Size)
	out = append(out, snapHead...)
	out = binary.AppendUvarint(out, uint64(len(s.entries)))
	last := ""
	for i := range s.entries {
		e := &s.entries[i]
		out = appendPath(out, &last, e.path)
		mode, id := e.mode, e.sum[:20]
		if !bytes.Equal(e.sum[20:], make([]byte, 12)) {
			mode, id = mode|wide, e.sum[:]
		}
		out = binary.AppendUvarint(out, uint64(mode))
		out = append(out, id...)
	}
	out = binary.AppendUvarint(out, uint64(len(s.dirty)))
	last = ""
	for _, st := range s.dirty {
		out = appendPath(out, &last, st.path)
		out = binary.AppendUvarint(out, uint64(st.size))
		out = binary.AppendUvarint(out, uint64(st.mtime))
	}
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}

func appendPath(out []byte, last *string, p string) []byte {
	n := 0
	for n < len(p) && n < len(*last) && p[n] == (*last)[n] {
		n++
	}
	*last = p
	out = binary.AppendUvarint(out, uint64(n))
	out = binary.AppendUvarint(out, uint64(len(p)-n))
	return append(out, p[n:]...)
}

// snapReader decodes an encoded snapshot. After the first failure it returns zeroes.
type snapReader struct {
	b   []byte
	bad bool
}

func (r *snapReader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *snapReader) bytes(n uint64) (p []byte) {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	p, r.b = r.b[:n], r.b[n:]
	return p
}

// path reads a path. last points to the path before, and path replaces it by the new one.
func (r *snapReader) path(last *string) string {
	shared, rest := r.number(), r.bytes(r.number())
	if shared > uint64(len(*last)) {
		r.bad, shared = true, 0
	}
	*last = (*last)[:shared] + string(rest)
	return *last
}

// count reads the number of items of at least size bytes each. A number that the remaining bytes cannot hold is a
// failure.
func (r *snapReader) count(size uint64) int {
	n := r.number()
	if n > uint64(len(r.b))/size {
		r.bad, n = true, 0
	}
	return int(n)
}

func decodeSnapshot(data []byte) (Snapshot, error) {
	body := len(data) - sha256.Size
	if body < len(snapHead) {
		return Snapshot{}, errDamaged
	}
	if sum := sha256.Sum256(data[:body]); !bytes.Equal(sum[:], data[body:]) {
		return Snapshot{}, errDamaged
	}
	rest, known := bytes.CutPrefix(data[:body], []byte(snapHead))
	if !known {
		return Snapshot{}, errors.New("it was written by another version")
	}
	var s Snapshot
	r := snapReader{b: rest}
	s.entries = make([]entry, r.count(23))
	last := ""
	for i := range s.entries {
		e := &s.entries[i]
		e.path = r.path(&last)
		mode, size := uint32(r.number()), uint64(20)
		if mode&wide != 0 {
			size = 32
		}
		e.mode = mode &^ wide
		copy(e.sum[:], r.bytes(size))
	}
	s.dirty = make([]stamp, r.count(4))
	last = ""
	for i := range s.dirty {
		s.dirty[i] = stamp{r.path(&last), int64(r.number()), int64(r.number())}
	}
	if r.bad || len(r.b) > 0 {
		return Snapshot{}, errDamaged
	}
	return s, nil
}

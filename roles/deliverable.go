package roles

import (
	"bytes"
	"crypto/sha256"
	"io"
	"path/filepath"
	"syscall"
)

// Status says what a role left behind as its report.
type Status string

// The statuses of a report. The values stand in events and prompts.
const (
	Fresh   Status = "fresh"   // written during the run
	Stale   Status = "stale"   // there, but from an earlier turn
	Missing Status = "missing" // not there, or nothing that may be read
	Empty   Status = "empty"   // there, but nothing except white space in it
)

// maxHashed is how large a report may be, in bytes, to be hashed. Freshness of
// a larger one is told by size, time and inode alone.
const maxHashed = 16 << 20

// Stamp is what a report looked like at some time. The zero Stamp is that of a
// report that was not there, or that may not be read.
type Stamp struct {
	exists, blank bool
	size, written int64 // bytes; nanoseconds
	inode         uint64
	sum           [sha256.Size]byte // zero if there is more than maxHashed
}

// Outcome is what a role left behind.
type Outcome struct {
	File   string // the report's name inside the loop's directory
	Status Status
}

// StampOf looks at the role's report before the role runs.
func StampOf(loopDir, role string) Stamp {
	file, ok := Deliverable(role)
	if !ok {
		return Stamp{}
	}
	return stamp(filepath.Join(loopDir, file))
}

// Check looks at the role's report after the role ended, against the Stamp
// taken before it began.
//
// Fresh is a report that was written during the run: other bytes, another
// modification time, or another inode (a file written aside and renamed). The
// same bytes written anew are fresh: a planner who finds that the plan still
// stands and writes it again has done its duty, and the next prompt must not
// reproach it. (The bash original restored the old time in that case, so such a
// role looked idle; whether the loop makes progress is for the stuck gate to
// judge, by the code.) The price is that `touch` passes for writing. Time alone
// cannot be believed either: a rewrite within the file system's clock tick shows
// by its hash.
func Check(loopDir, role string, before Stamp) Outcome {
	file, _ := Deliverable(role)
	switch now := StampOf(loopDir, role); {
	case !now.exists:
		return Outcome{file, Missing}
	case now.blank:
		return Outcome{file, Empty}
	case now != before:
		return Outcome{file, Fresh}
	}
	return Outcome{file, Stale}
}

func stamp(path string) Stamp {
	f, info, err := OpenRegular(path)
	if err != nil {
		return Stamp{}
	}
	defer f.Close()
	s := Stamp{exists: true, size: info.Size(), written: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = st.Ino
	}
	if s.size > maxHashed {
		return s
	}
	sum, ink := sha256.New(), &inkMeter{}
	if s.size, err = io.Copy(io.MultiWriter(sum, ink), io.LimitReader(f, maxHashed)); err != nil {
		return Stamp{}
	}
	s.blank, s.sum = !ink.seen, [sha256.Size]byte(sum.Sum(nil))
	return s
}

// inkMeter sees whether anything but white space passes by.
type inkMeter struct{ seen bool }

func (m *inkMeter) Write(p []byte) (int, error) {
	m.seen = m.seen || len(bytes.TrimSpace(p)) > 0
	return len(p), nil
}

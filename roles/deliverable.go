package roles

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
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

// Stamp is what a report looked like before its role ran. The zero Stamp is
// that of a report that was not there.
type Stamp struct {
	Exists  bool
	Size    int64
	ModTime time.Time
	Inode   uint64
	// SHA256 in hex; "" when the file is larger than 16 MiB.
	SHA256 string
	blank  bool
	why    string
}

// Outcome is what a role left behind.
type Outcome struct {
	// File is the report's name inside the loop's directory.
	File   string
	Status Status
	// SHA256 in hex; "" when there is no file or it is larger than 16 MiB.
	SHA256 string
	Bytes  int64
	// Unchanged: written in this turn with the same bytes as before.
	Unchanged bool
	// Why says, for Missing, what stands in the way: a symbolic link, a
	// directory, an error of reading; "" when there is simply no file.
	Why string
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
// same bytes written anew are fresh, with Unchanged set: a planner who finds
// that the plan still stands and writes it again has done its duty, and the
// next prompt must not reproach it. (The bash original restored the old time
// in that case, so such a role looked idle; whether the loop makes progress is
// for the stuck gate to judge, by the code.) The price is that `touch` passes
// for writing. Time alone cannot be believed either: a rewrite within the file
// system's clock tick shows by its hash.
func Check(loopDir, role string, before Stamp) Outcome {
	file, ok := Deliverable(role)
	if !ok {
		return Outcome{Status: Missing, Why: unknownRole(role).Error()}
	}
	now := stamp(filepath.Join(loopDir, file))
	o := Outcome{File: file, SHA256: now.SHA256, Bytes: now.Size, Why: now.why}
	sameBytes := before.Exists && now.Size == before.Size && now.SHA256 == before.SHA256
	written := !sameBytes || !now.ModTime.Equal(before.ModTime) || now.Inode != before.Inode
	switch {
	case !now.Exists:
		o.Status = Missing
	case now.blank:
		o.Status = Empty
	case written:
		o.Status = Fresh
		o.Unchanged = sameBytes && now.SHA256 != ""
	default:
		o.Status = Stale
	}
	return o
}

func stamp(path string) Stamp {
	f, info, err := OpenRegular(path)
	if err != nil {
		return Stamp{why: reason(err)}
	}
	defer f.Close()
	s := Stamp{Exists: true, Size: info.Size(), ModTime: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Inode = st.Ino
	}
	if s.Size > maxHashed {
		return s
	}
	sum := sha256.New()
	ink := &inkMeter{}
	n, err := io.Copy(io.MultiWriter(sum, ink), io.LimitReader(f, maxHashed))
	if err != nil {
		return Stamp{why: reason(fmt.Errorf("reading it: %w", err))}
	}
	s.Size, s.blank = n, !ink.seen
	s.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return s
}

func reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return err.Error()
}

// inkMeter sees whether anything but white space passes by.
type inkMeter struct{ seen bool }

func (m *inkMeter) Write(p []byte) (int, error) {
	m.seen = m.seen || len(bytes.TrimSpace(p)) > 0
	return len(p), nil
}

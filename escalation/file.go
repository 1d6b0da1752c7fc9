package escalation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/superloop/superloop/internal/durable"
)

const (
	version   = 1
	keep      = 100 // how many earlier records the archive holds, so that a late answer is told what became of its question
	archiveOp = "escalation-archive"
	timeName  = "20060102T150405.000Z" // how a time is written in the name of a file
)

// file is a record on the disk, and a digest over it: what a bad disk or an editor did is not taken for an answer.
type file struct {
	Version int             `json:"version"`
	Sum     string          `json:"sum"`
	Record  json.RawMessage `json:"record"`
}

// encode writes a record, always in the same way.
func encode(r Record) ([]byte, error) {
	inner, err := marshal(r)
	if err == nil {
		inner, err = marshal(file{version, sum(inner), inner})
	}
	if err != nil {
		return nil, fmt.Errorf("writing the question down: %w", err)
	}
	return append(inner, '\n'), nil
}

// decode reads a record strictly: what is not byte for byte what encode gives is damage, or somebody else's.
func decode(data []byte) (r Record, err error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return r, fmt.Errorf("it is not whole: %w", err)
	}
	if f.Version != version {
		return r, fmt.Errorf("it is of version %d, this superloop knows version %d", f.Version, version)
	}
	if err := json.Unmarshal(f.Record, &r); err != nil {
		return Record{}, err
	}
	again, err := encode(r)
	if err == nil && !bytes.Equal(again, data) {
		err = errors.New("it is not as superloop writes it")
	}
	if err != nil {
		return Record{}, err
	}
	return r, r.check()
}

// read reads the record at path. The error is fs.ErrNotExist if there is none; any other is about what is there.
func read(path string) (Record, error) {
	f, err := durable.Open(path)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	if err := own(f, path); err != nil {
		return Record{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil && len(data) > maxRecord {
		err = fmt.Errorf("it has more than %d MiB", maxRecord>>20)
	}
	if err != nil {
		return Record{}, err
	}
	return decode(data)
}

// own wants a file that only this user can have written.
func own(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		return fmt.Errorf("its mode is %#o, not 0600", mode)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("it belongs to user %d, this is user %d; answer as the user who runs the loop", st.Uid, os.Geteuid())
		}
		if st.Nlink > 1 {
			return fmt.Errorf("it has %d names (hard links)", st.Nlink)
		}
	}
	if mode := dir.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("others can write its directory %s (mode %#o)", filepath.Dir(path), mode)
	}
	return nil
}

func (s Store) archiveDir() string { return filepath.Join(s.Dir, "archive") }

// archive keeps a record that another one takes the place of. Until that is done the present record is the truth: if
// this process dies in between, the next question archives the record again, as it is by then.
func (s Store) archive(r Record) error {
	dir := s.archiveDir()
	data, err := encode(r)
	if err == nil {
		err = s.Disk.MkdirAll(archiveOp, dir, 0o700)
	}
	if err == nil {
		_, err = s.Disk.RemoveTemps(archiveOp, dir)
	}
	if err == nil {
		name := r.Question.Created.Format(timeName) + "-" + r.Question.ID + ".json"
		err = s.Disk.WriteFile(archiveOp, filepath.Join(dir, name), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping the last question: %w", err)
	}
	names, err := s.archived()
	if err != nil {
		return err
	}
	for _, old := range names[:max(0, len(names)-keep)] {
		if err := s.Disk.Remove(archiveOp, filepath.Join(dir, old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old question: %w", err)
		}
	}
	return nil
}

// archived are the names of the earlier records, the oldest first.
func (s Store) archived() ([]string, error) {
	entries, err := os.ReadDir(s.archiveDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking at the earlier questions: %w", err)
	}
	var names []string
	for _, e := range entries { // os.ReadDir sorts them
		if name := e.Name(); strings.HasSuffix(name, ".json") && name[0] != '.' {
			names = append(names, name)
		}
	}
	return names, nil
}

// Archive reads the earlier records, the oldest first: at most the last hundred. One that is damaged is left out, and
// is in the error, which joins a *DamagedError for each.
func (s Store) Archive() ([]Record, error) {
	names, errs := s.archived()
	var out []Record
	for _, name := range names {
		path := filepath.Join(s.archiveDir(), name)
		switch r, err := read(path); {
		case err == nil:
			out = append(out, r)
		case !errors.Is(err, fs.ErrNotExist): // else it was removed meanwhile
			errs = errors.Join(errs, &DamagedError{path, err})
		}
	}
	return out, errs
}

// elsewhere tells an answer that is not for the present question what became of the one that it is for.
func (s Store) elsewhere(a AnswerRequest, present Record) error {
	e := a.mismatch(present)
	old, _ := s.Archive() // what is damaged cannot tell anything
	for _, r := range slices.Backward(old) {
		if !a.names(r) || r.Question.ID == present.Question.ID {
			continue
		}
		switch err := r.refuses(); {
		case r.State == Superseded && r.Answer == nil && r.SupersededBy == "" && r.Why != "":
			e.Why = "that question was withdrawn"
			return e
		case r.State == Superseded && r.Answer == nil:
			e.Why = "that question is superseded"
			return e
		case err != nil:
			return err
		}
	}
	return e
}

// SetAside moves a record that cannot be believed out of the way of the next question, and says where it is now. It is
// for the supervisor, which knows from its journal what it was doing. It refuses to move one that is in order.
func (s Store) SetAside(ctx context.Context) (to string, err error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("setting a question aside: %w", err) }
	lock, err := s.lock(ctx)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = lock.Unlock() }() // it dies with the process at the latest
	path := filepath.Join(s.Dir, File)
	if _, err := s.Load(); !errors.As(err, new(*DamagedError)) {
		return fail(fmt.Errorf("%s is in order", path))
	}
	to = filepath.Join(s.Dir, "damaged-"+s.now().UTC().Format(timeName)+"-"+NewID()[:8])
	if err := s.Disk.Rename("escalation", path, to); err != nil {
		return fail(err)
	}
	return to, nil
}

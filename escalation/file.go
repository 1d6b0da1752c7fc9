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

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
)

const (
	version   = 1
	keep      = 100 // how many earlier records the archive keeps, to say what became of their questions
	archiveOp = "escalation-archive"
	timeName  = "20060102T150405.000Z" // the format of a time in the name of a file
)

// file is the form of a record on the disk. Sum is a digest of the record, so that superloop does not take damage by a
// disk or an editor for an answer.
type file struct {
	Version int             `json:"version"`
	Sum     string          `json:"sum"`
	Record  json.RawMessage `json:"record"`
}

// encode writes a record. The same record always gives the same bytes.
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

// decode reads a record strictly. Bytes that differ from those of encode are damage, or come from another program.
func decode(data []byte) (r Record, err error) {
	var f file
	if err := text.Decode(data, &f); err != nil {
		return r, fmt.Errorf("it is not whole: %w", err)
	}
	if f.Version != version {
		return r, fmt.Errorf("it is of version %d, this superloop knows version %d", f.Version, version)
	}
	if err := text.Decode(f.Record, &r); err != nil {
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

// read reads the record at path. The error is fs.ErrNotExist if there is none. Any other error means that the record
// cannot be read or is damaged.
func read(path string) (Record, error) {
	f, _, err := door.Open(path)
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

// own checks that only this user can have written the file.
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

// archive saves a record before another one replaces it. Until the replacement the present record stays valid. If this
// process dies in between, the next question archives the record again, in its state at that time.
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

// archived returns the file names of the earlier records, the oldest first.
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

// Archive reads the earlier records, the oldest first. There are at most a hundred. It leaves out damaged records; the
// error joins a *DamagedError for each.
func (s Store) Archive() ([]Record, error) {
	names, errs := s.archived()
	var out []Record
	for _, name := range names {
		path := filepath.Join(s.archiveDir(), name)
		switch r, err := read(path); {
		case err == nil:
			out = append(out, r)
		case !errors.Is(err, fs.ErrNotExist): // else another process has removed it meanwhile
			errs = errors.Join(errs, &DamagedError{path, err})
		}
	}
	return out, errs
}

// elsewhere returns the error for an answer that is not for the present question. The error says what became of the
// question that the answer names, if the archive has it.
func (s Store) elsewhere(a AnswerRequest, present Record) error {
	e := a.mismatch(present)
	old, _ := s.Archive() // damaged records have no information
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

// SetAside renames a damaged record, to make room for the next question, and returns the new path. Only the supervisor
// calls it, because its journal says what the supervisor was doing. SetAside returns an error if the record is not
// damaged.
func (s Store) SetAside(ctx context.Context) (to string, err error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("setting a question aside: %w", err) }
	lock, err := s.lock(ctx)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = lock.Unlock() }() // the kernel releases the lock when the process ends
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

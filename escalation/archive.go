package escalation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// keep is how many earlier records the archive holds, so that a late answer (an old
// message, a pasted line) is told what became of its question.
const keep = 100

const archiveOp = "escalation-archive"

// timeName writes a time in the name of a file.
const timeName = "20060102T150405.000Z"

func (s Store) archiveDir() string { return filepath.Join(s.Dir, "archive") }

// archive keeps a record that another one takes the place of. Until that is done
// the present record is the truth: if this process dies in between, the next
// question archives the record again, as it is by then.
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

// Archive reads the earlier records, the oldest first: at most the last hundred.
// One that is damaged is left out, and is in the error, which joins a
// *DamagedError for each.
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

// elsewhere tells an answer that is not for the present question what became of
// the one that it is for.
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

// SetAside moves a record that cannot be believed out of the way of the next
// question, and says where it is now. It is for the supervisor, which knows from
// its journal what it was doing. It refuses to move one that is in order.
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

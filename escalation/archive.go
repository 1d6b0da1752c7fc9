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

// keep is how many records of before the archive holds, so that a late answer
// (an old message, a pasted line) is told what became of its question.
const keep = 100

func (s Store) archiveDir() string { return filepath.Join(s.Dir, "archive") }

// archive keeps a record that another one takes the place of. Until that is done
// the present record is the truth: if this process dies in between, the next
// question puts the record here again, as it is by then.
func (s Store) archive(r Record) error {
	const op = "escalation-archive"
	data, err := encode(r)
	if err != nil {
		return err
	}
	dir := s.archiveDir()
	if err := s.Disk.MkdirAll(op, dir, 0o700); err != nil {
		return fmt.Errorf("keeping the last question: %w", err)
	}
	if _, err := s.Disk.RemoveTemps(op, dir); err != nil {
		return fmt.Errorf("keeping the last question: %w", err)
	}
	name := r.Question.Created.Format("20060102T150405.000Z") + "-" + r.Question.ID + ".json"
	if err := s.Disk.WriteFile(op, filepath.Join(dir, name), data, 0o600); err != nil {
		return fmt.Errorf("keeping the last question: %w", err)
	}
	names, err := s.archived()
	if err != nil {
		return err
	}
	for _, old := range names[:max(0, len(names)-keep)] {
		if err := s.Disk.Remove(op, filepath.Join(dir, old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old question: %w", err)
		}
	}
	return nil
}

// archived are the names of the records of before, the oldest first.
func (s Store) archived() ([]string, error) {
	entries, err := os.ReadDir(s.archiveDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking at the questions of before: %w", err)
	}
	var names []string
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".json") && name[0] != '.' {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Archive reads the records of before, the oldest first: at most the last hundred.
// One that is damaged is left out, and is in the error, which joins a
// *DamagedError for each.
func (s Store) Archive() ([]Record, error) {
	names, errs := s.archived()
	var out []Record
	for _, name := range names {
		path := filepath.Join(s.archiveDir(), name)
		switch r, err := read(path); {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			errs = errors.Join(errs, &DamagedError{path, err})
		default:
			out = append(out, r)
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
		if err := r.refuses(); r.State != Superseded || r.Answer != nil {
			if err != nil {
				return err
			}
			continue
		}
		e.Why = "that question is superseded"
		if r.SupersededBy == "" && r.Why != "" {
			e.Why = "that question was withdrawn"
		}
		break
	}
	return e
}

// SetAside moves a record that cannot be believed out of the way of the next
// question, and says where it is now. It is for the supervisor, which knows from
// its journal what it was doing; it refuses to move one that is in order.
func (s Store) SetAside(ctx context.Context) (string, error) {
	lock, err := s.lock(ctx)
	if err != nil {
		return "", fmt.Errorf("setting a question aside: %w", err)
	}
	defer func() { _ = lock.Unlock() }() // it dies with the process at the latest
	path := filepath.Join(s.Dir, File)
	var damaged *DamagedError
	if _, err := s.Load(); !errors.As(err, &damaged) {
		return "", fmt.Errorf("setting a question aside: %s is in order", path)
	}
	to := filepath.Join(s.Dir, "damaged-"+s.now().UTC().Format("20060102T150405.000Z")+"-"+NewID()[:8])
	if err := s.Disk.Rename("escalation", path, to); err != nil {
		return "", fmt.Errorf("setting a question aside: %w", err)
	}
	return to, nil
}

package undo

import (
	"context"
	"fmt"
	"path"
)

// Created returns the single files that did not exist when the set was kept, that the command made, and that are still
// as it left them. They are files that Plan expects of the command, such as a lock file; directories are not among
// them. Paths are relative to the repository.
func (s Store) Created(ctx context.Context, id string) (paths []string, err error) {
	err = s.with(ctx, id, func(m *manifest) error {
		paths, err = s.created(m)
		return err
	})
	return paths, err
}

// RemoveCreated removes the files that Created returns, and returns those that it has removed. It is for a command that
// did not help: its set stays, and Restore still restores the rest.
func (s Store) RemoveCreated(ctx context.Context, id string) (removed []string, err error) {
	err = s.with(ctx, id, func(m *manifest) error {
		paths, err := s.created(m)
		if err != nil {
			return err
		}
		for _, p := range paths {
			at, err := open(s.Repo, p)
			if err == nil {
				err = s.Disk.Remove("undo-created", at.at(at.name))
				at.close()
			}
			if err != nil {
				return fmt.Errorf("removing %s, which a command made: %w", p, err)
			}
			removed = append(removed, p)
		}
		return nil
	})
	return removed, err
}

func (s Store) created(m *manifest) (paths []string, err error) {
	var a after
	if sealed, err := readJSON(s.path(m.ID, afterFile), &a); err != nil || !sealed {
		return nil, err
	}
	for _, t := range m.Trees {
		if t.Method != wasAbsent {
			continue
		}
		now, err := s.surveyAt(string(t.Path))
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", t.Path, err)
		}
		if now.kind == isFile && now.exact == a.Trees[t.Path.key()] {
			paths = append(paths, path.Clean(string(t.Path)))
		}
	}
	return paths, nil
}

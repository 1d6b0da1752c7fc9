package undo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// Seal records what the command has left behind, right after it: Restore then knows what the command changed and what
// somebody else changed later. It may be called again, and then takes the place of the first; it must not be called
// once others have worked on. Without it Restore takes whatever is different for somebody else's.
func (s Store) Seal(ctx context.Context, id string) error {
	return s.with(ctx, id, func(m *manifest) error { return s.seal(ctx, m) })
}

func (s Store) seal(ctx context.Context, m *manifest) error {
	a := after{Version: version, Tracked: map[string]string{}, Trees: map[string]string{}, Same: map[string]bool{}, Files: map[string]string{}}
	for _, t := range m.Trees {
		now, err := s.surveyAt(string(t.Path))
		if err != nil {
			return fmt.Errorf("recording what the command left at %s: %w", t.Path, err)
		}
		a.Trees[t.Path.key()] = now.exact
		a.Same[t.Path.key()] = now.kind != isMissing && now.sum == t.Sum || now.kind == isMissing && t.Method == wasAbsent
	}
	for _, f := range m.Files {
		_, state, err := s.stateAt(string(f.Path))
		if err != nil {
			return fmt.Errorf("recording what the command left at %s: %w", f.Path, err)
		}
		a.Files[f.Path.key()] = state
	}
	if m.Commit != "" {
		_, list, err := s.changed(ctx, m)
		if err != nil {
			return err
		}
		for _, c := range list {
			a.Tracked[rawPath(c.path).key()] = c.state
		}
	}
	return s.writeJSON("undo-seal", s.path(m.ID, afterFile), a)
}

// surveyAt surveys a path, whatever its size. One whose directory is gone, or is a link now, is not there.
func (s Store) surveyAt(rel string) (survey, error) {
	at, err := open(s.Repo, rel)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrLink) {
		return survey{}, nil
	}
	if err != nil {
		return survey{}, err
	}
	defer at.close()
	return at.look(1<<30, 1<<62)
}

// trackedChange is a tracked file that is not as it was kept, and what is there now.
type trackedChange struct {
	difference
	state string
	there bool
}

// changed lists the tracked files that are not as in the set's commit.
func (s Store) changed(ctx context.Context, m *manifest) (*git, []trackedChange, error) {
	g, err := openGit(ctx, s.Repo)
	if err != nil {
		return nil, nil, err
	}
	if !g.found {
		return nil, nil, fmt.Errorf("%s is no longer a git work tree", s.Repo)
	}
	list, err := g.differences(ctx, m.Commit)
	if err != nil {
		return nil, nil, err
	}
	var out []trackedChange
	for _, d := range list {
		b, state, err := s.stateAt(d.path)
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", d.path, err)
		}
		if state == tooBig || b.mode != d.oldMode || b.mode != gitEmpty && g.object("blob", b.content) != d.oldID {
			out = append(out, trackedChange{d, state, b.there})
		}
	}
	return g, out, nil
}

// with reads the manifest of a set, and keeps other calls out while do works with it.
func (s Store) with(ctx context.Context, id string, do func(*manifest) error) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := s.load(id)
	if err != nil {
		return err
	}
	return do(m)
}

func (s Store) load(id string) (*manifest, error) {
	if id == "" || filepath.Base(id) != id || id[0] == '.' {
		return nil, fmt.Errorf("%q is no set; superloop undo --list shows them", id)
	}
	var m manifest
	ok, err := readJSON(s.path(id, manifestFile), &m)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("there is no set %s: %w", id, fs.ErrNotExist)
	case m.Version != version || m.ID != id:
		return nil, fmt.Errorf("the set %s was kept by another version of superloop", id)
	}
	return &m, nil
}

package bare

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/project"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/roles"
)

// Taken is a loop of run --prompt as a loop of the repository's configuration.
type Taken struct {
	Config     *config.Config
	Loop       config.Loop
	Data, Spec []byte // the configuration file, and the spec
}

// Last returns the id of the loop that run --prompt wrote last, "" if there is none.
func Last(repo string) (id string) {
	var newest time.Time
	dir := filepath.Join(repo, ".superloop", "loops")
	entries, _ := os.ReadDir(dir) // there is none before the first run
	for _, e := range entries {
		if info, err := os.Lstat(filepath.Join(dir, e.Name(), "config.json")); err == nil && info.Mode().IsRegular() && info.ModTime().After(newest) {
			id, newest = e.Name(), info.ModTime()
		}
	}
	return id
}

// Take reads the own configuration of the loop id and its prompt, and makes the configuration file at path of them, in
// which the spec of the loop is the file spec of the repository. The loops of a file that is there stay. It writes
// nothing.
func Take(repo, id, spec, path string) (t Taken, err error) {
	own := filepath.Join(repo, ".superloop", "loops", id, "config.json")
	was, err := config.Load(own)
	if err != nil {
		return t, err
	}
	l, ok := was.Loop(id)
	if !ok {
		return t, errors.New(own + " has no loop " + id)
	}
	prompt, err := roles.LoadPrompt(filepath.Join(repo, l.SpecFile))
	if err != nil {
		return t, err
	}
	raw, err := config.Read(own)
	if err != nil {
		return t, err
	}
	base, err := config.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if t.Data, err = project.FromPrompt(raw, base, spec); err != nil {
		return t, err
	}
	if t.Config, err = config.LoadBytes(path, t.Data); err != nil {
		return t, err
	}
	t.Loop, t.Spec = l, []byte(prompt)
	return t, nil
}

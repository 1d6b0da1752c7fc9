package sandbox

import (
	"fmt"
	"path/filepath"

	"github.com/superloop/superloop/internal/workdir"
)

// FileID names a file or directory, whatever it is called, for as long as it exists.
type FileID = workdir.ID

// Place is a directory in a repository, and which ones the two were when it was decided that a command may run there.
// By its IDs the shim notices that somebody put another directory in its place.
type Place struct {
	Repo   string `json:"repo"`    // absolute, without symbolic links
	Dir    string `json:"dir"`     // below Repo; "." is Repo itself
	RepoID FileID `json:"repo_id"` // and DirID are what the two paths led to
	DirID  FileID `json:"dir_id"`
}

// Resolve finds a working directory in a repository, as workdir.Root does; a refusal is a *workdir.Error.
func Resolve(repo, dir string) (Place, error) {
	p, fds, err := open(repo, dir)
	if err != nil {
		return Place{}, err
	}
	fds.close()
	return p, nil
}

// opened are the two directories of a Place.
type opened struct {
	repo *workdir.Root
	dir  *workdir.Dir
}

func (o opened) close() {
	_ = o.repo.Close() // they were only looked at
	_ = o.dir.Close()
}

// open is Resolve; it gives the two directories as well.
func open(repo, dir string) (Place, opened, error) {
	if !filepath.IsAbs(repo) {
		return Place{}, opened{}, fmt.Errorf("the repository %q is not an absolute path", repo)
	}
	root, err := workdir.OpenRoot(repo)
	if err != nil {
		return Place{}, opened{}, err
	}
	at, err := root.Resolve(dir)
	if err != nil {
		_ = root.Close() // it was only looked at
		return Place{}, opened{}, err
	}
	return Place{Repo: root.Real, Dir: at.Rel, RepoID: root.ID, DirID: at.ID}, opened{root, at}, nil
}

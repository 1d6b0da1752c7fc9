package gitcmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
)

// ErrNotRepo means that a directory is not in the work tree of a repository.
var ErrNotRepo = errors.New("not a git work tree")

// place is a work tree and its directories of git.
type place struct{ top, dir, common string }

// Top returns the top of the work tree that contains dir, without git. For a directory that is in no work tree the error
// is ErrNotRepo.
func Top(dir string) (string, error) {
	dir, err := real(dir)
	if err != nil {
		return "", err
	}
	found, err := find(dir)
	return found.top, err
}

// real returns a directory as an absolute path without links.
func real(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s is not a directory", ErrNotRepo, dir)
	}
	return abs, nil
}

// find looks for the work tree that contains dir, as git does, from dir upward.
func find(dir string) (place, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return place{}, fmt.Errorf("opening the repository: %w: %s is not a directory", ErrNotRepo, dir)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if found, ok := placeAt(at); ok {
			return found, nil
		}
		switch {
		case isGitDir(at) && filepath.Base(at) == ".git":
			return place{}, fmt.Errorf("%w: %s is inside a git directory, not beside it", ErrNotRepo, dir)
		case isGitDir(at):
			return place{}, bare(dir)
		case at == filepath.Dir(at) && there(dir, ".git"):
			return place{}, fmt.Errorf("%w: %w", ErrNotRepo, Lost(dir, filepath.Join(dir, ".git"), filepath.Join(dir, ".git")))
		case at == filepath.Dir(at):
			return place{}, fmt.Errorf("%w: %s; to make it one: git -C %s init", ErrNotRepo, dir, text.Paste(dir))
		}
	}
}

func bare(dir string) error {
	return fmt.Errorf("%w: %s is a bare repository; clone it, or add a work tree: git -C %s worktree add DIR", ErrNotRepo, dir, text.Paste(dir))
}

// placeAt reports whether a work tree begins at top. A directory .git is the repository, whatever a file commondir in it
// says, because git writes this file only for linked work trees. A file .git leads to the directory of git.
func placeAt(top string) (place, bool) {
	git := filepath.Join(top, ".git")
	info, err := os.Stat(git)
	switch {
	case err != nil:
		return place{}, false
	case info.IsDir():
		dir, err := filepath.EvalSymlinks(git)
		return place{top, dir, dir}, err == nil && isGitDir(dir)
	}
	to, ok := strings.CutPrefix(firstLine(git), "gitdir:")
	if !ok {
		return place{}, false
	}
	dir, err := filepath.EvalSymlinks(under(top, strings.TrimSpace(to)))
	if err != nil {
		return place{}, false
	}
	common := dir
	if line := firstLine(filepath.Join(dir, "commondir")); line != "" {
		if common, err = filepath.EvalSymlinks(under(dir, line)); err != nil {
			return place{}, false
		}
	}
	return place{top, dir, common}, there(dir, "HEAD") && there(common, "objects") && there(common, "refs")
}

// isGitDir reports whether dir has the form of a repository's git directory.
func isGitDir(dir string) bool {
	return len(lacking(dir)) == 0
}

func there(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// firstLine reads the first line of a small file that an agent may have made. It returns "" if there is no regular file.
func firstLine(path string) string {
	data, err := door.Read(path, 4096)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line)
}

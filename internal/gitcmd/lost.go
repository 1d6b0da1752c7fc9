package gitcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// LostError says that a repository is no longer where it was: removed, emptied, unreadable, or replaced by a file that
// leads to another one.
type LostError struct {
	Top string // the top directory of the work tree
	Why string
	Fix string // the command to type, with what else would help; "" if only an operator knows what became of it
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the repository of %s is lost: %s", e.Top, e.Why)
}

// Lost returns a *LostError if the work tree no longer belongs to the repository that was opened, and else nil. It only
// looks at names, without git.
func (r *Repo) Lost() *LostError { return Lost(r.Top, r.Dir, r.Common) }

// Lost is Repo.Lost for the work tree at top of the repository with the git directories dir and common (see Repo).
func Lost(top, dir, common string) *LostError {
	found, ok := placeAt(top)
	if ok && found.dir == dir && found.common == common {
		return nil
	}
	e := &LostError{Top: top}
	if _, err := os.Stat(top); err != nil {
		e.Why = "there is no such directory any more; put it back"
		return e
	}
	const orBack = "   (begins a new history; or put .git back from a backup)"
	git, begin := filepath.Join(top, ".git"), "git -C "+text.Paste(top)+" init"+orBack
	away := "mv " + text.Paste(git) + " " + text.Paste(top+".git-foreign")
	_, missing := os.Lstat(git)
	_, inside := os.Lstat(filepath.Join(git, "HEAD"))
	switch {
	case errors.Is(missing, fs.ErrPermission) || errors.Is(inside, fs.ErrPermission):
		e.Why, e.Fix = git+" cannot be read", "chmod u+rwx "+text.Paste(top)+" "+text.Paste(git)
	case dir != git && there(dir, "HEAD"): // a linked work tree, or a repository that a human keeps elsewhere
		e.Why, e.Fix = fmt.Sprintf("%s does not lead to %s any more", git, dir), "echo "+text.Paste("gitdir: "+dir)+" >"+text.Paste(git)
		if info, err := os.Lstat(git); err == nil && !info.Mode().IsRegular() {
			e.Fix = away + " && " + e.Fix
		}
	case missing != nil:
		e.Why, e.Fix = "there is no "+git, begin
	case ok:
		e.Why, e.Fix = fmt.Sprintf("%s leads to %s, and not to %s", git, found.dir, dir), away+" && "+begin
	default:
		lacks := lacking(git)
		e.Why = fmt.Sprintf("%s has no %s", git, strings.Join(lacks, ", "))
		switch {
		case len(lacks) == 1 && lacks[0] == "HEAD":
			e.Why += "; the next run writes it anew"
		case len(lacks) == len(parts) && inside != nil && errors.Is(inside, fs.ErrNotExist):
			e.Fix = begin
		default:
			e.Fix = away + " && " + begin
		}
	}
	return e
}

// parts are what a directory needs to be the git directory of a repository.
var parts = []string{"HEAD", "objects", "refs"}

func lacking(dir string) (names []string) {
	for _, name := range parts {
		if !there(dir, name) {
			names = append(names, name)
		}
	}
	return names
}

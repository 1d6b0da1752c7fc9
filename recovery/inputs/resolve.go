package inputs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// Program is what a command's first word runs.
type Program struct {
	Path    string // the file, absolute, links followed; "" for what bash does itself
	Inside  bool   // it is a file of the repository, and so one of the pinned inputs
	Builtin bool   // bash does it itself
}

// ResolveError says why a program is not one that may run without an operator.
type ResolveError struct {
	Name string
	File string // what was found; "" if nothing was
	Why  string
	Hint string // what to type next, or ""
}

func (e *ResolveError) Error() string {
	s := fmt.Sprintf("the program %s ", visible(e.Name))
	if e.File != "" && e.File != e.Name {
		s += "is " + visible(e.File) + ", which "
	}
	s += e.Why
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Resolve finds the program that bash would run for the first word of a command: a name is looked for in PATH, whose
// entries must be absolute. The first file that is found must lie outside of the repository, and neither it nor what
// its links lead to may be writable by its group or by others, nor lie in a directory that everybody may write into
// (unless it is sticky): otherwise somebody else says what the name means. A word with a slash is taken as it is, from
// dir; in the repository it is a matter of the pinned inputs (Program.Inside). Every refusal is a *ResolveError.
func Resolve(argv0, dir, searchPath, repo string) (Program, error) {
	if builtin(argv0) {
		return Program{Builtin: true}, nil
	}
	refuse := func(file, why, hint string) (Program, error) {
		return Program{}, &ResolveError{Name: argv0, File: file, Why: why, Hint: hint}
	}
	top, err := filepath.EvalSymlinks(repo)
	if err != nil {
		return Program{}, fmt.Errorf("finding the program %q: %w", argv0, err)
	}
	if argv0 == "" || strings.IndexByte(argv0, 0) >= 0 || strings.Contains(argv0, Unknown) {
		return refuse("", "is not written out", "")
	}
	file := argv0
	if strings.Contains(argv0, "/") {
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
	} else if file = search(argv0, searchPath); file == "" {
		return refuse("", "was not found in PATH="+visible(searchPath), "")
	} else if !filepath.IsAbs(file) {
		return refuse("", "would be looked for in the directory where the command runs: PATH has an entry that is not absolute", "take it out of PATH")
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return refuse(file, "cannot be followed: "+err.Error(), "")
	}
	for _, f := range []string{file, real} {
		if within(f, top) || within(f, repo) {
			if strings.Contains(argv0, "/") {
				return Program{Path: real, Inside: true}, nil
			}
			return refuse(f, "lies in the repository, where an agent can write", "take its directory out of PATH")
		}
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return refuse(file, "cannot be looked at: "+err.Error(), "")
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return refuse(file, "is not an executable file", "")
	case info.Mode()&0o022 != 0:
		return refuse(real, "can be changed by its group or by others", "chmod go-w "+text.Word(real))
	}
	for _, f := range []string{file, real} {
		for d := filepath.Dir(f); ; d = filepath.Dir(d) {
			info, err := os.Stat(d)
			if err != nil {
				return refuse(file, "cannot be looked at: "+err.Error(), "")
			}
			if info.Mode()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
				return refuse(file, "lies below "+visible(d)+", where everybody can put another in its place", "chmod o-w "+text.Word(d))
			}
			if d == filepath.Dir(d) {
				break
			}
		}
	}
	return Program{Path: real}, nil
}

// search is what bash finds first; a relative path for a PATH that leads to one.
func search(name, searchPath string) string {
	for _, d := range filepath.SplitList(searchPath) {
		if !filepath.IsAbs(d) {
			return filepath.Join(".", d, name)
		}
		f := filepath.Join(d, name)
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return f
		}
	}
	return ""
}

func within(file, dir string) bool {
	rel, err := filepath.Rel(dir, file)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// builtin reports whether bash does a command itself.
func builtin(name string) bool {
	return among(name, ": . [ [[ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo enable eval exec exit"+
		" export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt"+
		" source suspend test times trap true type typeset ulimit umask unalias unset wait")
}

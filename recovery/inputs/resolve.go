package inputs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// Program is the program that the first word of a command runs.
type Program struct {
	Path    string // the absolute path with links resolved; "" for a builtin of bash
	Inside  bool   // the program is a file of the repository, and so one of the pinned inputs
	Builtin bool   // the word is a builtin of bash
}

// ResolveError says why a program may not run without an operator.
type ResolveError struct {
	Name string
	File string // the file that was found; "" if none was
	Why  string
	Hint string // a command or an action for the operator, or ""
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

// Resolve finds the program that bash would run for the first word of a command. It looks a name up in PATH, whose
// entries must be absolute. The first file found must lie outside of the repository. The file that its links lead to
// must not be writable by its group or by others. No directory above either file may be writable by everybody, unless
// it is sticky. Otherwise another user could replace the program. Resolve takes a word with a slash as a path, relative
// to dir. Such a path may lie in the repository, where the pinned inputs cover it (Program.Inside). Every refusal is a
// *ResolveError.
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

// search returns the file that bash finds first in searchPath. It returns a relative path if it meets a relative entry
// before.
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

// builtin reports whether a name is a builtin of bash.
func builtin(name string) bool {
	return among(name, ": . [ [[ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo enable eval exec exit"+
		" export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt"+
		" source suspend test times trap true type typeset ulimit umask unalias unset wait")
}

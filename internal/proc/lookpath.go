package proc

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// NotFoundError says that a program is not there, or is there but may not be executed. errors.Is tells the two
// apart: fs.ErrNotExist, fs.ErrPermission.
type NotFoundError struct {
	Name     string
	Searched string // the PATH, "" if Name is a path or there was no PATH
	Found    string // what is there but not executable, if that is the trouble
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Found != "":
		return fmt.Sprintf("program %q: %s is not executable (chmod +x, or is it a directory?)", e.Name, e.Found)
	case strings.Contains(e.Name, "/"):
		return fmt.Sprintf("program %s does not exist", e.Name)
	case e.Searched == "":
		return fmt.Sprintf("program %q not found: PATH is not set in its environment", e.Name)
	}
	return fmt.Sprintf("program %q not found; searched PATH=%s", e.Name, e.Searched)
}

// Unwrap makes errors.Is work.
func (e *NotFoundError) Unwrap() error {
	if e.Found != "" {
		return fs.ErrPermission
	}
	return fs.ErrNotExist
}

// LookPath finds a program the way exec would with the given environment. A name with a slash is taken as it is.
// Entries of PATH that are empty or relative are not searched: what they mean depends on the directory, and a
// repository must not be able to slip in a program. The error is a *NotFoundError.
func LookPath(file string, env []string) (string, error) {
	if strings.Contains(file, "/") {
		switch found, executable := inspect(file); {
		case !found:
			return "", &NotFoundError{Name: file}
		case !executable:
			return "", &NotFoundError{Name: file, Found: file}
		}
		return file, nil
	}
	path := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	refused := ""
	if file != "" {
		for _, dir := range filepath.SplitList(path) {
			if !filepath.IsAbs(dir) {
				continue
			}
			candidate := filepath.Join(dir, file)
			found, executable := inspect(candidate)
			if executable {
				return candidate, nil
			}
			if found && refused == "" {
				refused = candidate
			}
		}
	}
	return "", &NotFoundError{Name: file, Searched: path, Found: refused}
}

func inspect(path string) (found, executable bool) {
	st, err := os.Stat(path)
	if err != nil {
		return false, false
	}
	return true, !st.IsDir() && st.Mode()&0o111 != 0 && unix.Access(path, unix.X_OK) == nil
}

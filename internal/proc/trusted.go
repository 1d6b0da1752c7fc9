package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// systemDirs are searched after the PATH of this process.
const systemDirs = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// trusted holds the programs that Trusted has found. Each program is looked for once.
var trusted struct {
	sync.Mutex
	first string // see TrustInTests
	found map[string]string
}

// TrustInTests makes Trusted look into dir first, and accept what lies there. Only tests call it, which put a program
// that breaks at a chosen moment in the place of a real one. It must be the first call of this package.
func TrustInTests(dir string) {
	trusted.Lock()
	defer trusted.Unlock()
	trusted.first = dir
}

// Trusted finds a program for superloop's own use, on the PATH of this process and then in the directories of the
// system. It accepts a program only if an agent can replace neither the file nor a directory above it: below HOME
// nothing is accepted, and elsewhere only what the user of this process may not write (for root: what root owns and
// not everybody may write). The first call for a name decides for the life of the process, so a program that appears
// on the PATH later is never taken. The error says which programs were refused; it is fs.ErrNotExist.
func Trusted(name string) (string, error) {
	trusted.Lock()
	defer trusted.Unlock()
	if path, ok := trusted.found[name]; ok {
		return path, nil
	}
	path, err := lookTrusted(name, trusted.first, os.Getenv("PATH"), os.Getenv("HOME"))
	if err != nil {
		return "", err
	}
	if trusted.found == nil {
		trusted.found = map[string]string{}
	}
	trusted.found[name] = path
	return path, nil
}

func lookTrusted(name, first, path, home string) (string, error) {
	if strings.Contains(name, "/") || name == "" {
		return "", fmt.Errorf("%q is not the name of a program: %w", name, fs.ErrNotExist)
	}
	var refused []string
	dirs := slices.Concat(filepath.SplitList(path), filepath.SplitList(systemDirs))
	if first != "" {
		dirs = append([]string{first}, dirs...)
	}
	for _, dir := range dirs {
		file := filepath.Join(dir, name)
		if !filepath.IsAbs(dir) || slices.Contains(refused, file) {
			continue
		}
		if st, err := os.Stat(file); err != nil || !st.Mode().IsRegular() || unix.Access(file, unix.X_OK) != nil {
			continue
		}
		if dir == first || outOfReach(file, home) {
			return file, nil
		}
		refused = append(refused, file)
	}
	if len(refused) > 0 {
		return "", fmt.Errorf("%s was found at %s only, where an agent could replace it; install it for the whole system, as root: %w",
			name, strings.Join(refused, ", "), fs.ErrNotExist)
	}
	return "", fmt.Errorf("%s is neither on the PATH nor in %s; install it: %w", name, systemDirs, fs.ErrNotExist)
}

// outOfReach reports whether neither the program nor its directories, as named and with links resolved, can be written
// by the user of this process, and none of them lies below home.
func outOfReach(file, home string) bool {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false
	}
	if home, err = filepath.EvalSymlinks(home); err != nil || home == "/" {
		home = ""
	}
	for _, at := range []string{real, filepath.Dir(file)} {
		for ; ; at = filepath.Dir(at) {
			if at == home || writable(at) {
				return false
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return true
}

// writable reports whether the user of this process could write path, perhaps after a chmod. root could write all, so
// for root's own files it reports whether somebody else could. In a user namespace, root cannot write the files of users
// that the namespace does not know, such as the real root.
func writable(path string) bool {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return true
	}
	own := int(st.Uid) == os.Geteuid()
	if own && os.Geteuid() == 0 {
		return st.Mode&0o002 != 0
	}
	return own || !errors.Is(unix.Access(path, unix.W_OK), unix.EACCES) && !errors.Is(unix.Access(path, unix.W_OK), unix.EROFS)
}

// System runs a program of the system in dir with superloop's own rights. Trusted finds the program. Its environment
// holds nothing of this process: PATH leads to the directories of the system, LC_ALL is C. See Tool.Run for the rest.
func System(ctx context.Context, dir string, argv ...string) ([]byte, error) {
	if len(argv) == 0 {
		return Tool{}.Run(ctx)
	}
	path, err := Trusted(argv[0])
	if err != nil {
		return nil, &ToolError{Argv: argv, Code: -1, Err: err}
	}
	return Tool{Dir: dir, Env: []string{"PATH=" + systemDirs}}.Run(ctx, append([]string{path}, argv[1:]...)...)
}

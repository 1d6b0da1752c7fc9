package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// prepare fills in the defaults of a Spec, checks what the kernel would only answer with a bare error number, and opens stdin.
func prepare(spec *Spec) (request, *descriptors, error) {
	var none request
	if spec.Grace <= 0 {
		spec.Grace = defaultGrace
	}
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return none, nil, errors.New("no command was given")
	}
	for i, arg := range spec.Argv {
		if hasNUL(arg) {
			return none, nil, fmt.Errorf("starting %q: argument %d contains a NUL byte", spec.Argv[0], i)
		}
	}
	for _, e := range spec.Env {
		if hasNUL(e) {
			name, _, _ := strings.Cut(e, "=")
			return none, nil, fmt.Errorf("starting %s: the environment variable %q contains a NUL byte", spec.Argv[0], name)
		}
	}
	if len(spec.Files) > MaxFiles {
		return none, nil, fmt.Errorf("starting %s: %d files to inherit, %d is the most", spec.Argv[0], len(spec.Files), MaxFiles)
	}
	if spec.Marker != "" && !slices.Contains(spec.Env, spec.Marker) {
		return none, nil, fmt.Errorf("starting %s: the marker %q is not in its environment", spec.Argv[0], spec.Marker)
	}
	dir, err := workingDir(spec.Dir)
	if err != nil {
		return none, nil, fmt.Errorf("starting %s: %w", spec.Argv[0], err)
	}
	name := spec.Argv[0]
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	path, err := LookPath(name, spec.Env)
	if err != nil {
		return none, nil, err
	}
	stdin, err := openStdin(spec.Stdin)
	if err != nil {
		return none, nil, fmt.Errorf("starting %s: %w", spec.Argv[0], err)
	}
	req := request{Op: opRun, Path: []byte(path), Dir: []byte(dir), Argv: pack(spec.Argv), Env: pack(spec.Env), Namespaces: spec.Namespaces}
	if spec.Stdin != "" {
		path, err := filepath.Abs(spec.Stdin)
		if err != nil {
			unix.Close(stdin)
			return none, nil, fmt.Errorf("starting %s: standard input: %w", spec.Argv[0], err)
		}
		req.Stdin = []byte(path)
	}
	return req, &descriptors{stdin, -1, -1}, nil
}

// workingDir returns dir as an absolute path. The spawner process lives in another directory.
func workingDir(dir string) (string, error) {
	if hasNUL(dir) {
		return "", fmt.Errorf("the working directory %q contains a NUL byte", dir)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	st, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the working directory %s does not exist", abs)
	case err != nil:
		return "", fmt.Errorf("working directory: %w", err)
	case !st.IsDir():
		return "", fmt.Errorf("the working directory %s is not a directory", abs)
	}
	if err := unix.Access(abs, unix.X_OK); err != nil {
		return "", fmt.Errorf("the working directory %s may not be entered: %w", abs, err)
	}
	return abs, nil
}

// openStdin opens a file for the command. A FIFO is refused: opening or reading it could wait for ever.
func openStdin(path string) (int, error) {
	if path == "" {
		path = os.DevNull
	}
	if hasNUL(path) {
		return -1, fmt.Errorf("standard input: the path %q contains a NUL byte", path)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return -1, fmt.Errorf("standard input: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFCHR {
			err = fmt.Errorf("%s is not a regular file", path)
		}
	}
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("standard input: %w", err)
	}
	return fd, nil
}

// explainStart says in words what the errno of fork or exec means. path is what was to be executed, "" if it
// is to be found again.
func explainStart(spec *Spec, path string, no syscall.Errno) error {
	if path == "" {
		path = spec.Argv[0]
		if found, err := LookPath(path, spec.Env); err == nil {
			path = found
		}
		if dir, err := workingDir(spec.Dir); err == nil && !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
	}
	switch no {
	case syscall.E2BIG:
		total, longest := 0, 0
		for _, a := range slices.Concat(spec.Argv, spec.Env) {
			total, longest = total+len(a)+1, max(longest, len(a))
		}
		return fmt.Errorf("starting %s: arguments and environment are too long for this system (%d bytes, the longest one %d; Linux takes 131071 in one): %w; pass the prompt on standard input or as a file (prompt_mode \"stdin\" or \"file\")",
			spec.Argv[0], total, longest, no)
	case syscall.ENOEXEC:
		return fmt.Errorf("starting %s: %s is not a program for this system, and has no #! line: %w", spec.Argv[0], path, no)
	case syscall.ENOENT:
		if line := shebang(path); line != "" {
			return fmt.Errorf("starting %s: the interpreter in the first line of %s (%s) does not exist: %w", spec.Argv[0], path, line, no)
		}
		return fmt.Errorf("starting %s: %s, or the loader that it needs, does not exist: %w", spec.Argv[0], path, no)
	case syscall.EACCES:
		return fmt.Errorf("starting %s: %s may not be executed (file mode, or a file system mounted noexec): %w", spec.Argv[0], path, no)
	case syscall.EAGAIN:
		return fmt.Errorf("starting %s: no more processes may be made (ulimit -u, or a pids limit of the container): %w", spec.Argv[0], no)
	}
	return fmt.Errorf("starting %s (%s): %w", spec.Argv[0], path, no)
}

// shebang returns the first line of a script, "" if the file is none.
func shebang(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, 128)
	n, _ := f.Read(buf)
	line, _, _ := bytes.Cut(buf[:n], []byte("\n"))
	if !bytes.HasPrefix(line, []byte("#!")) {
		return ""
	}
	return string(bytes.TrimRight(line, "\r"))
}

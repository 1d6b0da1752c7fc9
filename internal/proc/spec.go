package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	defaultGrace    = 5 * time.Second
	defaultHeadTail = 32 << 10
)

// Spec describes one command to run.
type Spec struct {
	Argv  []string // Argv[0] is a path (relative to Dir), or a name that is looked up in PATH of Env
	Dir   string   // the working directory; "" is that of the supervisor
	Env   []string // the complete environment: nothing is added, nothing inherited
	Stdin string   // the path of a regular file or character device for standard input; "" is /dev/null
	// Input, unless nil, is what the command gets on standard input instead of Stdin, by a pipe, until it ends or the
	// command has ended. Run does not wait for a Read that blocks: the caller ends it.
	Input io.Reader
	// Files become descriptors 3, 4 and so on of the command, at most MaxFiles. Run does not close them; the caller
	// does.
	Files      []*os.File
	Namespaces Namespaces // new namespaces for this command, which becomes their first process

	// Timeout limits the run, Inactivity the time without output on both streams; 0 means no limit.
	Timeout, Inactivity time.Duration
	Pause               *Pause        // stops the clocks of Timeout and Inactivity while it is held; nil: nothing does
	Grace               time.Duration // the time of the whole tree between SIGTERM and SIGKILL; 0 is 5 s
	// A closed Hurry ends the grace at once, so the tree gets SIGKILL, also if the grace begins later.
	Hurry <-chan struct{}

	// Log receives both streams as they arrive, cut at line ends where possible, from one goroutine at a time. An error
	// of Log ends the logging, not the run. A Write that blocks also blocks the command. LogLimit limits the bytes for
	// Log; 0 is 64 MiB. Log receives the first LogLimit/2 bytes at once. At the end it receives a line with the number
	// of missing bytes, and then the last bytes, at most LogLimit/2 and at most 1 MiB.
	Log      io.Writer
	LogLimit int64
	// Sift chooses lines among the missing bytes, which then stand behind the number of missing bytes; nil: none. It
	// also serves the captures of Result, if HeadTail is more than 1 MiB.
	Sift Sift
	// Stdout and Stderr receive every byte as it arrives, each from its own goroutine. The slice is valid only during
	// the call.
	Stdout, Stderr func(p []byte)
	// HeadTail is the number of bytes that Result keeps of the beginning, and again of the end, of each stream. 0 is 32
	// KiB; a negative number keeps nothing.
	HeadTail int

	// Marker is an entry of Env (KEY=value) that no process outside of this tree has in its environment. If the spawner
	// process dies at a level below PIDNamespace, Run calls Sweep(Marker) to end the rest of the tree. With "" it does
	// not.
	Marker string
}

// MaxFiles is the most files that Spec.Files may contain.
const MaxFiles = 8

// Namespaces lists the new namespaces of a command (Linux), in addition to what Level needs. If one is not available,
// the command is NotStarted, and Result.Err contains the errno of the clone.
type Namespaces struct {
	// User makes a user namespace that maps ids to the same numbers. For root it maps all ids of the current namespace,
	// for other users only their own user and group. With it the other namespaces need no CAP_SYS_ADMIN. Inside of it
	// the command has this capability, and has to drop it after use.
	User bool `json:"user,omitempty"`
	// Mount makes a copy of the current mount namespace. Network makes a network namespace with only a loopback device,
	// which is down.
	Mount   bool `json:"mount,omitempty"`
	Network bool `json:"network,omitempty"`
}

// Reason says why a run ended.
type Reason string

const (
	Exited     Reason = "exited"      // the command ended by itself; see Code and Signal
	TimedOut   Reason = "timeout"     // Spec.Timeout was reached
	Inactive   Reason = "inactive"    // Spec.Inactivity was reached
	Killed     Reason = "killed"      // the context was done
	NotStarted Reason = "not_started" // Result.Err says why
	Lost       Reason = "lost"        // the spawner process died, so it is not known how the command ended
)

// Result says how a run ended. With an error it holds what is known.
type Result struct {
	Code   int    // the exit code, or -1 if a signal ended the main process or it never ran
	Signal string // the name of the signal ("SIGKILL"), or ""
	Ended  Reason
	Err    error // why the command was not started, or what could not be killed, in words for the operator

	Duration             time.Duration
	UserTime, SystemTime time.Duration // the CPU time of the whole tree
	// LeftBehind counts the processes that were alive when the main process had ended by itself, or when the grace was
	// over. They were killed. At ProcessGroup the count is 0 or 1.
	LeftBehind int

	Stdout, Stderr Capture
	LogDropped     int64     // bytes that Log did not receive
	LogErr         error     // the first error of Log
	LastOutput     time.Time // the time of the last byte on either stream; zero if there was none
}

// Level names the mechanism that holds a process tree together. Each level also searches the descendants as the level
// below it does, except PIDNamespace, which needs no search.
type Level string

const (
	// PIDNamespace (Linux, needs CAP_SYS_ADMIN or a user namespace): the spawner process is PID 1 of a PID namespace
	// with its own /proc. Its processes neither see nor signal others, and cannot end or stop the spawner process. One
	// kill(-1) ends all processes at once. The kernel ends them when the spawner process dies, and this one when the
	// supervisor dies. Mounts made inside stay inside.
	PIDNamespace Level = "pid_namespace"
	// Cgroup (Linux, needs a writable cgroup v2): each tree gets a new cgroup, and cgroup.kill kills all of its
	// processes at once. If supervisor and spawner process are killed at the same moment, the tree lives until the next
	// Start kills it.
	Cgroup Level = "cgroup"
	// Subreaper (Linux): the spawner process adopts orphans, and kills its descendants until /proc shows none.
	Subreaper Level = "subreaper"
	// ProcessGroup (any Unix): superloop kills only the process group of the command. A process in a session of its own
	// escapes.
	ProcessGroup Level = "process_group"
)

// Levels returns all levels, the most reliable first.
func Levels() []Level { return []Level{PIDNamespace, Cgroup, Subreaper, ProcessGroup} }

// available returns the levels that this operating system may support, the most reliable first.
func available() []Level {
	if runtime.GOOS == "linux" {
		return Levels()
	}
	return []Level{ProcessGroup}
}

// from returns l and the levels below it that this system may support, the most reliable first. For an unknown or empty
// l it returns all.
func (l Level) from() []Level {
	all := available()
	return all[max(0, slices.Index(all, l)):]
}

// maxArguments is the most bytes of arguments and environment. Linux refuses to execute a program with more than 6 MiB.
const maxArguments = 32 << 20

// prepare fills in the defaults of a Spec, and opens stdin. It checks conditions for which the kernel would only return
// an errno.
func prepare(spec *Spec, stdin **os.File) (request, error) {
	if spec.Grace <= 0 {
		spec.Grace = defaultGrace
	}
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return request{}, errors.New("no command was given")
	}
	name := spec.Argv[0]
	if i := slices.IndexFunc(spec.Argv, hasNUL); i >= 0 {
		return request{}, fmt.Errorf("starting %q: argument %d contains a NUL byte", name, i)
	}
	fail := func(format string, args ...any) (request, error) {
		return request{}, fmt.Errorf("starting %s: %w", name, fmt.Errorf(format, args...))
	}
	if i := slices.IndexFunc(spec.Env, hasNUL); i >= 0 {
		variable, _, _ := strings.Cut(spec.Env[i], "=")
		return fail("the environment variable %q contains a NUL byte", variable)
	}
	if len(spec.Files) > MaxFiles {
		return fail("%d files to inherit, %d is the most", len(spec.Files), MaxFiles)
	}
	if spec.Marker != "" && !slices.Contains(spec.Env, spec.Marker) {
		return fail("the marker %q is not in its environment", spec.Marker)
	}
	dir, err := workingDir(spec.Dir)
	if err != nil {
		return fail("%w", err)
	}
	file := name
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		file = filepath.Join(dir, name)
	}
	path, err := LookPath(file, spec.Env)
	if err != nil {
		return request{}, err
	}
	req := request{Op: opRun, Path: []byte(path), Dir: []byte(dir), Argv: pack(spec.Argv), Env: pack(spec.Env), Namespaces: spec.Namespaces}
	if len(req.Argv)+len(req.Env) > maxArguments {
		return request{}, explainStart(spec, path, syscall.E2BIG)
	}
	if *stdin, err = openStdin(spec.Stdin); err == nil && spec.Stdin != "" {
		path, err = filepath.Abs(spec.Stdin)
		req.Stdin = []byte(path)
	}
	if err != nil {
		return fail("standard input: %w", err)
	}
	return req, nil
}

// workingDir returns dir as an absolute path, because the spawner process has another working directory.
func workingDir(dir string) (string, error) {
	if hasNUL(dir) {
		return "", fmt.Errorf("the working directory %q contains a NUL byte", dir)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	st, err := os.Stat(abs)
	if err == nil {
		err = unix.Access(abs, unix.X_OK)
	}
	switch {
	case st != nil && !st.IsDir():
		return "", fmt.Errorf("the working directory %s is not a directory", abs)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the working directory %s does not exist", abs)
	case err != nil:
		return "", fmt.Errorf("the working directory %s may not be entered: %w", abs, err)
	}
	return abs, nil
}

// openStdin opens the standard input of the command. It refuses a FIFO, because opening or reading it could block for
// ever.
func openStdin(path string) (*os.File, error) {
	if path == "" {
		path = os.DevNull
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() && st.Mode()&fs.ModeCharDevice == 0 {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err == nil {
		err = unix.SetNonblock(int(f.Fd()), false)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// explainStart explains an errno of fork or exec in words. path is the program.
func explainStart(spec *Spec, path string, no syscall.Errno) error {
	var why, advice string
	switch no {
	case syscall.E2BIG:
		total, longest := 0, 0
		for _, a := range slices.Concat(spec.Argv, spec.Env) {
			total, longest = total+len(a)+1, max(longest, len(a))
		}
		why = fmt.Sprintf("arguments and environment are too long for this system (%d bytes, the longest one %d; Linux takes 131071 in one)", total, longest)
		advice = `; pass the prompt on standard input or as a file (prompt_mode "stdin" or "file")`
	case syscall.ENOEXEC:
		why = path + " is not a program for this system, and has no #! line"
	case syscall.ENOENT:
		why = path + ", or the loader that it needs, does not exist"
		if line := shebang(path); line != "" {
			why = fmt.Sprintf("the interpreter in the first line of %s (%s) does not exist", path, line)
		}
	case syscall.EACCES:
		why = path + " may not be executed (file mode, or a file system mounted noexec)"
	case syscall.EAGAIN:
		why = "no more processes may be made (ulimit -u, or a pids limit of the container)"
	default:
		return fmt.Errorf("starting %s (%s): %w", spec.Argv[0], path, no)
	}
	return fmt.Errorf("starting %s: %s: %w%s", spec.Argv[0], why, no, advice)
}

// shebang returns the first line of a script, or "" if the file is not a script.
func shebang(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, 128)).ReadString('\n')
	if !strings.HasPrefix(line, "#!") {
		return ""
	}
	return strings.TrimRight(line, "\r\n")
}

// NotFoundError says that a program does not exist (errors.Is fs.ErrNotExist), or exists but may not be executed
// (errors.Is fs.ErrPermission).
type NotFoundError struct {
	Name     string
	Searched string // the PATH; "" if Name is a path or PATH was not set
	Found    string // a file of that name that is not executable, or ""
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

func (e *NotFoundError) Unwrap() error {
	if e.Found != "" {
		return fs.ErrPermission
	}
	return fs.ErrNotExist
}

// RealName returns the name of the file that LookPath finds, without its directory, all links followed: fd for fdfind.
// It returns "" if there is none.
func RealName(file string, env []string) string {
	path, err := LookPath(file, env)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	return filepath.Base(path)
}

// LookPath finds a program as exec would with the given environment. It returns a name with a slash unchanged if the
// file is executable. It skips entries of PATH that are empty or relative: their meaning depends on the working
// directory, and a repository could provide a program there. The error is a *NotFoundError.
func LookPath(file string, env []string) (string, error) {
	missing := &NotFoundError{Name: file}
	candidates := []string{file}
	if !strings.Contains(file, "/") {
		candidates = nil
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, "PATH="); ok {
				missing.Searched = v
			}
		}
		for _, dir := range filepath.SplitList(missing.Searched) {
			if filepath.IsAbs(dir) && file != "" {
				candidates = append(candidates, filepath.Join(dir, file))
			}
		}
	}
	for _, path := range candidates {
		st, err := os.Stat(path)
		switch {
		case err != nil:
		case !st.IsDir() && st.Mode()&0o111 != 0 && unix.Access(path, unix.X_OK) == nil:
			return path, nil
		case missing.Found == "":
			missing.Found = path
		}
	}
	return "", missing
}

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

// Spec is one command to run.
type Spec struct {
	Argv  []string // Argv[0] is a path (relative to Dir), or a name that is looked up on Env's PATH
	Dir   string   // the working directory; "" is that of the supervisor
	Env   []string // the whole environment, exactly: nothing is added and nothing inherited
	Stdin string   // Stdin is a regular file or device that is opened as standard input; "" is /dev/null.
	// Files are inherited as descriptors 3, 4 and so on, at most MaxFiles. They stay open here, and are the caller's to
	// close.
	Files      []*os.File
	Namespaces Namespaces // Namespaces are made for the command alone, which is started as their first process.

	// Timeout bounds the run, Inactivity the time without a byte on either stream; 0 is no bound.
	Timeout, Inactivity time.Duration
	Grace               time.Duration // Grace is what the whole tree gets between SIGTERM and SIGKILL; 0 is 5 s.
	// Hurry, when closed, ends the grace that has begun or will begin: SIGKILL at once.
	Hurry <-chan struct{}

	// Log gets both streams as they come, cut at line ends where possible, from one goroutine at a time. An error ends
	// the logging, not the run. A Write that blocks holds up the command as well. LogLimit caps it: the first
	// LogLimit/2 bytes at once, and at the end a line that says how many are missing and the last bytes, at most 1 MiB
	// and LogLimit/2. 0 is 64 MiB.
	Log      io.Writer
	LogLimit int64
	// Stdout and Stderr see every byte as it comes, each from its own goroutine. The slice is only good during the
	// call.
	Stdout, Stderr func(p []byte)
	// HeadTail is how many bytes of each stream Result keeps, of the beginning and the end each; 0 is 32 KiB, below is
	// none.
	HeadTail int

	// Marker is an entry of Env (KEY=value) that nothing but this tree has in its environment. If the spawner process
	// is lost at a level below PIDNamespace, Sweep(Marker) ends what it can no longer end. "" is no such help.
	Marker string
}

// MaxFiles bounds Spec.Files.
const MaxFiles = 8

// Namespaces are those that a command gets for itself (Linux), besides what holds its tree together. What cannot be had
// makes the command NotStarted, with the errno of the clone in Result.Err.
type Namespaces struct {
	// User maps ours to the same numbers: for root as many as root here has, else the own user and group alone. In it
	// the others may be had without CAP_SYS_ADMIN, and the command has that capability there: it is to use it and to
	// give it up.
	User bool `json:"user,omitempty"`
	// Mount is a copy of ours; Network has a loopback device, which is down, and nothing else.
	Mount   bool `json:"mount,omitempty"`
	Network bool `json:"network,omitempty"`
}

// Reason is why a run ended.
type Reason string

const (
	Exited     Reason = "exited"      // by itself; see Code and Signal
	TimedOut   Reason = "timeout"     // Spec.Timeout
	Inactive   Reason = "inactive"    // Spec.Inactivity
	Killed     Reason = "killed"      // the context
	NotStarted Reason = "not_started" // Result.Err says why
	Lost       Reason = "lost"        // the spawner process died; how the command ended is not known
)

// Result is how a run ended. It is filled as far as things went, also next to an error.
type Result struct {
	Code   int    // the exit code, -1 if a signal ended the main process or it never ran
	Signal string // the name of that signal ("SIGKILL"), else ""
	Ended  Reason
	Err    error // why the command was not started, or what could not be killed, in words for the user

	Duration             time.Duration
	UserTime, SystemTime time.Duration // of the whole tree
	// LeftBehind counts the processes that were still there when the main one had ended by itself, or when the grace
	// was over; they were killed. At ProcessGroup it is 0 or 1.
	LeftBehind int

	Stdout, Stderr Capture
	LogDropped     int64     // bytes that Log did not get
	LogErr         error     // the first error of Log
	LastOutput     time.Time // of the last byte on either stream; zero if there was none
}

// Level names what keeps a tree of processes together, from the surest down. Each level includes the walk over the
// descendants of the one below it, except that PIDNamespace needs none.
type Level string

const (
	// PIDNamespace (Linux, needs CAP_SYS_ADMIN): the spawner process is PID 1 of a PID namespace with its own /proc.
	// One kill(-1) ends all at once, and the kernel does it when the spawner process dies. Mounts made inside stay
	// inside.
	PIDNamespace Level = "pid_namespace"
	// Cgroup (Linux, needs a cgroup v2 that we may write): each tree gets a fresh cgroup, ended by cgroup.kill. That
	// kills all at once too, but if supervisor and spawner process are killed at the same moment, only the next Start
	// does it.
	Cgroup Level = "cgroup"
	// Subreaper (Linux): the spawner process adopts orphans, and kills what descends from it until /proc shows nothing.
	Subreaper Level = "subreaper"
	// ProcessGroup (any Unix): only the process group of the command is killed. A process that made its own session
	// escapes.
	ProcessGroup Level = "process_group"
)

// Levels are all levels, the surest first.
func Levels() []Level { return []Level{PIDNamespace, Cgroup, Subreaper, ProcessGroup} }

// available are the levels that there may be on this system, the surest first.
func available() []Level {
	if runtime.GOOS == "linux" {
		return Levels()
	}
	return []Level{ProcessGroup}
}

// from returns the levels to try on this system, best first, none above l. An unknown or empty l means all.
func (l Level) from() []Level {
	all := available()
	return all[max(0, slices.Index(all, l)):]
}

// maxArguments bounds arguments and environment in bytes. Linux refuses to exec with more than 6 MiB of them.
const maxArguments = 32 << 20

// prepare fills in the defaults of a Spec, checks what the kernel would only answer with a bare error number, and opens
// stdin.
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

// openStdin opens a file for the command. A FIFO is refused: opening or reading it could wait for ever.
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

// explainStart says in words what the errno of fork or exec means. path is what was to be executed.
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

// shebang returns the first line of a script, "" if the file is none.
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

// NotFoundError says that a program is not there, or is there but may not be executed. errors.Is tells the two apart:
// fs.ErrNotExist, fs.ErrPermission.
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

package proc

import (
	"io"
	"os"
	"runtime"
	"slices"
	"time"
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

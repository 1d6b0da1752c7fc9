package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/workdir"
)

// What a Spec has where it says nothing.
const (
	DefaultTimeout     = 120 * time.Second
	DefaultGrace       = 5 * time.Second
	DefaultOutputLimit = 64 << 20
	DefaultKeep        = 256 << 10
	MaxCommand         = 64 << 10 // the longest command in bytes: Linux takes 128 KiB in one argument
)

// Network says which network a command has.
type Network string

// The networks.
const (
	FullNetwork Network = "full" // the supervisor's; "" is the same
	NoNetwork   Network = "none" // a loopback device that is down
)

// Spec is one command that was approved.
type Spec struct {
	Command string   // given to bash -c byte for byte, with --noprofile, --norc and pipefail
	Place   Place    // where it runs; see Resolve
	Env     []string // its whole environment; see Environment
	// Writable are the only places where it may write, as far as the level holds: absolute paths of directories, or of
	// files. The repository is one of them without being listed. A directory that is missing is made, with mode 0700.
	// See NewTmp and Caches.
	Writable []string
	// Protected may not be written although it lies in something writable, and Hidden cannot be seen, both only with a
	// mount namespace. What does not exist cannot be protected; see Result.Appeared. See Protected and Sockets for what
	// is usual.
	Protected, Hidden []string
	Network           Network
	Required          Level       // the level below which nothing is run; "" is None
	Without           []Mechanism // what is not to be used

	// Timeout bounds the run; Grace is what its tree gets between SIGTERM and SIGKILL. Hurry, when closed, ends the
	// grace.
	Timeout, Grace time.Duration
	Hurry          <-chan struct{}

	// Output gets both streams, line by line, without Secrets; nil is nothing. When OutputLimit bytes were written the
	// command is stopped. Keep is how much of the beginning, and of the end, of each stream the Result has.
	Output      io.Writer
	OutputLimit int64
	Keep        int
	Secrets     *redact.Replacer // taken out of everything that the command prints; see Secrets

	Marker string // Marker is proc.Spec.Marker. It is added to Env.
}

// Reason is why a command ended: one of proc's, or OutputLimit.
type Reason = proc.Reason

// OutputLimit: the command was stopped because it printed more than Spec.OutputLimit.
const OutputLimit Reason = "output_limit"

// Result is how a command ended.
type Result struct {
	// Code is the exit code, -1 if a signal ended it, whose name is Signal. 126 and 127 are bash's own: not executable,
	// not found.
	Code   int
	Signal string
	Ended  Reason
	Err    error // says what could not be killed, in words for the user

	// Duration counts from the beginning of the command. See proc.Result for the others.
	Duration, UserTime, SystemTime time.Duration
	LeftBehind                     int // counts the processes that had to be ended after it

	Output, Stdout, Stderr proc.Capture // both streams as they came, Stdout and Stderr each alone
	Dropped                int64        // how many bytes did not reach Spec.Output; OutputErr is its first error
	OutputErr              error

	// Appeared are those of Spec.Protected that did not exist before and do now: an operator should look at them.
	Appeared []string

	Sandbox Sandbox
}

// ErrNoBash: the commands of a policy are written for bash, and judged as bash would read them; sh reads some of them
// differently.
var ErrNoBash = errors.New("bash is not installed, and sh is not enough: commands are approved as bash reads them; install bash")

// RefusedError says that a command was not run because it would not have been confined as required.
type RefusedError struct {
	Required Level
	Network  Network // what was required, "" if that is not the trouble
	Sandbox  Sandbox // what could be had
}

func (e *RefusedError) Error() string {
	why := ""
	if len(e.Sandbox.Notes) > 0 {
		why = " (" + strings.Join(e.Sandbox.Notes, "; ") + ")"
	}
	if e.Network == NoNetwork {
		return "refused, nothing was run: the command is to have no network, and a network namespace cannot be had here" + why
	}
	return fmt.Sprintf("refused, nothing was run: the sandbox level %q is required, and only %q can be had here%s; superloop doctor says what is missing", e.Required, e.Sandbox.Level, why)
}

// complete checks the Spec and fills in what it leaves open.
func (s *Spec) complete() error {
	switch {
	case strings.TrimSpace(s.Command) == "":
		return errors.New("no command was given")
	case len(s.Command) > MaxCommand:
		return fmt.Errorf("the command has %d bytes, %d is the most", len(s.Command), MaxCommand)
	case strings.IndexByte(s.Command, 0) >= 0:
		return errors.New("the command contains a NUL byte")
	case !filepath.IsAbs(s.Place.Repo) || s.Place.RepoID == (FileID{}) || s.Place.DirID == (FileID{}):
		return errors.New("the place to run in was not resolved")
	case s.Network != "" && s.Network != FullNetwork && s.Network != NoNetwork:
		return fmt.Errorf("network %q is neither %q nor %q", s.Network, FullNetwork, NoNetwork)
	case s.Required != "" && !slices.Contains(Levels(), s.Required):
		return fmt.Errorf("there is no sandbox level %q, only %q", s.Required, Levels())
	}
	for _, e := range s.Env {
		if strings.IndexByte(e, 0) >= 0 {
			name, _, _ := strings.Cut(e, "=")
			return fmt.Errorf("the environment variable %q contains a NUL byte", name)
		}
	}
	s.Timeout, s.Grace = cmp.Or(max(s.Timeout, 0), DefaultTimeout), cmp.Or(max(s.Grace, 0), DefaultGrace)
	s.OutputLimit, s.Keep = cmp.Or(max(s.OutputLimit, 0), DefaultOutputLimit), cmp.Or(s.Keep, DefaultKeep)
	s.Writable = append([]string{s.Place.Repo}, s.Writable...)
	for _, list := range [][]string{s.Writable, s.Protected, s.Hidden} {
		for _, p := range list {
			if !filepath.IsAbs(p) || strings.IndexByte(p, 0) >= 0 {
				return fmt.Errorf("%q is not an absolute path", p)
			}
		}
	}
	return s.disjoint()
}

// disjoint refuses what contradicts itself: a writable place inside of one that may not be written or seen.
func (s *Spec) disjoint() error {
	closed := slices.Concat(s.Protected, s.Hidden)
	at := make([]string, len(closed))
	for i, p := range closed {
		at[i] = real(p)
	}
	for _, w := range s.Writable {
		place := real(w)
		for i, p := range closed {
			if under(place, at[i]) {
				return fmt.Errorf("%s is to be writable, and lies in %s, which is protected or hidden", w, p)
			}
		}
	}
	return nil
}

// under reports whether path is dir or lies below it; both are absolute.
func under(path, dir string) bool {
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// real is path without symbolic links, as far as it exists.
func real(path string) string {
	path = filepath.Clean(path)
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(real(parent), filepath.Base(path))
}

// Level names what confined a command; see the package comment for what each promises.
type Level string

// The levels, the weakest first.
const (
	None          Level = "none"
	Landlock      Level = "landlock"
	Mount         Level = "mount"
	LandlockMount Level = "landlock+mount"
)

// Levels are all levels, the weakest first.
func Levels() []Level { return []Level{None, Landlock, Mount, LandlockMount} }

// Meets reports whether l is at least as much as required. Nothing meets a level that does not exist, so that a
// mistyped one refuses; "" requires nothing.
func (l Level) Meets(required Level) bool {
	if required == "" {
		return true
	}
	need := slices.Index(Levels(), required)
	return need >= 0 && slices.Index(Levels(), l) >= need
}

// Sandbox says what held a command, or would hold one.
type Sandbox struct {
	Level Level `json:"level"`
	// LandlockABI is the version of the kernel's Landlock, whether it was used or not; 0 is none.
	LandlockABI int  `json:"landlock_abi"`
	MountNS     bool `json:"mountns"` // the namespaces that were made for the command
	UserNS      bool `json:"userns"`
	NetNS       bool `json:"netns"`
	// Tree is what held its tree of processes together; Cgroup is true if that was a cgroup.
	Tree   proc.Level `json:"tree"`
	Cgroup bool       `json:"cgroup"`
	Notes  []string   `json:"notes,omitempty"` // say what could not be had, and why
}

// Mechanism is something that may be left out: a command that brings a sandbox of its own (bubblewrap, rootless podman)
// does not start under Landlock.
type Mechanism string

// The mechanisms.
const (
	UseLandlock Mechanism = "landlock"
	UseMount    Mechanism = "mount" // the mount namespace
)

// FileID names a file or directory, whatever it is called, for as long as it exists.
type FileID = workdir.ID

// Place is a directory in a repository, and which ones the two were when it was decided that a command may run there.
// By its IDs the shim notices that somebody put another directory in its place.
type Place struct {
	Repo   string `json:"repo"`    // absolute, without symbolic links
	Dir    string `json:"dir"`     // below Repo; "." is Repo itself
	RepoID FileID `json:"repo_id"` // and DirID are what the two paths led to
	DirID  FileID `json:"dir_id"`
}

// Resolve finds a working directory in a repository, as workdir.Root does; a refusal is a *workdir.Error.
func Resolve(repo, dir string) (Place, error) {
	p, fds, err := open(repo, dir)
	if err != nil {
		return Place{}, err
	}
	fds.close()
	return p, nil
}

// opened are the two directories of a Place.
type opened struct {
	repo *workdir.Root
	dir  *workdir.Dir
}

func (o opened) close() {
	_ = o.repo.Close() // they were only looked at
	_ = o.dir.Close()
}

// open is Resolve; it gives the two directories as well.
func open(repo, dir string) (Place, opened, error) {
	if !filepath.IsAbs(repo) {
		return Place{}, opened{}, fmt.Errorf("the repository %q is not an absolute path", repo)
	}
	root, err := workdir.OpenRoot(repo)
	if err != nil {
		return Place{}, opened{}, err
	}
	at, err := root.Resolve(dir)
	if err != nil {
		_ = root.Close() // it was only looked at
		return Place{}, opened{}, err
	}
	return Place{Repo: root.Real, Dir: at.Rel, RepoID: root.ID, DirID: at.ID}, opened{root, at}, nil
}

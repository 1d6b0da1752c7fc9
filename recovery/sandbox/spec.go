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

// The defaults of a Spec, and the longest command.
const (
	DefaultTimeout     = 120 * time.Second
	DefaultGrace       = 5 * time.Second
	DefaultOutputLimit = 64 << 20
	DefaultKeep        = 256 << 10
	MaxCommand         = 64 << 10 // bytes; Linux accepts at most 128 KiB in one argument
)

// Network says which network access a command has.
type Network string

// The networks.
const (
	FullNetwork Network = "full" // the network of superloop; "" means the same
	NoNetwork   Network = "none" // only a loopback device, which is down
)

// Spec describes one approved command and its sandbox.
type Spec struct {
	Command string   // passed to bash -c byte for byte, with --noprofile, --norc and pipefail
	Place   Place    // the directory in which the command runs; see Resolve
	Env     []string // the complete environment; see Environment
	// Writable lists the only directories and files that the command may write, as far as the level ensures this. All
	// paths are absolute. The repository is always writable. Run makes a missing directory with mode 0700. See NewTmp
	// and Caches.
	Writable []string
	// Protected lists paths that the command may not write, even inside of a writable directory. Hidden lists paths
	// that the command cannot see. Both need a mount namespace. A path that does not exist cannot be protected; see
	// Result.Appeared. The function Protected returns the usual paths; the usual sockets are in package steering.
	Protected, Hidden []string
	Network           Network
	// Ports lists TCP ports that the command can neither connect to nor listen on, where the wall is to be had. See the
	// package comment.
	Ports    []uint16
	Required Level       // below this level nothing runs; "" is None
	Without  []Mechanism // mechanisms that must not be used

	// Timeout bounds the run. Grace is the time between SIGTERM and SIGKILL for the process tree. A closed Hurry ends
	// the grace at once.
	Timeout, Grace time.Duration
	Hurry          <-chan struct{}

	// Output receives both streams, line by line, without Secrets; nil discards them. After OutputLimit bytes the
	// command is stopped. Keep is the number of bytes that the Result keeps of the beginning, and again of the end, of
	// each stream.
	Output      io.Writer
	OutputLimit int64
	Keep        int
	Secrets     *redact.Replacer // removed from everything that the command prints; see the function Secrets

	Marker string // as proc.Spec.Marker; it is added to Env
}

// Reason says why a command ended: a reason of package proc, or OutputLimit.
type Reason = proc.Reason

// OutputLimit means that the command was stopped because it printed more than Spec.OutputLimit bytes.
const OutputLimit Reason = "output_limit"

// Result says how a command ended.
type Result struct {
	// Code is the exit code, or -1 if a signal ended the command; Signal is its name. bash itself exits with 126 (not
	// executable) and 127 (not found).
	Code   int
	Signal string
	Ended  Reason
	Err    error // which processes could not be killed, in words for the operator

	// Duration counts from the start of the command. For the other two see proc.Result.
	Duration, UserTime, SystemTime time.Duration
	LeftBehind                     int // processes that had to be ended after the command

	Output, Stdout, Stderr proc.Capture // Output holds both streams in the order of arrival
	Dropped                int64        // bytes that did not reach Spec.Output; OutputErr is its first error
	OutputErr              error

	// Appeared lists the paths of Spec.Protected that did not exist before the run and exist now. An operator should
	// look at them.
	Appeared []string

	Sandbox Sandbox
}

// ErrNoBash says that bash is not installed. The commands of a policy are written for bash and judged as bash reads
// them; sh reads some of them differently.
var ErrNoBash = errors.New("bash is not installed, and sh is not enough: commands are approved as bash reads them; install bash")

// RefusedError says that a command did not run because the required confinement was not available.
type RefusedError struct {
	Required Level
	Network  Network // NoNetwork if the missing network namespace is the reason, else ""
	Sandbox  Sandbox // the confinement that was available
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

// complete checks the Spec and fills in the defaults.
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

// disjoint returns an error if a writable path lies in a protected or hidden one.
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

// under reports whether path is dir or lies below it. Both paths are absolute.
func under(path, dir string) bool {
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// real returns path with symbolic links resolved, as far as the path exists.
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

// Level names the mechanisms that confine a command. The package comment says what each level promises.
type Level string

// The levels, the weakest first.
const (
	None          Level = "none"
	Landlock      Level = "landlock"
	Mount         Level = "mount"
	LandlockMount Level = "landlock+mount"
)

// Levels returns all levels, the weakest first.
func Levels() []Level { return []Level{None, Landlock, Mount, LandlockMount} }

// Meets reports whether l is at least as strong as required. An empty level requires nothing. An unknown level is never
// met, so a mistyped level makes superloop refuse the command.
func (l Level) Meets(required Level) bool {
	if required == "" {
		return true
	}
	need := slices.Index(Levels(), required)
	return need >= 0 && slices.Index(Levels(), l) >= need
}

// Sandbox says which mechanisms confined a command, or would confine one.
type Sandbox struct {
	Level Level `json:"level"`
	// LandlockABI is the version of Landlock in the kernel, whether it was used or not; 0 means that there is none.
	LandlockABI int  `json:"landlock_abi"`
	MountNS     bool `json:"mountns"` // the namespaces that were made for the command
	UserNS      bool `json:"userns"`
	NetNS       bool `json:"netns"`
	// Walled lists the ports of Spec.Ports if the wall stands, and none otherwise. A command with NoNetwork needs none.
	Walled []uint16 `json:"walled,omitempty"`
	// Tree is the mechanism that held the process tree together. Cgroup is true if it was a cgroup.
	Tree   proc.Level `json:"tree"`
	Cgroup bool       `json:"cgroup"`
	Notes  []string   `json:"notes,omitempty"` // the mechanisms that were not available, and why
}

// Mechanism is a part of the sandbox that Spec.Without can leave out. A command that brings a sandbox of its own
// (bubblewrap, rootless podman) does not start under Landlock.
type Mechanism string

// The mechanisms.
const (
	UseLandlock Mechanism = "landlock"
	UseMount    Mechanism = "mount" // the mount namespace
)

// FileID identifies a file or directory by device and inode, independent of its name, as long as the file exists.
type FileID = workdir.ID

// Place is a working directory in a repository, with the identity of both directories at the time of the decision that
// a command may run there. By the two IDs the shim detects that somebody has replaced a directory.
type Place struct {
	Repo   string `json:"repo"`    // absolute, without symbolic links
	Dir    string `json:"dir"`     // below Repo; "." is Repo itself
	RepoID FileID `json:"repo_id"` // RepoID and DirID are the identities of the two directories
	DirID  FileID `json:"dir_id"`
}

// Resolve finds the working directory dir in the repository repo, as workdir.Root does. If dir is refused, the error is
// a *workdir.Error.
func Resolve(repo, dir string) (Place, error) {
	p, fds, err := open(repo, dir)
	if err != nil {
		return Place{}, err
	}
	fds.close()
	return p, nil
}

// opened holds the two open directories of a Place.
type opened struct {
	repo *workdir.Root
	dir  *workdir.Dir
}

func (o opened) close() {
	_ = o.repo.Close() // they were only read
	_ = o.dir.Close()
}

// open does the same as Resolve, and also returns the two open directories.
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
		_ = root.Close() // it was only read
		return Place{}, opened{}, err
	}
	return Place{Repo: root.Real, Dir: at.Rel, RepoID: root.ID, DirID: at.ID}, opened{root, at}, nil
}

package recovery

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/schemas"
)

// Proposal is what a tester proposes: recovery.json, version 1.
type Proposal struct {
	Digest    string        `json:"digest"` // the SHA-256, in hex, of the file's bytes
	Timestamp time.Time     `json:"timestamp"`
	Category  string        `json:"category"` // dependency, config, environment, permissions, network
	Severity  string        `json:"severity"` // blocking, degraded
	Diagnosis Diagnosis     `json:"diagnosis"`
	Recovery  action.Action `json:"recovery"`
	// Fallback is judged, and counted, by itself; nil when there is none.
	Fallback *action.Action `json:"fallback,omitempty"`
	Notes    []string       `json:"notes,omitempty"` // say what was taken otherwise than it was written
}

// Diagnosis is what was found.
type Diagnosis struct {
	ErrorPattern string   `json:"error_pattern"`
	RootCause    string   `json:"root_cause"`
	Evidence     []string `json:"evidence"`
}

// fileAttempt is an action as a tester writes it.
type fileAttempt struct {
	Command         string  `json:"command"`
	WorkingDir      *string `json:"working_dir"`
	TimeoutSeconds  *int64  `json:"timeout_seconds"`
	ExpectedOutcome string  `json:"expected_outcome"`
	Confidence      string  `json:"confidence"`
}

// DecodeProposal reads the bytes of a recovery.json strictly: see schemas.Read for what is refused. maxTimeout bounds
// the time that the commands may ask for; a longer one is cut, with a note.
func DecodeProposal(data []byte, maxTimeout time.Duration) (*Proposal, []schemas.Problem) {
	var f struct {
		Timestamp time.Time    `json:"timestamp"`
		Category  string       `json:"category"`
		Severity  string       `json:"severity"`
		Diagnosis Diagnosis    `json:"diagnosis"`
		Recovery  fileAttempt  `json:"recovery"`
		Fallback  *fileAttempt `json:"fallback"`
	}
	if problems := schemas.Into(schemas.Recovery, data, &f); len(problems) > 0 {
		return nil, problems
	}
	sum := sha256.Sum256(data)
	p := &Proposal{Digest: hex.EncodeToString(sum[:]), Timestamp: f.Timestamp, Category: f.Category, Severity: f.Severity, Diagnosis: f.Diagnosis}
	p.Recovery = p.attempt("recovery", f.Recovery, action.Draft{WorkingDir: ".", TimeoutMS: DefaultTimeout.Milliseconds()}, maxTimeout)
	if f.Fallback != nil {
		fallback := p.attempt("fallback", *f.Fallback, action.Draft{WorkingDir: p.Recovery.WorkingDir, TimeoutMS: p.Recovery.TimeoutMS}, maxTimeout)
		p.Fallback = &fallback
	}
	return p, nil
}

// attempt fills in what was not written from what it inherits.
func (p *Proposal) attempt(name string, f fileAttempt, from action.Draft, maxTimeout time.Duration) action.Action {
	a := action.Draft{Command: f.Command, WorkingDir: from.WorkingDir, TimeoutMS: from.TimeoutMS, Expected: f.ExpectedOutcome, Confidence: f.Confidence}
	if f.WorkingDir != nil {
		a.WorkingDir = *f.WorkingDir
	}
	if f.TimeoutSeconds != nil {
		a.TimeoutMS = (time.Duration(*f.TimeoutSeconds) * time.Second).Milliseconds()
	}
	if most := maxTimeout.Milliseconds(); most > 0 && a.TimeoutMS > most {
		if f.TimeoutSeconds != nil || name == "recovery" {
			p.Notes = append(p.Notes, fmt.Sprintf("%s.timeout_seconds is cut from %d to %d, the most that max_timeout_seconds allows",
				name, a.TimeoutMS/1000, int64(maxTimeout/time.Second)))
		}
		a.TimeoutMS = most
	}
	return a.Action()
}

// ProposalFile is what a tester writes in the loop's directory.
const ProposalFile = "recovery.json"

// Names that a proposal has on its way. A crash leaves it under one of them, and the next Take goes on from there.
const (
	incoming = "recovery.incoming"  // in the private directory
	underway = ".recovery.underway" // in the loop's, if the private one is on another file system
)

// Taken is a proposal that is out of the agent's reach.
type Taken struct {
	Data     []byte            // the file's bytes, read once; nil when they could not be had
	Digest   string            // the SHA-256 of Data in hex, "" without
	Path     string            // Path is where the bytes are kept now. What could not be read is kept there as it is.
	Problems []schemas.Problem // say why there are no bytes: a link, a pipe, too large
}

// ReadProposal looks at the proposal in a loop's directory without taking it. The error is fs.ErrNotExist if there is
// none, and a *schemas.Problem as in Taken if it is not a plain file. What it returns may be gone or changed a moment
// later: it is for showing.
func ReadProposal(loopDir string) ([]byte, error) {
	dir, err := openDir(loopDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	data, problem, err := readPlain(dir, ProposalFile)
	if problem != nil {
		return nil, fmt.Errorf("%s: %s", ProposalFile, problem.Message)
	}
	return data, err
}

// Take moves the proposal in a loop's directory into the private directory, which must exist, reads it there once, and
// keeps what it read as "recovery-<digest>.json". From its first step on the agent cannot change what is judged; a
// newer proposal is the next one to take. The error is fs.ErrNotExist if there is none.
//
// Killed at any point, the next Take finds it again. A power cut may bring a proposal back that was taken; whoever
// takes it keeps a record of what was dealt with. The steps on the disk have the operation "proposal".
func Take(disk durable.Disk, loopDir, privateDir string) (Taken, error) {
	const op = "proposal"
	dir, err := openDir(loopDir)
	if err != nil {
		return Taken{}, err
	}
	defer dir.Close()
	private, err := openDir(privateDir)
	if err != nil {
		return Taken{}, err
	}
	defer private.Close()
	from, name, err := moved(disk, dir, private)
	if err != nil {
		return Taken{}, err
	}
	data, problem, err := readPlain(from, name)
	if err != nil {
		return Taken{}, err
	}
	if problem != nil {
		kept, err := setAside(disk, from, name)
		return Taken{Path: kept, Problems: []schemas.Problem{*problem}}, err
	}
	sum := sha256.Sum256(data)
	t := Taken{Data: data, Digest: hex.EncodeToString(sum[:])}
	t.Path = filepath.Join(privateDir, "recovery-"+t.Digest[:16]+".json")
	if err := disk.WriteProjection(op, t.Path, data, 0o600); err != nil {
		return Taken{}, fmt.Errorf("keeping the proposal: %w", err)
	}
	if err := disk.Unlink(op, in(from, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Taken{}, fmt.Errorf("removing the proposal that was taken: %w", err)
	}
	return t, nil
}

// moved brings the proposal to where it is read, one that a crash left first.
func moved(disk durable.Disk, dir, private *os.File) (at *os.File, name string, err error) {
	const op = "proposal"
	for _, left := range []struct {
		dir  *os.File
		name string
	}{{private, incoming}, {dir, underway}} {
		if _, err := lstat(left.dir, left.name); err == nil {
			return left.dir, left.name, nil
		}
	}
	if _, err := lstat(dir, ProposalFile); err != nil {
		return nil, "", &fs.PathError{Op: "taking", Path: filepath.Join(dir.Name(), ProposalFile), Err: err}
	}
	err = disk.Move(op, in(dir, ProposalFile), in(private, incoming))
	if errors.Is(err, unix.EXDEV) {
		return dir, underway, disk.Move(op, in(dir, ProposalFile), in(dir, underway))
	}
	return private, incoming, err
}

// setAside keeps what is no plain file where it is, under the first name that is free.
func setAside(disk durable.Disk, dir *os.File, name string) (string, error) {
	const most = 1000
	for n := 1; n <= most; n++ {
		free := "recovery-refused-" + strconv.Itoa(n)
		if _, err := lstat(dir, free); errors.Is(err, fs.ErrNotExist) {
			if err := disk.Rename("proposal", in(dir, name), in(dir, free)); err != nil {
				return "", fmt.Errorf("setting the proposal aside: %w", err)
			}
			return filepath.Join(dir.Name(), free), nil
		}
	}
	return "", fmt.Errorf("%s holds %d refused proposals; remove them", dir.Name(), most)
}

// openDir opens a directory, not through a link as its last component.
func openDir(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the folder: %w", &fs.PathError{Op: "open", Path: path, Err: err})
	}
	return os.NewFile(uintptr(fd), path), nil
}

func lstat(dir *os.File, name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	return st, unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
}

// readPlain reads a plain file of one name and of a proposal's size, once; otherwise it says what it is.
func readPlain(dir *os.File, name string) ([]byte, *schemas.Problem, error) {
	bad := func(format string, args ...any) ([]byte, *schemas.Problem, error) {
		return nil, &schemas.Problem{Code: "unsafe_file", Message: fmt.Sprintf(format, args...)}, nil
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return bad("it is a symbolic link; write it as a plain file")
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EACCES), errors.Is(err, unix.EOPNOTSUPP):
		return bad("it cannot be read: %v; write it as a plain file", err)
	case err != nil:
		return nil, nil, &fs.PathError{Op: "open", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	f := os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name))
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, nil, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	limit := schemas.Recovery.Limit()
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return bad("it is not a plain file")
	case st.Nlink != 1:
		return bad("it has %d names (hard links); write it as a file of its own", st.Nlink)
	case st.Size > int64(limit):
		return bad("it has %d bytes; a proposal has at most %d", st.Size, limit)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the proposal: %w", err)
	}
	if len(data) > limit { // it grew while it was read
		return bad("it has more than %d bytes", limit)
	}
	return data, nil, nil
}

// in is a path to an entry of an open directory. Nothing above it can be exchanged any more, where /proc is.
func in(dir *os.File, name string) string {
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
	}
	return filepath.Join(dir.Name(), name)
}

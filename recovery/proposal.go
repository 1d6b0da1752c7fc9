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

// Proposal is the content of recovery.json, version 1: the recovery that a tester proposes.
type Proposal struct {
	Digest    string        `json:"digest"` // the SHA-256, in hex, of the file's bytes
	Timestamp time.Time     `json:"timestamp"`
	Category  string        `json:"category"` // dependency, config, environment, permissions, network
	Severity  string        `json:"severity"` // blocking, degraded
	Diagnosis Diagnosis     `json:"diagnosis"`
	Recovery  action.Action `json:"recovery"`
	// Fallback is judged and counted separately from Recovery; nil when the tester proposes none.
	Fallback *action.Action `json:"fallback,omitempty"`
	Notes    []string       `json:"notes,omitempty"` // say which values differ from the file, and why
}

// Diagnosis is what the tester says about the cause of the failure.
type Diagnosis struct {
	ErrorPattern string   `json:"error_pattern"`
	RootCause    string   `json:"root_cause"`
	Evidence     []string `json:"evidence"`
}

// fileAttempt is an action in the form in which a tester writes it.
type fileAttempt struct {
	Command         string  `json:"command"`
	WorkingDir      *string `json:"working_dir"`
	TimeoutSeconds  *int64  `json:"timeout_seconds"`
	ExpectedOutcome string  `json:"expected_outcome"`
	Confidence      string  `json:"confidence"`
}

// DecodeProposal reads the bytes of a recovery.json strictly; schemas.Read lists what is refused. maxTimeout bounds the
// timeouts of the commands. DecodeProposal cuts a longer timeout and adds a note.
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

// attempt makes an action of f. Values that the tester left out come from from.
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

// ProposalFile is the name of the file that a tester writes into the loop's directory.
const ProposalFile = "recovery.json"

// These are the names of a proposal while Take moves it. After a crash the next Take looks for a proposal under these
// names first.
const (
	incoming = "recovery.incoming"  // in the private directory
	underway = ".recovery.underway" // in the loop's directory, if the private directory is on another file system
)

// Taken is a proposal that the agent can no longer change.
type Taken struct {
	Data     []byte            // the bytes of the file, read once; nil when superloop could not read them
	Digest   string            // the SHA-256 of Data in hex; "" without Data
	Path     string            // Path is the file in which superloop keeps the bytes. An unreadable file is kept there unchanged.
	Problems []schemas.Problem // say why Data is nil: the file is a link, a pipe, too large
}

// ReadProposal reads the proposal in a loop's directory without taking it. The error is fs.ErrNotExist if there is no
// proposal. If the proposal is not a plain file, the error says why. The file may be gone or changed a moment later, so
// the result is only for display.
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

// Take moves the proposal from a loop's directory into the private directory, which must exist. Take reads the proposal
// there once and keeps the bytes as "recovery-<digest>.json", with the first 16 digits of the digest. From the first
// step of Take on, the agent cannot change the proposal that is judged. A newer proposal is left for the next Take. The
// error is fs.ErrNotExist if there is no proposal.
//
// If superloop is killed at any point, the next Take finds the proposal again. After a power cut a proposal may come
// back that was taken before, so the caller keeps a record of the proposals that it has dealt with. The steps on the
// disk have the operation "proposal".
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

// moved moves the proposal to the place where Take reads it. A proposal that a crash left half moved comes first.
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

// setAside keeps a proposal that is not a plain file in its directory, under the first free name
// "recovery-refused-<n>".
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

// openDir opens a directory. It refuses a path whose last component is a link.
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

// readPlain reads a plain file once. The file must have one name and at most the size of a proposal; otherwise
// readPlain returns the problem.
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
	if len(data) > limit { // the file grew while readPlain read it
		return bad("it has more than %d bytes", limit)
	}
	return data, nil, nil
}

// in returns a path to an entry of an open directory. On Linux the path goes through /proc/self/fd, so that nobody can
// exchange a directory above the entry.
func in(dir *os.File, name string) string {
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
	}
	return filepath.Join(dir.Name(), name)
}

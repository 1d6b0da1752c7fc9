// Package roles knows the four roles of an iteration: what each is told, what each must leave behind, and how its last
// word is read.
//
// Render makes the prompt of one role as a pure function of its Input; Load finds the role's own part (embedded, or the
// owner's file) and Gather looks up the files that a prompt may point to. StampOf and Check tell whether a role wrote
// its report in its turn. ChooseLastMessage and ParseCommit read what it said at the end.
//
// The package reads files and never writes one. Everything that it reads may have been written by an agent, so it
// follows no symbolic link of an agent's making, reads no more than a stated bound, and fences what it quotes.
package roles

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// The roles, in the order in which they run.
const (
	Planner     = "planner"
	Implementer = "implementer"
	Tester      = "tester"
	Reviewer    = "reviewer"
)

// RecoveryFile is the tester's proposal, inside the loop's directory.
const RecoveryFile = "recovery.json"

var deliverables = map[string]string{Planner: "plan.md", Implementer: "implementer.md", Tester: "test-report.md", Reviewer: "review.md"}

// All returns the roles in the order in which they run.
func All() []string { return []string{Planner, Implementer, Tester, Reviewer} }

// Deliverable is the name, inside the loop's directory, of the report that the role must write; ok is false for a name
// that is not a role.
func Deliverable(role string) (file string, ok bool) {
	file, ok = deliverables[role]
	return file, ok
}

func unknownRole(role string) error {
	return fmt.Errorf("unknown role %q: the roles are %s", role, strings.Join(All(), ", "))
}

var (
	//go:embed prompts/*.md
	prompts embed.FS
	//go:embed prompts/rules.md
	rules string // that hold for every role
)

// MaxTemplate bounds a role's own part of the prompt, in bytes, so that a whole prompt stays below MaxPrompt.
const MaxTemplate = 48 << 10

// Load returns the role's part of the prompt, which is used verbatim: <dir>/<role>.md if there is such a file, else the
// embedded one. dir is the repository's .superloop/roles.
//
// A file that is there but cannot be used (unreadable, not a regular file, empty, over MaxTemplate, not UTF-8 text) is
// an error and never silently replaced: its owner believes that it is in force. A symbolic link is followed, since the
// file is the owner's and may be shared between repositories; one to nowhere is such an error too.
func Load(dir, role string) (string, error) {
	path := filepath.Join(dir, role+".md")
	builtin, err := Embedded(role)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return builtin, nil
	}
	text, err := readTemplate(path)
	if err != nil {
		return "", fmt.Errorf("role file %s %w; repair it, or delete it to use the built-in prompt", path, err)
	}
	return text, nil
}

// Embedded returns the built-in part of the prompt.
func Embedded(role string) (string, error) {
	if _, ok := Deliverable(role); !ok {
		return "", unknownRole(role)
	}
	b, err := prompts.ReadFile("prompts/" + role + ".md")
	return string(b), err
}

func readTemplate(path string) (string, error) {
	info, err := os.Stat(path) // opening a pipe would wait for its writer
	if err == nil && !info.Mode().IsRegular() {
		return "", errors.New("is not a regular file")
	}
	var b []byte
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		b, err = io.ReadAll(io.LimitReader(f, MaxTemplate+1))
	}
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	return string(b), checkTemplate(string(b))
}

func checkTemplate(text string) error {
	switch {
	case len(text) > MaxTemplate:
		return fmt.Errorf("is larger than %d bytes", MaxTemplate)
	case !utf8.ValidString(text):
		return errors.New("is not UTF-8 text")
	case strings.ContainsRune(text, 0):
		return errors.New("holds a NUL byte, so it is not text")
	case strings.TrimSpace(text) == "":
		return errors.New("is empty")
	}
	return nil
}

// Status says what a role left behind as its report.
type Status string

// The statuses of a report. The values stand in events and prompts.
const (
	Fresh   Status = "fresh"   // written during the run
	Stale   Status = "stale"   // there, but from an earlier turn
	Missing Status = "missing" // not there, or nothing that may be read
	Empty   Status = "empty"   // there, but nothing except white space in it
)

// maxHashed is how large a report may be, in bytes, to be hashed. Freshness of a larger one shows by size, time and
// inode alone.
const maxHashed = 16 << 20

// Stamp is what a report looked like at some time. The zero Stamp is that of a report that was not there, or that may
// not be read.
type Stamp struct {
	exists, blank bool
	size, written int64 // bytes; nanoseconds
	inode         uint64
	sum           [sha256.Size]byte // zero if there is more than maxHashed
}

// Outcome is what a role left behind.
type Outcome struct {
	File   string // the report's name inside the loop's directory
	Status Status
}

// StampOf looks at the role's report before the role runs.
func StampOf(loopDir, role string) Stamp {
	file, ok := Deliverable(role)
	if !ok {
		return Stamp{}
	}
	return stamp(filepath.Join(loopDir, file))
}

// Check looks at the role's report after the role ended, against the Stamp taken before it began.
//
// Fresh is a report that was written during the run: other bytes, another modification time, or another inode (a file
// written aside and renamed). The same bytes written anew are fresh: a planner who finds that the plan still stands and
// writes it again has done its duty, and the next prompt must not reproach it. The price is that `touch` passes for writing. Time alone cannot be believed either: a rewrite within the file
// system's clock tick shows by its hash.
func Check(loopDir, role string, before Stamp) Outcome {
	file, _ := Deliverable(role)
	switch now := StampOf(loopDir, role); {
	case !now.exists:
		return Outcome{file, Missing}
	case now.blank:
		return Outcome{file, Empty}
	case now != before:
		return Outcome{file, Fresh}
	}
	return Outcome{file, Stale}
}

func stamp(path string) Stamp {
	f, info, err := OpenRegular(path)
	if err != nil {
		return Stamp{}
	}
	defer f.Close()
	s := Stamp{exists: true, size: info.Size(), written: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = st.Ino
	}
	if s.size > maxHashed {
		return s
	}
	data, err := io.ReadAll(io.LimitReader(f, maxHashed))
	if err != nil {
		return Stamp{}
	}
	s.size, s.blank, s.sum = int64(len(data)), len(bytes.TrimSpace(data)) == 0, sha256.Sum256(data)
	return s
}

// ErrNotRegular is wrapped when a path is a symbolic link, a directory, a pipe, a socket or a device.
var ErrNotRegular = errors.New("not a regular file")

var kinds = map[fs.FileMode]string{fs.ModeSymlink: "a symbolic link", fs.ModeDir: "a directory", fs.ModeNamedPipe: "a pipe", fs.ModeSocket: "a socket"}

// OpenRegular opens for reading a file that an agent may have made. The last element of path is not followed if it is a
// symbolic link (an agent could point it at a secret), and a pipe without a writer does not block. The error wraps
// fs.ErrNotExist or ErrNotRegular where that is the cause.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	refuse := func(info fs.FileInfo) error {
		return fmt.Errorf("opening %s: %w (%s)", path, ErrNotRegular, cmp.Or(kinds[info.Mode().Type()], "a device"))
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		if info, lerr := os.Lstat(path); lerr == nil && !info.Mode().IsRegular() {
			err = refuse(info)
		}
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = refuse(info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// ReadRegular reads what OpenRegular may open: all of it up to head+tail bytes, else its first head and its last tail
// bytes with a line between them that says how many bytes were left out. size is the file's length when it was opened;
// a file that grows meanwhile is read no further.
func ReadRegular(path string, head, tail int) (text string, size int64, err error) {
	f, info, err := OpenRegular(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	size = info.Size()
	whole := size <= int64(head+tail)
	if whole {
		head, tail = int(size), 0
	}
	first, err := io.ReadAll(io.NewSectionReader(f, 0, int64(head)))
	var last []byte
	if err == nil && tail > 0 {
		last, err = io.ReadAll(io.NewSectionReader(f, size-int64(tail), int64(tail)))
	}
	switch {
	case err != nil:
		return "", size, fmt.Errorf("reading %s: %w", path, err)
	case whole:
		return string(first), size, nil
	}
	return JoinCut(string(first), string(last), size-int64(head+tail)), size, nil
}

// JoinCut puts the marker of left-out bytes between the head and the tail of a text. The marker is never empty, so that
// no tag can be formed by the two ends meeting.
func JoinCut(head, tail string, omitted int64) string {
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return fmt.Sprintf("%s[... %d bytes left out ...]\n%s", head, omitted, tail)
}

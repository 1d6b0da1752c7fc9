// Package roles knows the four roles of an iteration. It makes their prompts, says what each role must leave behind,
// and reads its last message.
//
// Render makes the prompt of one role as a pure function of its Input. Load returns the role's own part, which is
// embedded or the owner's file. Gather finds the files to which a prompt may point. StampOf and Check find out whether
// a role wrote its report in its turn. ChooseLastMessage and ParseCommit read the role's last message.
//
// The package reads files and never writes one. An agent may have written everything that it reads. So it follows no
// symbolic link of an agent, reads no more than a stated bound, and fences quoted text.
package roles

import (
	"bytes"
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

	"github.com/superloop/superloop/internal/door"
)

// The roles, in the order in which they run.
const (
	Planner     = "planner"
	Implementer = "implementer"
	Tester      = "tester"
	Reviewer    = "reviewer"
)

// RecoveryFile is the name of the tester's recovery proposal inside the loop's directory.
const RecoveryFile = "recovery.json"

var deliverables = map[string]string{Planner: "plan.md", Implementer: "implementer.md", Tester: "test-report.md", Reviewer: "review.md"}

// All returns the roles in the order in which they run.
func All() []string { return []string{Planner, Implementer, Tester, Reviewer} }

// Deliverable returns the name, inside the loop's directory, of the report that the role must write. ok is false if
// role is not a role.
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
	rules string // the rules that hold for every role
)

// MaxTemplate is the largest size of a role's own part of the prompt, in bytes. It keeps the whole prompt below
// MaxPrompt.
const MaxTemplate = 48 << 10

// Load returns the role's part of the prompt, which is used verbatim: <dir>/<role>.md if that file exists, else the
// embedded part. dir is the repository's .superloop/roles.
//
// If the file exists but is unusable (unreadable, not a regular file, empty, over MaxTemplate, not UTF-8 text), Load
// returns an error. It never silently uses the embedded part instead, because the owner believes that the file is in
// force. Load follows a symbolic link, because the file is the owner's and may be shared between repositories. A
// dangling link is an error.
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

// LoadPrompt returns the text of a file that is the whole prompt of a loop's only role. It refuses what Load refuses.
func LoadPrompt(path string) (string, error) {
	text, err := readTemplate(path)
	if err != nil {
		return "", fmt.Errorf("the prompt %s %w; put it back, then start the loop again", path, err)
	}
	return text, nil
}

// Embedded returns the built-in part of the prompt of a role.
func Embedded(role string) (string, error) {
	if _, ok := Deliverable(role); !ok {
		return "", unknownRole(role)
	}
	b, err := prompts.ReadFile("prompts/" + role + ".md")
	return string(b), err
}

func readTemplate(path string) (string, error) {
	f, _, err := door.OpenOwn(path)
	if errors.Is(err, door.ErrNotRegular) {
		return "", errors.New("is not a regular file")
	}
	var b []byte
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

// Status says in what state a role left its report.
type Status string

// The statuses of a report. Events and prompts hold these values.
const (
	Fresh   Status = "fresh"   // written during the run
	Stale   Status = "stale"   // present, but from an earlier turn
	Missing Status = "missing" // absent, or not a readable regular file
	Empty   Status = "empty"   // present, but with nothing except white space
)

// maxHashed is the size, in bytes, up to which a report is hashed. Whether a larger report is fresh is decided by size,
// modification time and inode alone.
const maxHashed = 16 << 20

// Stamp records the state of a report at some time. The zero Stamp stands for a report that is absent or unreadable.
type Stamp struct {
	exists, blank bool
	size, written int64 // size in bytes; modification time in nanoseconds
	inode         uint64
	sum           [sha256.Size]byte // zero if the report is larger than maxHashed
}

// Outcome says whether a role left its report.
type Outcome struct {
	File   string // the report's name inside the loop's directory
	Status Status
}

// StampOf returns the state of the role's report, before the role runs.
func StampOf(loopDir, role string) Stamp {
	file, ok := Deliverable(role)
	if !ok {
		return Stamp{}
	}
	return stamp(filepath.Join(loopDir, file))
}

// Check examines the role's report after the role has ended. It compares the report with the Stamp from before the run.
//
// A report is Fresh if it was written during the run: its content, modification time or inode has changed. A report
// that was rewritten with the same content is Fresh too, because a planner that finds the plan still valid and writes
// it again has done its duty. The price is that `touch` counts as writing. The hash also detects a rewrite within one
// tick of the file system's clock.
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
	f, info, err := door.Open(path)
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

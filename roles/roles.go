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
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

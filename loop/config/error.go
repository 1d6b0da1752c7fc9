package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/schemas"
)

// Problem is one thing that is wrong, or worth a warning, and its place.
type Problem = schemas.Problem

// Codes of problems beyond those of the schemas.
const (
	CodeNoFile      = "no_file"        // the config is not there
	CodeUnreadable  = "unreadable"     // it is, but cannot be read
	CodeDuplicate   = "duplicate"      // an id or name that must be the only one
	CodeReference   = "no_such_name"   // a name that stands for nothing
	CodeOutside     = "outside_repo"   // a path that leaves the repository
	CodeNotFound    = "not_found"      // a file or program that is not there
	CodePlaceholder = "placeholder"    // warning: {this} is not replaced
	CodeNoBound     = "no_bound"       // warning: nothing ends this loop
	CodeNoEffect    = "no_effect"      // warning: this does not do what it seems to
	CodeSuspicious  = "suspicious"     // warning: allowed, but hardly meant
	CodePlainHTTP   = "plain_http"     // warning: a secret travels unencrypted
	CodeUnsplit     = "not_splittable" // a command string with shell operators in it
)

// Error is why a configuration was refused: every problem, in the order of the file.
type Error struct {
	Path     string // the file as it was named by the caller
	Problems []Problem
	cause    error
}

// Error is one line for one problem, "path:line:column: pointer: message", and a line with the number of problems
// before several.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems)+1)
	if len(e.Problems) > 1 {
		lines = append(lines, fmt.Sprintf("%s has %d problems", e.Path, len(e.Problems)))
	}
	for _, p := range e.Problems {
		sep := ":"
		if p.Line == 0 {
			sep = ": "
		}
		lines = append(lines, e.Path+sep+p.String())
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the file system's error when the file could not be read.
func (e *Error) Unwrap() error { return e.cause }

// Hint is the command to type next.
func (e *Error) Hint() string {
	switch {
	case errors.Is(e.cause, fs.ErrNotExist):
		return "superloop init"
	case len(e.Problems) == 1 && e.Problems[0].Code == schemas.CodeEmpty:
		return "superloop init --force"
	}
	return "superloop validate"
}

// MarshalJSON writes {"path", "problems": [...], "hint"}.
func (e *Error) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Path     string    `json:"path"`
		Problems []Problem `json:"problems"`
		Hint     string    `json:"hint"`
	}{e.Path, e.Problems, e.Hint()})
}

// missingKey is the problem of a key that is not there, and why it is needed.
func missingKey(key, why string) Problem {
	return Problem{Code: schemas.CodeMissingKey, Found: "nothing", Allowed: quoted(key), Message: fmt.Sprintf("%s: the key %s is missing", why, quoted(key))}
}

// emptyKey is that of a key that is not there, or is empty.
func emptyKey(key, why string) Problem {
	p := missingKey(key, why)
	p.Message += " or empty"
	return p
}

func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// quoted writes a value for a message, shortened.
func quoted(s string) string { return strconv.Quote(text.Cut(s, 63)) }

// listed quotes names for a sentence.
func listed(names []string) string {
	q := make([]string, len(names))
	for i, name := range names {
		q[i] = quoted(name)
	}
	return strings.Join(q, ", ")
}

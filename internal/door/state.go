package door

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// StateError says that superloop cannot use a file of its private state: another program has written it, or a disk has
// damaged it. No program can tell what is lost, so an operator takes the file away.
type StateError struct {
	What    string // what the file holds
	Path    string
	Err     error
	Without string // what follows if the file is gone
}

func (e *StateError) Error() string {
	why := e.Err.Error()
	if !strings.Contains(why, e.Path) {
		why = e.Path + ": " + why
	}
	return fmt.Sprintf("reading %s: %s; %s without the file; to put it aside type: %s", e.What, why, e.Without, Aside(e.Path))
}

func (e *StateError) Unwrap() error { return e.Err }

// Aside returns the command that takes away whatever lies at path, and keeps it beside it.
func Aside(path string) string { return "mv " + text.Word(path) + " " + text.Word(path+".damaged") }

// ReadState decodes the JSON of a private file, of at most limit bytes, into v. what and without are the fields of the
// StateError. For a missing file the error is fs.ErrNotExist, otherwise a *StateError, and then v is undefined.
func ReadState(path string, limit int64, what, without string, v any) error {
	data, err := ReadJSON(path, limit)
	if err == nil {
		err = text.Decode(data, v)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &StateError{what, path, err, without}
}

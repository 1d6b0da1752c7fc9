package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/superloop/superloop/internal/text"
)

var (
	errLink       = errors.New("it is a symbolic link, and superloop does not write through links; remove it")
	errNotRegular = errors.New("it is not a regular file; remove it")
)

// Error is what every function of this package returns: the step that failed and the file it failed on.
type Error struct {
	Op   string // "events:append"
	Path string
	Err  error
}

func (e *Error) Error() string {
	s := e.Op + ": " + e.Path + ": " + e.Err.Error()
	if IsFull(e.Err) {
		s += " (make room; see: df -h " + text.Word(filepath.Dir(e.Path)) + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// fail names the step and the path once, whatever names the cause carries; nil stays nil.
func fail(op, step, path string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.SyscallError](err); ok {
		err = e.Err
	}
	return &Error{Op: op + ":" + step, Path: path, Err: err}
}

// IsFull reports whether err says that there is no room: the disk is full, or the user's quota is.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// ChangedError says that an append-only file is no longer the one that was written: another writer made it longer or
// shorter, or it was deleted. Nothing was written to it when this was found, and nothing will be.
type ChangedError struct {
	Path string
	Why  string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s was changed by something else than superloop: %s", e.Path, e.Why)
}

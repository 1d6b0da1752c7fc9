// Package config reads .superloop/config.json: what a person wants superloop to
// do. A configuration is loaded whole and checked whole, or it is refused with
// every problem at once; nothing is ever taken from a file that is half right.
//
// A configuration written for the bash original of superloop loads. What of it
// has no effect here is named in Config.Warnings.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/schemas"
)

// Load reads and checks the file at path. Its error is an *Error with every
// problem; the file system is asked for nothing but that file (see Check).
func Load(path string) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return LoadBytes(path, data)
}

// LoadBytes checks data as the content of the file at path, which need not
// exist. Its error is an *Error. data is not copied: the caller leaves it as it
// is.
func LoadBytes(path string, data []byte) (*Config, error) {
	return load(path, data, true)
}

// LoadUntested is Load without the tests of the policy: for those who want to see
// them fail.
func LoadUntested(path string) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return load(path, data, false)
}

func load(path string, data []byte, tested bool) (*Config, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", path, err)
	}
	doc, problems := schemas.Read(schemas.Config, data)
	if doc == nil {
		return nil, &Error{Path: path, Problems: problems}
	}
	var f file
	// What does not fit is a problem that the schema has named already; the rest
	// is still checked, so that one mistake does not hide another.
	if err := json.Unmarshal(doc.Raw("", isComment), &f); err != nil && len(problems) == 0 {
		return nil, &Error{Path: path, Problems: []Problem{{Line: 1, Column: 1, Code: schemas.CodeWrongType, Message: err.Error()}}}
	}
	sum := sha256.Sum256(data)
	b := &builder{doc: doc, repo: repoOf(abs), schema: problems}
	c := b.config(f)
	c.Path, c.Digest, c.doc = abs, hex.EncodeToString(sum[:]), doc
	c.Recovery, c.Webhooks = doc.Raw("/recovery", isComment), doc.Raw("/webhooks", isComment)
	if len(problems) == 0 {
		b.policies(c, tested)
	}
	if problems = schemas.Sort(append(problems, b.problems...)); len(problems) > 0 {
		return nil, &Error{Path: path, Problems: problems}
	}
	c.Warnings = schemas.Sort(append(doc.Ignored(), b.warnings...))
	return c, nil
}

// isComment reports whether a key is there for people only.
func isComment(key string) bool {
	return strings.HasPrefix(key, "//") || strings.HasPrefix(key, "_comment") || strings.HasPrefix(key, "$schema")
}

// repoOf is the repository that a configuration belongs to: the directory that
// holds .superloop, or that of the file when it stands elsewhere.
func repoOf(path string) string {
	dir := filepath.Dir(path)
	if filepath.Base(dir) == ".superloop" {
		return filepath.Dir(dir)
	}
	return dir
}

// read gets the file's bytes. Every way in which there are none has its own
// message.
func read(path string) ([]byte, error) {
	fail := func(code, message string, cause error) error {
		return &Error{Path: path, Problems: []Problem{{Code: code, Message: message}}, cause: cause}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail(CodeNoFile, "there is no such file; write one with `superloop init`", err)
	case err != nil:
		return nil, fail(CodeUnreadable, "it cannot be read: "+plain(err), err)
	case info.IsDir():
		return nil, fail(CodeUnreadable, "it is a directory, not a file", nil)
	case !info.Mode().IsRegular():
		// A pipe would wait for a writer for ever.
		return nil, fail(CodeUnreadable, "it is not a regular file", nil)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fail(CodeUnreadable, "it cannot be read: "+plain(err), err)
	}
	defer f.Close()
	// One byte over the cap is enough for the reader to refuse it, whatever the
	// size was a moment ago.
	data, err := io.ReadAll(io.LimitReader(f, int64(schemas.Config.Limit())+1))
	if err != nil {
		return nil, fail(CodeUnreadable, "it cannot be read: "+plain(err), err)
	}
	if len(data) > schemas.Config.Limit() && info.Size() > int64(len(data)) {
		return nil, fail(schemas.CodeTooLarge, fmt.Sprintf("it has %.1f MiB; a config has at most %d MiB", float64(info.Size())/(1<<20), schemas.Config.Limit()>>20), nil)
	}
	if strings.TrimSpace(string(data)) == "" {
		return nil, fail(schemas.CodeEmpty, "it is empty; write a new one with `superloop init --force`", nil)
	}
	return data, nil
}

// plain is an error without the path that is said already.
func plain(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

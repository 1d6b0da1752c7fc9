// Package config reads .superloop/config.json: what an operator wants superloop to do. A configuration is loaded and
// checked whole, or it is refused with every problem at once; nothing is ever taken from a file that is half right.
//
// A configuration of the bash original of superloop loads. What has no effect here is in Config.Warnings.
package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/schemas"
)

// Load reads and checks the file at path, and looks at no other (see Check). Its error is an *Error with every problem.
func Load(path string) (*Config, error) { return open(path, true) }

// LoadUntested is Load without the tests of the policy: for those who want to see them fail.
func LoadUntested(path string) (*Config, error) { return open(path, false) }

func open(path string, tested bool) (*Config, error) {
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	limit := schemas.Config.Limit()
	if info, err := os.Stat(path); err == nil && len(data) > limit && info.Size() > int64(len(data)) {
		return nil, single(path, schemas.CodeTooLarge, fmt.Sprintf("it has %.1f MiB; a config has at most %d MiB", float64(info.Size())/(1<<20), limit>>20), nil)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, single(path, schemas.CodeEmpty, "it is empty; write a new one with `superloop init --force`", nil)
	}
	return load(path, data, tested)
}

// LoadBytes checks data, which is not copied, as that of the file at path, which need not exist. Its error is an *Error.
func LoadBytes(path string, data []byte) (*Config, error) { return load(path, data, true) }

func load(path string, data []byte, tested bool) (*Config, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", path, err)
	}
	doc, problems := schemas.Read(schemas.Config, data)
	if doc == nil {
		return nil, &Error{Path: path, Problems: problems}
	}
	sum := sha256.Sum256(data)
	b := &builder{doc: doc, repo: repoOf(abs), schema: problems}
	c := b.config()
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

// repoOf is a configuration's repository: the directory that holds .superloop, or that of a file elsewhere.
func repoOf(path string) string {
	dir := filepath.Dir(path)
	if filepath.Base(dir) == ".superloop" {
		return filepath.Dir(dir)
	}
	return dir
}

// Read gets the bytes of the file at path, at most one more than a configuration may have. Its error is an *Error.
func Read(path string) (data []byte, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, single(path, CodeNoFile, "there is no such file; write one with `superloop init`", err)
	case err == nil && info.IsDir():
		return nil, single(path, CodeUnreadable, "it is a directory, not a file", nil)
	case err == nil && !info.Mode().IsRegular():
		return nil, single(path, CodeUnreadable, "it is not a regular file", nil)
	}
	var f *os.File
	if err == nil { // a pipe, were it one by now, would wait for a writer for ever
		f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err == nil {
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, int64(schemas.Config.Limit())+1))
	}
	if err != nil {
		return nil, single(path, CodeUnreadable, "it cannot be read: "+plain(err), err)
	}
	return data, nil
}

// single is the error of a file with one problem that has no place in it.
func single(path, code, message string, cause error) error {
	return &Error{Path: path, Problems: []Problem{{Code: code, Message: message}}, cause: cause}
}

// plain is an error without the path that is said already.
func plain(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return err.Error()
}

// durations are the keys of times: seconds, or text such as "8h". Where true, more than a day is most likely a mistake.
var durations = map[string]bool{"timeout": true, "inactivity": true, "default": true, "planner": true, "implementer": true, "tester": true, "reviewer": true,
	"remind_after": true, "escalate_after": true, "expires_after": true, "max_time": true, "analysis_time": true, "max_wait": true,
	"first": true, "most": true, "window": true, "max_wall_time": false, "backoff_seconds": false}

// tree is the file as plain values without comments, each value spelled in one way (see canonical).
func (b *builder) tree() any { return b.canonical("", "", value(b.doc)) }

// canonical writes a value at a pointer, under a key, as the types of this package have it: a time in nanoseconds, a
// runner that only its name stands for as an object, a switch of a section as its key enabled, one command as a list.
// What does not fit stays as it is; the schema has named it.
func (b *builder) canonical(ptr, key string, v any) any {
	days, isTime := durations[key]
	switch t := v.(type) {
	case map[string]any:
		for k, e := range t {
			if key != "env" && key != "recovery" {
				t[k] = b.canonical(ptr+Pointer(k), k, e)
			}
		}
	case []any:
		for i, e := range t {
			if name, is := e.(string); is && key == "runners" {
				e = map[string]any{"runner": name}
			}
			t[i] = b.canonical(ptr+Pointer(i), "", e)
		}
	case bool:
		if key == "preflight" {
			return map[string]any{"enabled": t}
		}
	case json.Number:
		if seconds, err := t.Float64(); isTime && err == nil {
			const year = 366 * 24 * 3600 // the schema has refused what is longer
			d := time.Duration(min(max(seconds, 0), year) * float64(time.Second))
			if days && d > 24*time.Hour {
				b.warn(ptr, CodeSuspicious, fmt.Sprintf("%.0f is more than a day: the unit is seconds; write it as %q if it is meant", d.Seconds(), d.Round(time.Second).String()))
			}
			return d
		}
	case string:
		switch {
		case isTime:
			d, _ := time.ParseDuration(t)
			return max(d, 0)
		case key == "diagnostician":
			return map[string]any{"runner": t}
		case key == "pre_commit_commands" && strings.TrimSpace(t) == "":
			return nil
		case key == "pre_commit_commands":
			return []any{t}
		}
	}
	return v
}

// merge lays one section over another: objects key by key, anything else replaced.
func merge(under, over any) any {
	a, isA := under.(map[string]any)
	b, isB := over.(map[string]any)
	if !isA || !isB {
		if over == nil {
			return under
		}
		return over
	}
	out := maps.Clone(a)
	for k, v := range b {
		out[k] = merge(a[k], v)
	}
	return out
}

// into decodes a value of the tree into dst, which may hold defaults. What does not fit is a problem that the schema
// has named already; the rest is still checked, so that one mistake does not hide another.
func (b *builder) into(v, dst any) {
	data, err := json.Marshal(v)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		err = dec.Decode(dst)
	}
	if err != nil && len(b.schema) == 0 {
		b.problems = append(b.problems, Problem{Line: 1, Column: 1, Code: schemas.CodeWrongType, Message: err.Error()})
	}
}

// Policy is the recovery policy of a loop: its own section laid over the config's own; of an id that no loop has, the
// config's own. It is nil when there is neither, which is not the same as an empty section: then proposals are not
// looked at. Load has made it once, so it does not fail for a Config of Load's.
func (c *Config) Policy(id string) (*recovery.Policy, []Problem) {
	sections := []recovery.Section{{Raw: c.Recovery, Pointer: "/recovery"}}
	present := c.Recovery != nil
	for i, l := range c.Loops {
		if l.ID == id && l.Recovery != nil {
			sections, present = append(sections, recovery.Section{Raw: l.Recovery, Pointer: fmt.Sprintf("/loops/%d/recovery", i)}), true
		}
	}
	if !present {
		return nil, nil
	}
	return recovery.ReadPolicy(sections...)
}

// policies makes every policy of c and runs its tests, so that a configuration whose policy cannot be used, or does not
// do what its tests say, is refused. What lint finds in it are warnings.
func (b *builder) policies(c *Config, tested bool) {
	said := map[string]bool{}
	first := func(ptr, code string) bool {
		was := said[ptr+code]
		said[ptr+code] = true
		return !was
	}
	one := func(id string) {
		p, problems := c.Policy(id)
		if tested && p != nil && len(problems) == 0 {
			problems = p.CheckTests()
		}
		for _, bad := range problems {
			if first(bad.Pointer, bad.Code) {
				b.wrong(bad.Pointer, bad)
			}
		}
		if p == nil || len(problems) > 0 || !p.Settings.Enabled {
			return
		}
		for _, f := range p.Lint() {
			if f.Severity != recovery.SevNote && first(f.Pointer, f.Code) {
				b.warn(f.Pointer, f.Code, f.Message)
			}
		}
	}
	one("")
	for _, l := range c.Loops {
		if l.Recovery != nil {
			one(l.ID)
		}
	}
}

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

// Error is "path:line:column: pointer: message", a line for each problem, and before several a line with their number.
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

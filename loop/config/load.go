// Package config reads .superloop/config.json, the settings that an operator gives superloop: JSON that may have comments
// and trailing commas. Load checks the whole
// file. It returns a complete configuration, or an error with every problem in the file, and never a part of a wrong
// file.
//
// Load also accepts a configuration of the bash original of superloop. Config.Warnings names the keys of it that have
// no effect.
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

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/schemas"
)

// Load reads and checks the file at path. Only Check reads other files. The error is an *Error with every problem.
func Load(path string) (*Config, error) { return open(path, true) }

// LoadUntested is Load without the tests of the policy, for a caller that runs the tests itself.
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

// LoadBytes checks data as the content of the file at path. The file need not exist. LoadBytes does not copy data, so
// the caller must not change it. The error is an *Error.
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

// LoopIDs returns the ids of the loops in data, the content of the file at path, in their order. It checks the syntax of
// the file and nothing else. The error is an *Error.
func LoopIDs(path string, data []byte) ([]string, error) {
	doc, problems := schemas.Parse(schemas.Config, data)
	if doc == nil {
		return nil, &Error{Path: path, Problems: problems}
	}
	var ids []string
	for i := 0; ; i++ {
		if _, _, there := doc.Position(Pointer("loops", i)); !there {
			return ids, nil
		}
		var id string
		if raw := doc.Raw(Pointer("loops", i, "id"), nil); text.Decode(raw, &id) == nil && id != "" {
			ids = append(ids, id)
		}
	}
}

// isComment reports whether a key is a comment, which superloop does not read.
func isComment(key string) bool {
	return strings.HasPrefix(key, "//") || strings.HasPrefix(key, "_comment") || strings.HasPrefix(key, "$schema")
}

// repoOf returns the repository of a configuration file: the directory whose .superloop holds the file. For a file
// elsewhere it is the file's own directory.
func repoOf(path string) string {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) == ".superloop" {
			return filepath.Dir(dir)
		}
	}
	return filepath.Dir(path)
}

// Repo returns the repository that the configuration is of.
func (c *Config) Repo() string { return repoOf(c.Path) }

// Read returns the bytes of the file at path. Of a file that is too large it returns one byte more than a configuration
// may have. Its error is an *Error.
func Read(path string) (data []byte, err error) {
	f, _, err := door.OpenOwn(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, single(path, CodeNoFile, "there is no such file; write one with `superloop init`", err)
	case errors.Is(err, door.ErrNotRegular), errors.Is(err, syscall.ENXIO): // ENXIO: a socket
		if info, serr := os.Stat(path); serr == nil && info.IsDir() {
			return nil, single(path, CodeUnreadable, "it is a directory, not a file", nil)
		}
		return nil, single(path, CodeUnreadable, "it is not a regular file", nil)
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

// single returns the error of a file with one problem that has no line and column.
func single(path, code, message string, cause error) error {
	return &Error{Path: path, Problems: []Problem{{Code: code, Message: message}}, cause: cause}
}

// plain returns the text of err without the path, which the message around it names already.
func plain(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return err.Error()
}

// durations lists the keys whose values are times, in seconds or as text such as "8h". The value true means that
// superloop warns of a number of seconds that is more than a day.
var durations = map[string]bool{"timeout": true, "inactivity": true, "default": true, "planner": true, "implementer": true, "tester": true, "reviewer": true,
	"remind_after": true, "escalate_after": true, "expires_after": true, "wait": true, "max_time": true, "analysis_time": true, "max_wait": true,
	"first": true, "most": true, "window": true, "max_wall_time": false, "backoff_seconds": false}

// tree returns the file as plain values without comments, each in its canonical form (see canonical).
func (b *builder) tree() any { return b.canonical("", "", value(b.doc)) }

// canonical converts a value of the file to the form that the types of this package have: a time to nanoseconds, a
// runner given by its name to an object, true or false for a section to an object with the key enabled, and one command
// to a list. ptr and key say where the value stands. A value that does not fit stays as it is, because the schema has
// already reported it.
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
			const year = 366 * 24 * 3600 // the schema has refused longer times
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
		case key == "require_reports" && t == "all":
			return []any{"plan", "implementer", "test-report", "review"}
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

// merge lays the section over on the section under. It merges objects key by key. Any other value of over replaces the
// value of under.
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

// into decodes a value of the tree into dst, which may hold defaults. The schema has already reported a value that does
// not fit. The builder still checks the rest, so that one mistake does not hide another.
func (b *builder) into(v, dst any) {
	data, err := json.Marshal(v)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		err = text.Reason(dec.Decode(dst))
	}
	if err != nil && len(b.schema) == 0 {
		b.problems = append(b.problems, Problem{Line: 1, Column: 1, Code: schemas.CodeWrongType, Message: err.Error()})
	}
}

// Policy returns the recovery policy of a loop: the loop's own section laid over the top-level section. For an id that
// no loop has, it returns the policy of the top-level section. It returns nil when the file has neither section;
// superloop then ignores proposals. An empty section is not nil. For a Config from Load it returns no problems, because
// Load has already read every policy.
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

// policies reads every policy of c and runs the tests in it (unless tested is false). A policy that cannot be used, or
// that fails a test of its own, is a problem of the configuration. Findings of the policy's lint become warnings,
// unless they are notes.
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

// Problem is one mistake in a configuration, or one warning, with its place in the file.
type Problem = schemas.Problem

// Codes of problems beyond those of the schemas.
const (
	CodeNoFile      = "no_file"        // the configuration file does not exist
	CodeUnreadable  = "unreadable"     // the file exists, but superloop cannot read it
	CodeDuplicate   = "duplicate"      // an id or name that may be used once is used twice
	CodeReference   = "no_such_name"   // a name that refers to nothing
	CodeOutside     = "outside_repo"   // a path that leads out of the repository
	CodeNotFound    = "not_found"      // a file or program that does not exist
	CodeSyntax      = "shell_syntax"   // a command that bash cannot read
	CodePlaceholder = "placeholder"    // warning: a {word} that superloop does not replace
	CodeNoBound     = "no_bound"       // warning: nothing ends this loop
	CodeNoEffect    = "no_effect"      // warning: a setting that has no effect
	CodeUngated     = "no_gate"        // no executed gate decides whether the loop is done
	CodeUnwritten   = "spec_template"  // the spec is still the template of init
	CodeSuspicious  = "suspicious"     // warning: allowed, but probably a mistake
	CodePlainHTTP   = "plain_http"     // warning: a secret would be sent unencrypted
	CodeUnsplit     = "not_splittable" // a command string that cannot be split into words, such as one with shell operators
)

// Error says why a configuration was refused. It holds every problem, in the order of the file.
type Error struct {
	Path     string // the file, as the caller named it
	Problems []Problem
	cause    error
}

// Error returns one line for each problem: "path:line:column: pointer: message". If there are several problems, a line
// with their number comes first.
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

// Unwrap returns the error of the file system when superloop could not read the file.
func (e *Error) Unwrap() error { return e.cause }

// Hint returns the command that the operator should type next.
func (e *Error) Hint() string {
	switch {
	case errors.Is(e.cause, fs.ErrNotExist):
		return "superloop init"
	case len(e.Problems) == 1 && e.Problems[0].Code == schemas.CodeEmpty:
		return "superloop init --force"
	}
	return "superloop validate"
}

// missingKey returns the problem of a missing key. why says what needs the key.
func missingKey(key, why string) Problem {
	return Problem{Code: schemas.CodeMissingKey, Found: "nothing", Allowed: quoted(key), Message: fmt.Sprintf("%s: the key %s is missing", why, quoted(key))}
}

// emptyKey returns the problem of a key that is missing or empty.
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

// quoted quotes a value for a message and shortens it.
func quoted(s string) string { return strconv.Quote(text.Cut(s, 63)) }

// listed quotes names and joins them with commas.
func listed(names []string) string {
	q := make([]string, len(names))
	for i, name := range names {
		q[i] = quoted(name)
	}
	return strings.Join(q, ", ")
}

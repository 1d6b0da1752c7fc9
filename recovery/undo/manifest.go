package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/text"
)

// Label says which recovery a set belongs to.
type Label struct {
	Loop     string `json:"loop,omitempty"`
	Run      string `json:"run,omitempty"`
	Recovery int    `json:"recovery,omitempty"` // the number of the recovery in the run
	Command  string `json:"command,omitempty"`
}

// Kept describes a set: what was kept before one command.
type Kept struct {
	ID    string    `json:"id"`
	Label Label     `json:"label"`
	Repo  string    `json:"repo"` // the work tree
	Time  time.Time `json:"time"` // UTC
	// Ref is the ref of the commit with the tracked files, or "" without git. If no tracked file differed from HEAD,
	// the commit is that of HEAD.
	Ref     string     `json:"ref,omitempty"`
	Commit  string     `json:"commit,omitempty"`
	Tracked int        `json:"tracked"`            // tracked files that differed from HEAD
	Trees   []KeptTree `json:"trees,omitempty"`    // trees and big files that were kept, and paths that did not exist
	Files   int        `json:"files"`              // single files that were kept
	Bytes   int64      `json:"bytes"`              // the bytes of the trees and single files
	NotKept []Named    `json:"not_kept,omitempty"` // the paths that could not be kept, and why
	Sealed  bool       `json:"sealed"`             // Seal has recorded what the command left
	// Restored says that Restore has restored the set completely. Files may have changed since.
	Restored bool `json:"restored,omitempty"`
}

// KeptTree is a kept tree or a kept big file.
type KeptTree struct {
	Path   string `json:"path"`
	Method string `json:"method"` // reflink, link or copy; none if nothing was at the path
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
}

// The methods of keeping a tree.
const (
	byReflink = "reflink"
	byLink    = "link"
	byCopy    = "copy"
	wasAbsent = "none"
)

const version = 1

// manifest is the content of <id>.json. Paths are raw bytes, see rawPath.
type manifest struct {
	Version int       `json:"version"`
	ID      string    `json:"id"`
	Label   Label     `json:"label"`
	Repo    string    `json:"repo"`
	Time    time.Time `json:"time"`
	Ref     string    `json:"ref,omitempty"`
	Commit  string    `json:"commit,omitempty"`
	// Captured lists the tracked files that the commit holds as they were in the work tree. It holds all others as in
	// HEAD.
	Captured []capture   `json:"captured,omitempty"`
	Trees    []tree      `json:"trees,omitempty"`
	Files    []looseFile `json:"files,omitempty"`
	NotKept  []rawNamed  `json:"not_kept,omitempty"`
}

type capture struct {
	Path rawPath `json:"path"`
	Mode uint32  `json:"mode"`
}

type tree struct {
	Path   rawPath `json:"path"`
	Store  string  `json:"store,omitempty"` // the name in the trees directory of the set
	Method string  `json:"method"`
	Files  int     `json:"files,omitempty"`
	Bytes  int64   `json:"bytes,omitempty"`
	Sum    string  `json:"sum,omitempty"`
}

// looseFile is a single file, untracked or a target. Its content is in the pack.
type looseFile struct {
	Path   rawPath `json:"path"`
	Mode   uint32  `json:"mode"`
	Link   rawPath `json:"link,omitempty"` // the target of a symbolic link
	Offset int64   `json:"offset"`
	Size   int64   `json:"size"`
	Sum    string  `json:"sum"` // see bytesOf.state
}

type rawNamed struct {
	Path rawPath `json:"path"`
	Why  string  `json:"why"`
}

// after is the content of <id>.after: the state that the command left at each path. A state is a bytesOf.state, or the
// exact sum of a survey for trees; "" means that nothing was there.
type after struct {
	Version int               `json:"version"`
	Tracked map[string]string `json:"tracked"` // by rawPath.key; only files that differ from the kept ones
	Trees   map[string]string `json:"trees"`
	Same    map[string]bool   `json:"same"` // trees that the command left as they were kept
	Files   map[string]string `json:"files"`
}

// rawPath is a path of arbitrary bytes. In JSON, "%" and every byte that is not printable ASCII is written as %XX.
type rawPath string

// MarshalText writes the path with escapes.
func (p rawPath) MarshalText() ([]byte, error) { return []byte(p.key()), nil }

// key returns the path as a key of a JSON object. encoding/json writes keys of a string type as they are, without
// MarshalText.
func (p rawPath) key() string { return escape(string(p), "%", "%%%02X") }

func (p *rawPath) UnmarshalText(text []byte) error {
	s, err := url.PathUnescape(string(text))
	*p = rawPath(s)
	return err
}

func (m *manifest) skip(path, why string) {
	m.NotKept = append(m.NotKept, rawNamed{rawPath(path), why})
}

func (m *manifest) kept(sealed, restored bool) Kept {
	k := Kept{ID: m.ID, Label: m.Label, Repo: m.Repo, Time: m.Time, Ref: m.Ref, Commit: m.Commit, Tracked: len(m.Captured),
		Files: len(m.Files), NotKept: m.notKept(), Sealed: sealed, Restored: restored}
	for _, t := range m.Trees {
		k.Trees = append(k.Trees, KeptTree{string(t.Path), t.Method, t.Files, t.Bytes})
		k.Bytes += t.Bytes
	}
	for _, f := range m.Files {
		k.Bytes += f.Size
	}
	return k
}

func (m *manifest) notKept() []Named {
	var out []Named
	for _, n := range m.NotKept {
		out = append(out, Named{string(n.Path), n.Why})
	}
	return out
}

const maxManifest = 128 << 20

// readJSON reads a file of a set. ok is false if the file is missing, or not whole: a power cut may leave it empty or
// torn, because its data was not flushed.
func readJSON(file string, v any) (ok bool, err error) {
	data, err := door.Read(file, maxManifest)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !json.Valid(data) {
		return false, nil
	}
	if err == nil {
		err = text.Decode(data, v)
	}
	if err != nil {
		return false, &door.StateError{What: "what superloop kept before a command", Path: file, Err: err, Without: "there is nothing to restore"}
	}
	return true, nil
}

func (s Store) writeJSON(op, file string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(file), err)
	}
	return s.Disk.WriteProjection(op, file, append(data, '\n'), 0o600)
}

// Seal records the state that the command has left behind. The caller calls it right after the command, before anybody
// else changes files. Restore then distinguishes changes of the command from later changes. A second call replaces the
// first record. Without a record Restore treats every change as somebody else's.
func (s Store) Seal(ctx context.Context, id string) error {
	return s.with(ctx, id, func(m *manifest) error { return s.seal(ctx, m) })
}

func (s Store) seal(ctx context.Context, m *manifest) error {
	a := after{Version: version, Tracked: map[string]string{}, Trees: map[string]string{}, Same: map[string]bool{}, Files: map[string]string{}}
	for _, t := range m.Trees {
		now, err := s.surveyAt(string(t.Path))
		if err != nil {
			return fmt.Errorf("recording what the command left at %s: %w", t.Path, err)
		}
		a.Trees[t.Path.key()] = now.exact
		a.Same[t.Path.key()] = now.kind != isMissing && now.sum == t.Sum || now.kind == isMissing && t.Method == wasAbsent
	}
	for _, f := range m.Files {
		_, state, err := s.stateAt(string(f.Path))
		if err != nil {
			return fmt.Errorf("recording what the command left at %s: %w", f.Path, err)
		}
		a.Files[f.Path.key()] = state
	}
	if m.Commit != "" {
		_, list, err := s.changed(ctx, m)
		if err != nil {
			return err
		}
		for _, c := range list {
			a.Tracked[rawPath(c.path).key()] = c.state
		}
	}
	return s.writeJSON("undo-seal", s.path(m.ID, afterFile), a)
}

// surveyAt surveys a path without limits. A path whose directory is missing, or is no longer a directory, counts as
// missing.
func (s Store) surveyAt(rel string) (survey, error) {
	at, err := open(s.Repo, rel)
	if absent(err) {
		return survey{}, nil
	}
	if err != nil {
		return survey{}, err
	}
	defer at.close()
	return at.look(1<<30, 1<<62)
}

// trackedChange is a tracked file that differs from the kept one, with its current state.
type trackedChange struct {
	difference
	state string
	there bool
}

// changed lists the tracked files that differ from the commit of the set.
func (s Store) changed(ctx context.Context, m *manifest) (*git, []trackedChange, error) {
	g, err := s.openGit(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !g.found {
		return nil, nil, fmt.Errorf("%s is no longer a git work tree", s.Repo)
	}
	list, err := g.differences(ctx, m.Commit)
	if err != nil {
		return nil, nil, err
	}
	var out []trackedChange
	for _, d := range list {
		b, state, err := s.stateAt(d.path)
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", d.path, err)
		}
		if state == tooBig || b.mode != d.oldMode || b.mode != gitEmpty && g.object("blob", b.content) != d.oldID {
			out = append(out, trackedChange{d, state, b.there})
		}
	}
	return g, out, nil
}

// filtered returns the files that were not captured and whose content git transforms on checkout, with the attribute
// that causes it.
func (g *git) filtered(ctx context.Context, list []trackedChange, captured map[string]uint32) (map[string]string, error) {
	var in strings.Builder
	for _, c := range list {
		if _, ok := captured[c.path]; !ok {
			in.WriteString(c.path + "\x00")
		}
	}
	odd := map[string]string{}
	if in.Len() == 0 {
		return odd, nil
	}
	out, err := g.run(ctx, []byte(in.String()), "check-attr", "-z", "--stdin", "filter", "ident", "working-tree-encoding", "eol", "text")
	if err != nil {
		return nil, fmt.Errorf("reading the attributes of files: %w", err)
	}
	crlf, err := g.run(ctx, nil, "config", "--get-regexp", `^core\.(autocrlf|eol)$`)
	if err != nil && gitcmd.ExitCode(err) != 1 {
		return nil, err
	}
	ends := strings.Contains(string(crlf), "core.autocrlf true") || strings.Contains(string(crlf), "core.eol crlf")
	fields := strings.Split(string(out), "\x00")
	for i := 0; i+2 < len(fields); i += 3 {
		path, name, value := fields[i], fields[i+1], fields[i+2]
		switch {
		case value == "unspecified" && !(name == "text" && ends), value == "unset", name == "eol" && value == "lf", name == "text" && !ends:
		default:
			odd[path] = name + "=" + value
		}
	}
	return odd, nil
}

// with loads the manifest of a set and calls do under the lock of the store.
func (s Store) with(ctx context.Context, id string, do func(*manifest) error) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := s.load(id)
	if err != nil {
		return err
	}
	return do(m)
}

// minID is the length of the digits at the end of an id, which the temporary names of Restore have. See Keep.
const minID = 8

func (s Store) load(id string) (*manifest, error) {
	if len(id) < minID || filepath.Base(id) != id || id[0] == '.' {
		return nil, fmt.Errorf("%q is no set; superloop undo --list shows them", id)
	}
	var m manifest
	ok, err := readJSON(s.path(id, manifestFile), &m)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("there is no set %s: %w", id, fs.ErrNotExist)
	case m.Version != version || m.ID != id:
		return nil, fmt.Errorf("the set %s was kept by another version of superloop", id)
	}
	return &m, nil
}

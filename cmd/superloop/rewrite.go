package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/add"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/edit"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/schemas"
	"github.com/superloop/superloop/server/backlog"
)

// rememberable prepares the change that adds the approved command to auto_approve, byte for byte. It returns nil if the
// command is listed already. Nothing but the list changes: rememberable refuses a file that differs from the pin, and
// it refuses a command that looseEntry objects to.
func (a *app) rememberable(c *cli.Context, rec escalation.Record, req escalation.AnswerRequest) (*rewrite, error) {
	if rec.Question.Tool != nil {
		return nil, failf(exitUsage, "superloop config show", "--remember: what agents may do while they work stands in permissions.auto_approve and auto_approve_programs; write it there")
	}
	if rec.Question.Command == nil {
		return nil, failf(exitUsage, "", "--remember: there is no command to remember")
	}
	command := string(rec.Question.Command.Text)
	if req.Edit != nil {
		command = string(req.Edit.Text)
	}
	t, err := a.trusted(c)
	if err != nil {
		return nil, err
	}
	if t.pinErr == nil && !trust.Compare(t.pin.Section, t.section).Empty() {
		return nil, failf(exitFailed, "superloop config diff", "--remember: %s differs from what is trusted; decide about that first", t.name())
	}
	policy, _ := t.file.Policy(rec.Question.Loop)
	if policy == nil {
		return nil, failf(exitFailed, "", "--remember: %s has no recovery section", t.name())
	}
	if _, listed := policy.Listed(command); listed {
		return nil, nil
	}
	r, err := t.rewrite()
	if err != nil {
		return nil, err
	}
	own := fmt.Sprintf("/loops/%d/recovery", slices.IndexFunc(t.file.Loops, func(l config.Loop) bool { return l.ID == rec.Question.Loop }))
	if r.next, err = insertEntry(r.was, policy, command, own); err != nil {
		return nil, err
	}
	cfg, err := config.LoadBytes(r.path, r.next)
	if err != nil {
		return nil, err
	}
	if why := looseEntry(cfg, rec.Question.Loop, command); why != "" {
		return nil, failf(exitFailed, "superloop approve-recovery --loop "+rec.Question.Loop, "--remember: %s; approve it once instead", why)
	}
	section, err := trust.Of(cfg)
	r.pin = &trust.Pin{Section: section, At: time.Now(), How: trust.Trusted, By: req.By.User, Config: r.path}
	return r, err
}

// rewrite begins a change of the configuration file. It returns errMoved if the file is not the one that t has judged.
func (t trusted) rewrite() (*rewrite, error) {
	r := rewrite{path: configFile(t.repo), store: t.store}
	info, err := os.Stat(r.path)
	if err != nil {
		return nil, err
	}
	r.mode = info.Mode().Perm()
	if r.was, err = config.Read(r.path); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(r.was); hex.EncodeToString(sum[:]) != t.file.Digest {
		return nil, errMoved
	}
	return &r, nil
}

// looseEntry says why a command must not get into auto_approve by a flag, which an operator gives in a hurry. It
// returns "" if nothing speaks against the command. It objects to a command that lint calls an error in that list, and
// to a command that hands a text to an interpreter or to a program that runs others with other rights or elsewhere. An
// operator can still write such an entry into the file, and trust it.
func looseEntry(cfg *config.Config, loop, command string) string {
	policy, _ := cfg.Policy(loop)
	entry, ok := policy.Listed(command)
	if !ok {
		return "it would not be listed for this loop"
	}
	a := recovery.Analyse(command)
	if len(a.Opaque) > 0 {
		return a.Opaque[0].Why
	}
	for _, p := range a.Parts {
		if interprets(p.Words) {
			return text.Display(p.Text) + " is an interpreter or a wrapper, which runs whatever it is given"
		}
	}
	at := policy.Pointer("auto_approve", entry)
	for _, f := range policy.Lint() {
		if f.Pointer == at && f.Severity == recovery.SevError {
			return f.Message
		}
	}
	return ""
}

// interprets reports whether a simple command is an interpreter without a script file, or a program that runs another
// program.
func interprets(words []string) bool {
	if len(words) == 0 {
		return false
	}
	switch strings.TrimRight(filepath.Base(words[0]), "0123456789.") {
	case "env", "sudo", "doas", "su", "xargs", "eval", "exec", "ssh", "nsenter", "unshare", "chroot":
		return true
	case "sh", "bash", "dash", "zsh", "ksh", "fish", "python", "pypy", "node", "deno", "perl", "ruby", "php", "lua", "tclsh", "osascript":
		return len(words) == 1 || strings.HasPrefix(words[1], "-")
	}
	return false
}

// insertEntry returns the file with a command as the first entry of the auto_approve list that the policy has. Every
// other byte of the file stays. own is the pointer to the loop's own recovery section, which may not exist.
func insertEntry(data []byte, p *recovery.Policy, command, own string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // operators read the file, so && stays &&
	if err := enc.Encode(command); err != nil {
		return nil, err
	}
	entry := strings.TrimRight(b.String(), "\n")
	if at := p.Pointer("auto_approve"); at != "" && has(data, at) {
		return edit.Insert(data, at, edit.First, entry)
	} else if at = strings.TrimSuffix(at, "/auto_approve"); has(data, at) {
		own = at
	} // else only the loop has a recovery section
	return edit.Insert(data, own, edit.First, `"auto_approve": [`+entry+`]`)
}

// has reports whether the configuration states a value at a JSON pointer.
func has(data []byte, pointer string) bool {
	doc, _ := schemas.Parse(schemas.Config, data)
	if doc == nil {
		return false
	}
	_, _, there := doc.Position(pointer)
	return there
}

// rewrite is a change of the configuration file that superloop makes itself. Two of them never mix.
type rewrite struct {
	path string
	was  []byte      // the content from which next was made
	next []byte      // the content to write
	mode os.FileMode // of the file
	// pin is trusted before the file is written, if it is not nil. A supervisor that reads the file between the two steps
	// finds fewer rights than the trusted ones, which it accepts. It never finds more.
	pin   *trust.Pin
	store trust.Store
	// before writes what the new content refers to, if it is not nil. It runs first, when the file is what it was.
	before func() error
}

// errMoved says that somebody else has changed the configuration since it was read.
var errMoved = errors.New("the file was changed in this moment")

// write writes the file while no other process of superloop does. It returns errMoved, and changes nothing, if the file
// is not what it was.
func (r *rewrite) write(ctx context.Context, disk durable.Disk) error {
	dir := filepath.Dir(r.store.Path)
	if err := disk.MkdirAll("config", dir, 0o700); err != nil {
		return err
	}
	lock, err := disk.LockWait(ctx, filepath.Join(dir, "config.lock"), nil, rewritePatience)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // the kernel releases the lock when the process ends
	now, err := config.Read(r.path)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, r.was) {
		return errMoved
	}
	if r.before != nil {
		if err := r.before(); err != nil {
			return err
		}
	}
	if r.pin != nil {
		if _, err := r.store.Save(*r.pin); err != nil {
			return err
		}
	}
	return disk.WriteFile("config", r.path, r.next, r.mode)
}

// rewritePatience bounds the wait for another process that is writing the configuration, which takes milliseconds.
const rewritePatience = 10 * time.Second

// maxSpec bounds a spec that add reads, in bytes.
const maxSpec = backlog.MaxSpec

// adding is a loop that add is about to write.
type adding struct {
	t       trusted
	id      string
	spec    string // the spec's file in the repository
	text    string // the loop as it will stand in the file
	change  *rewrite
	content []byte // of the spec, nil if it lies in the repository already
}

// add adds a loop beside the first one. Adds that come at the same time take turns: each is made from the file that the
// one before it has written.
func (a *app) add(c *cli.Context) error {
	spec, err := a.specOf(c)
	if err != nil {
		return err
	}
	for {
		p, err := a.planAdd(c, spec)
		if errors.Is(err, errMoved) && c.Context.Err() == nil {
			continue // another add has just written the file
		}
		if err != nil {
			return err
		}
		said := fmt.Sprintf("loop %s, like the first one, in a git work tree of its own:\n%s\nspec: %s\n", p.id, p.text, p.spec)
		next := a.here("superloop run --loop " + p.id)
		if c.Bool("dry-run") {
			return a.told(c, p.facts(false), "would add %sno file is written: superloop add without --dry-run writes\n", said)
		}
		in := ttyOf(a.stdin)
		asks := in != nil && ttyOf(a.stdout) != nil && !c.Bool("yes") && !c.Bool("json")
		if asks {
			fmt.Fprintf(a.stdout, "will add %s", said)
			switch yes, err := a.ask(c.Context, in, "add it to "+p.t.name()); {
			case err != nil:
				return err
			case !yes:
				return failf(exitFailed, "superloop add --yes", "nothing is written")
			}
		}
		err = p.change.write(c.Context, a.disk)
		if errors.Is(err, errMoved) && !asks && c.Context.Err() == nil {
			continue // another add was faster; the loop is added to what it has written
		}
		if err != nil {
			return fmt.Errorf("adding the loop %s: %w", p.id, err)
		}
		if p.change.pin == nil && p.t.pinErr == nil {
			next = a.here("superloop config diff   (other changes of the file are not trusted yet, and so the new loop is not)")
		}
		return a.told(c, p.facts(true), "added %snext: %s\n", said, next)
	}
}

// specText is a spec that the operator has given, and where it comes from.
type specText struct {
	file string // an absolute path, "" for standard input and for an issue
	id   string // what a loop of an issue is called
	data []byte
}

func (a *app) specOf(c *cli.Context) (s specText, err error) {
	if c.IsSet("from-issue") {
		return a.issue(c)
	}
	switch name := c.String("spec"); name {
	case "":
		return s, failf(exitUsage, typed(c)+" --spec FILE", "--spec says what the loop is to build: a file, or - for standard input")
	case "-":
		s.data, err = io.ReadAll(io.LimitReader(reading{c.Context, a.stdin}, maxSpec+1))
	default:
		if s.file, err = filepath.Abs(name); err == nil {
			s.data, err = door.ReadOwn(s.file, maxSpec+1)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, failf(exitNotFound, typed(c)+" --spec -   (reads it from standard input)", "there is no spec %s", text.Paste(s.file))
	case err != nil:
		return s, fmt.Errorf("reading the spec: %w", err)
	case len(s.data) > maxSpec:
		return s, failf(exitConfig, typed(c)+" --help", "the spec has more than %d MiB", maxSpec>>20)
	case len(bytes.TrimSpace(s.data)) == 0:
		return s, failf(exitConfig, typed(c)+" --help", "the spec is empty")
	}
	return s, nil
}

// newID returns the id of a new loop: that of --loop, which must be none of ids, or a free one that is made of the spec's
// name or title.
func newID(c *cli.Context, spec specText, ids []string) (string, error) {
	taken := add.Taken(ids)
	if id := c.String("loop"); id != "" {
		if taken(id) {
			return "", failf(exitFailed, "superloop list", "there is a loop %s already; nothing is changed", id)
		}
		return id, nil
	}
	id := cmp.Or(spec.id, add.Name(spec.file, spec.data))
	if id == "" {
		return "", failf(exitUsage, typed(c)+" --spec "+text.Paste(c.String("spec"))+" --loop ID", "neither the spec's name nor its title gives an id for the loop")
	}
	return add.Free(id, taken), nil
}

// planAdd says what add would write. It writes nothing.
func (a *app) planAdd(c *cli.Context, spec specText) (p adding, err error) {
	if p.t, err = a.trusted(c); err != nil {
		return p, err
	}
	if p.change, err = p.t.rewrite(); err != nil {
		return p, err
	}
	if p.id, err = newID(c, spec, loop.Map(p.t.file.Loops, func(l config.Loop) string { return l.ID })); err != nil {
		return p, err
	}
	if p.spec = inside(p.t.repo, spec.file); p.spec == "" {
		p.spec, p.content = ".superloop/specs/"+p.id+".md", spec.data
	}
	at, err := a.paths(p.t.repo, p.id)
	if err != nil {
		return p, err
	}
	if p.change.next, p.text, err = add.Loop(p.change.was, p.id, p.spec, checklistsOf(at, p.t.file.Loops[0], spec.data)); err != nil {
		return p, err
	}
	cfg, err := config.LoadBytes(p.change.path, p.change.next)
	if err != nil {
		return p, err // for instance because the id is invalid
	}
	if p.t.pinErr == nil && trust.Compare(p.t.pin.Section, p.t.section).Empty() {
		section, err := trust.Of(cfg)
		if err != nil {
			return p, err
		}
		p.change.pin = &trust.Pin{Section: section, At: time.Now(), How: trust.Trusted, By: a.who(c), Config: p.change.path}
	}
	if full := filepath.Join(p.t.repo, p.spec); p.content != nil {
		if old, err := door.ReadOwn(full, maxSpec); err == nil && !bytes.Equal(old, p.content) {
			return p, failf(exitFailed, "superloop add --spec "+text.Paste(p.spec), "%s exists already and says something else; nothing is changed", p.spec)
		}
		p.change.before = func() error {
			if err := a.disk.MkdirAll("add", filepath.Dir(full), 0o755); err != nil {
				return err
			}
			return a.disk.WriteFile("add", full, p.content, 0o644)
		}
	}
	return p, nil
}

func (p adding) facts(written bool) map[string]any {
	files := []string{relTo(p.t.repo, p.change.path)}
	if p.content != nil {
		files = append(files, p.spec)
	}
	return map[string]any{"loop": p.id, "spec_file": p.spec, "added": json.RawMessage(p.text), "files": files, "written": written, "trusted": written && p.change.pin != nil}
}

// inside returns an existing file as a path in the repository, "" if it is elsewhere or among what superloop writes.
func inside(repo, file string) string {
	real, err := filepath.EvalSymlinks(file)
	root, rootErr := filepath.EvalSymlinks(repo)
	if file == "" || err != nil || rootErr != nil {
		return ""
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || !filepath.IsLocal(rel) || strings.HasPrefix(rel, ".superloop/loops/") || strings.HasPrefix(rel, ".superloop/worktrees/") {
		return ""
	}
	return filepath.ToSlash(rel)
}

package undo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
)

// Options are the options of Restore.
type Options struct {
	Force bool // renames conflicts to a name ending in .superloop-undo-conflict, and restores the kept content
}

const conflictMark = ".superloop-undo-conflict"

// Restore restores the files of a set, as the package comment says. It handles each path separately: a failed path is
// in Report.Failed, and Restore goes on with the next one. A second call restores what is still missing.
func (s Store) Restore(ctx context.Context, id string, o Options) (Report, error) {
	r := restorer{Store: s, force: o.Force}
	err := s.with(ctx, id, func(m *manifest) error { return r.restore(ctx, m) })
	return r.out, err
}

func (r *restorer) restore(ctx context.Context, m *manifest) (err error) {
	if r.sealed, err = readJSON(r.path(m.ID, afterFile), &r.after); err != nil {
		return err
	}
	r.m, r.out.NotKept = m, m.notKept()
	for i, t := range m.Trees {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.tree(ctx, fmt.Sprint(i), t)
	}
	if err = r.loose(ctx); err == nil && m.Commit != "" {
		err = r.tracked(ctx)
	}
	if err = cmp.Or(err, ctx.Err()); err == nil && r.out.Complete() {
		err = r.writeJSON("undo-restored", r.path(m.ID, backFile), struct{}{})
	}
	return err
}

type verdict int

const (
	asKept    verdict = iota // the path is as it was kept
	notOurs                  // the command did not change the path: later changes are somebody else's
	put                      // the path is missing: the kept content is restored
	replace                  // the path is as the command left it: the kept content replaces it
	aside                    // the path has changed since the command: it is renamed first
	refused                  // the path has changed since the command: it stays
	isCreated                // the path did not exist when the set was kept
)

// facts hold everything that the verdict depends on.
type facts struct {
	wasAbsent bool // the path did not exist when the set was kept
	sealed    bool // Seal has recorded what the command left
	untouched bool // the command left the path as it was kept
	nowAbsent bool
	nowKept   bool // the path is as it was kept
	nowLeft   bool // the path is as the command left it
	force     bool
}

// judge returns the verdict for a path. It lets Restore replace only what the command itself left.
func judge(f facts) verdict {
	switch {
	case f.nowKept, f.wasAbsent && f.nowAbsent:
		return asKept
	case f.wasAbsent:
		return isCreated
	case f.sealed && f.untouched:
		return notOurs
	case f.nowAbsent:
		return put
	case f.sealed && f.nowLeft:
		return replace
	case f.force:
		return aside
	}
	return refused
}

type restorer struct {
	Store
	m      *manifest
	after  after
	sealed bool
	force  bool
	out    Report
}

func (r *restorer) fail(path string, err error) {
	r.out.Failed = append(r.out.Failed, Named{path, err.Error()})
}

// note records a verdict that leaves the path alone, and reports whether v is such a verdict.
func (r *restorer) note(path string, v verdict) bool {
	switch v {
	case asKept:
		r.out.Same = append(r.out.Same, path)
	case notOurs:
		r.out.Left = append(r.out.Left, path)
	case isCreated:
		r.out.Created = append(r.out.Created, path)
	case refused:
		why := "it has changed since the command"
		if !r.sealed {
			why = "it is not known whether the command or somebody else changed it"
		}
		r.out.Conflicts = append(r.out.Conflicts, Named{path, why})
	default:
		return false
	}
	return true
}

// tree restores a tree or a single target: it copies the kept content to a name beside the place and renames the copy.
func (r *restorer) tree(ctx context.Context, id string, t tree) {
	path := string(t.Path)
	now, err := r.surveyAt(path)
	if err != nil {
		r.fail(path, err)
		return
	}
	v := judge(facts{wasAbsent: t.Method == wasAbsent, sealed: r.sealed, untouched: r.after.Same[t.Path.key()], nowAbsent: now.kind == isMissing,
		nowKept: now.kind != isMissing && now.sum == t.Sum, nowLeft: now.kind != isMissing && now.exact == r.after.Trees[t.Path.key()], force: r.force})
	at, err := r.parent(path, v == put || v == replace || v == aside)
	if err != nil {
		if !r.note(path, v) {
			r.fail(path, err)
		}
		return
	}
	defer at.close()
	// These may be left by a killed call. The old content is removed only if something is in its place.
	fresh, old := at.sibling(r.name(id, "new")), at.sibling(r.name(id, "old"))
	err = fresh.remove(ctx)
	if now.kind != isMissing {
		err = errors.Join(err, old.remove(ctx))
	}
	if err == nil && r.note(path, v) {
		return
	}
	if err == nil {
		if err = r.replaceTree(ctx, t, at, fresh, old, v); err == nil {
			r.out.Restored = append(r.out.Restored, path)
			err = old.remove(ctx)
		} else {
			_ = fresh.remove(ctx)
		}
	}
	if err != nil {
		r.fail(path, err)
	}
}

func (r *restorer) replaceTree(ctx context.Context, t tree, at, fresh, old place, v verdict) error {
	trees := r.path(r.m.ID, treesDir)
	err := same(trees, t.Store, t.Sum, "what was kept has been changed or damaged")
	if err == nil {
		err = at.run(ctx, "cp", "-a", "--", filepath.Join(trees, t.Store), "./"+fresh.name)
	}
	if err == nil {
		err = same(at.path(), fresh.name, t.Sum, whileCopied)
	}
	switch {
	case err != nil:
	case v == aside:
		err = r.moveAside(at, string(t.Path))
	case v == replace:
		err = r.Disk.Rename("undo-away", at.at(at.name), at.at(old.name))
	}
	if err == nil {
		err = r.Disk.Rename("undo-put", at.at(fresh.name), at.at(at.name))
	}
	return err
}

func (r *restorer) moveAside(at place, path string) error {
	for n := 1; n < 1000; n++ {
		name := at.name + conflictMark
		if n > 1 {
			name = fmt.Sprintf("%s.%d", name, n)
		}
		if k, err := at.sibling(name).kind(); err != nil {
			return err
		} else if k != isMissing {
			continue
		}
		if err := r.Disk.Rename("undo-aside", at.at(at.name), at.at(name)); err != nil {
			return err
		}
		r.out.Aside = append(r.out.Aside, Named{path, filepath.Join(filepath.Dir(path), name)})
		return nil
	}
	return fmt.Errorf("there are too many files named %s%s; look at them and remove them", at.name, conflictMark)
}

// name returns the temporary name of a path beside its place during Restore.
func (r *restorer) name(id, what string) string {
	return fmt.Sprintf(".superloop-undo-%s-%s.%s", r.m.ID[len(r.m.ID)-minID:], id, what)
}

// maxName is the longest name that leaves room for the additions of a temporary name. A file name has at most 255
// bytes.
const maxName = 200

var errDamaged = errors.New("what was kept is damaged")

// loose restores the single files that are in the pack.
func (r *restorer) loose(ctx context.Context) error {
	if len(r.m.Files) == 0 {
		return nil
	}
	pack, info, err := door.Open(r.path(r.m.ID, packFile))
	packed := int64(0)
	switch {
	case err == nil:
		defer pack.Close()
		packed = info.Size()
	case !errors.Is(err, fs.ErrNotExist): // a power cut may have removed it; a set of links needs none
		return err
	}
	for _, f := range r.m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := string(f.Path)
		now, state, err := r.stateAt(path)
		if err != nil {
			r.fail(path, err)
			continue
		}
		left := r.after.Files[f.Path.key()]
		v := judge(facts{sealed: r.sealed, untouched: left == f.Sum, nowAbsent: !now.there, nowKept: state == f.Sum, nowLeft: state != "" && state == left, force: r.force})
		if r.note(path, v) {
			continue
		}
		b := bytesOf{mode: f.Sum[:min(6, len(f.Sum))], perm: f.Mode}
		switch {
		case b.mode == gitLink:
			b.content = []byte(f.Link)
		case f.Size < 0 || f.Offset < 0 || f.Size > packed-f.Offset:
			r.fail(path, errDamaged)
			continue
		case f.Size > 0:
			b.content = make([]byte, f.Size)
			if _, err := pack.ReadAt(b.content, f.Offset); err != nil {
				r.fail(path, fmt.Errorf("%w: %w", errDamaged, err))
				continue
			}
		}
		if b.state() != f.Sum {
			r.fail(path, errDamaged)
			continue
		}
		r.file(ctx, path, b, v)
	}
	return nil
}

func (r *restorer) file(ctx context.Context, path string, b bytesOf, v verdict) {
	if err := r.putFile(ctx, path, b, v); err != nil {
		r.fail(path, err)
		return
	}
	r.out.Restored = append(r.out.Restored, path)
}

func (r *restorer) putFile(ctx context.Context, path string, b bytesOf, v verdict) error {
	at, err := r.parent(path, true)
	if err != nil {
		return err
	}
	defer at.close()
	there, err := at.kind()
	switch {
	case err != nil:
		return err
	case v == aside && there != isMissing:
		if err := r.moveAside(at, path); err != nil {
			return err
		}
	case there == isDir:
		return errors.New("a directory is in its place")
	}
	perm := os.FileMode(b.perm & 0o777)
	for bit, mode := range map[uint32]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if b.perm&bit != 0 {
			perm |= mode
		}
	}
	if b.mode != gitLink && len(at.name) <= maxName {
		return r.Disk.WriteFile("undo-file", at.at(at.name), b.content, perm)
	}
	fresh := at.sibling(r.name("f", "new"))
	if err := fresh.remove(ctx); err != nil {
		return err
	}
	if b.mode == gitLink {
		err = at.run(ctx, "ln", "-s", "--", string(b.content), "./"+fresh.name)
	} else {
		err = r.Disk.WriteFile("undo-file", at.at(fresh.name), b.content, perm)
	}
	if err != nil {
		return err
	}
	return r.Disk.Rename("undo-put", at.at(fresh.name), at.at(at.name))
}

// tracked restores the tracked files that the command changed.
func (r *restorer) tracked(ctx context.Context) error {
	g, list, err := r.changed(ctx, r.m)
	if err != nil {
		return err
	}
	captured := map[string]uint32{}
	for _, c := range r.m.Captured {
		captured[string(c.Path)] = c.Mode
	}
	odd, err := g.filtered(ctx, list, captured)
	if err != nil {
		return err
	}
	for _, c := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		v, wanted := r.want(c, odd[c.path])
		if !wanted {
			continue
		}
		content, err := g.run(ctx, nil, "cat-file", "blob", c.oldID)
		if err == nil && g.object("blob", content) != c.oldID {
			err = errDamaged
		}
		if err != nil {
			r.fail(c.path, err)
			continue
		}
		b := bytesOf{mode: c.oldMode, perm: 0o644, content: content}
		if perm, ok := captured[c.path]; ok {
			b.perm = perm
		} else if b.mode == gitExec {
			b.perm = 0o755
		}
		r.file(ctx, c.path, b, v)
	}
	return nil
}

// want decides about one tracked file that differs from the kept one. filter names the git attribute that transforms
// the content of the file, or is "". If the file stays as it is, want records this and returns false.
func (r *restorer) want(c trackedChange, filter string) (v verdict, ok bool) {
	inTree := func(t tree) bool {
		return t.Method != wasAbsent && (c.path == string(t.Path) || strings.HasPrefix(c.path, string(t.Path)+"/"))
	}
	isFile := func(f looseFile) bool { return string(f.Path) == c.path } // an untracked file at that time, or a target
	if slices.ContainsFunc(r.m.Trees, inTree) || slices.ContainsFunc(r.m.Files, isFile) {
		return v, false // kept as a tree or as a single file, too, and more exactly
	}
	left, touched := r.after.Tracked[rawPath(c.path).key()]
	v = judge(facts{wasAbsent: c.oldMode == gitEmpty, sealed: r.sealed, untouched: !touched, nowAbsent: !c.there, nowLeft: c.state != "" && c.state == left, force: r.force})
	if v == isCreated && r.sealed && !touched || r.note(c.path, v) { // the first condition: somebody else made it after the command
		return v, false
	}
	if i := slices.IndexFunc(r.m.NotKept, func(n rawNamed) bool { return string(n.Path) == c.path }); i >= 0 {
		r.fail(c.path, errors.New("it was not kept: "+r.m.NotKept[i].Why))
		return v, false
	}
	if filter != "" {
		r.fail(c.path, fmt.Errorf("its content is made by git (%s); to put it back: git -C %s restore --source=%s --worktree -- %s", filter, text.Word(r.Repo), r.m.Commit,
			text.Word(c.path)))
	}
	return v, filter == ""
}

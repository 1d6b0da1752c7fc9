package undo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
)

// maxName leaves room for what a temporary file's name has besides; a name has at most 255 bytes.
const maxName = 200

var errDamaged = errors.New("what was kept is damaged")

// loose puts the untracked files back.
func (r *restorer) loose(ctx context.Context) error {
	if len(r.m.Files) == 0 {
		return nil
	}
	pack, err := durable.Open(r.path(r.m.ID, packFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a set of links has none
		return err
	}
	defer pack.Close()
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
		b := bytesOf{mode: f.Sum[:min(6, len(f.Sum))], perm: f.Mode, content: make([]byte, f.Size)}
		if b.mode == gitLink {
			b.content = []byte(f.Link)
		} else if _, err := pack.ReadAt(b.content, f.Offset); err != nil && !(errors.Is(err, io.EOF) && f.Size == 0) {
			r.fail(path, fmt.Errorf("%w: %w", errDamaged, err))
			continue
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

// tracked puts the tracked files back that the command changed.
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

// want decides about one tracked file that is not as it was kept; filter says how git makes its content, if it does.
// false: it stays, and that is written down.
func (r *restorer) want(c trackedChange, filter string) (v verdict, ok bool) {
	inTree := func(t tree) bool {
		return t.Method != wasAbsent && (c.path == string(t.Path) || strings.HasPrefix(c.path, string(t.Path)+"/"))
	}
	isFile := func(f looseFile) bool { return string(f.Path) == c.path } // untracked then, or a target
	if slices.ContainsFunc(r.m.Trees, inTree) || slices.ContainsFunc(r.m.Files, isFile) {
		return v, false // kept once more, and more exactly
	}
	left, touched := r.after.Tracked[rawPath(c.path).key()]
	v = judge(facts{wasAbsent: c.oldMode == gitEmpty, sealed: r.sealed, untouched: !touched, nowAbsent: !c.there, nowLeft: c.state != "" && c.state == left, force: r.force})
	if v == isCreated && r.sealed && !touched || r.note(c.path, v) { // the first: made later, by somebody else
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

// filtered says of which files that were not captured the work tree does not hold what git stores, and why.
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
	if err != nil && exitCode(err) != 1 {
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

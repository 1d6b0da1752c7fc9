package undo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// wanted is a tracked file that is to be put back.
type wanted struct {
	trackedChange
	verdict verdict
}

// atOnce is how many files are read from git together.
const atOnce = 50

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
	var todo []wanted
	for _, c := range list {
		if w, ok := r.want(c, odd[c.path]); ok {
			todo = append(todo, w)
		}
	}
	for some := range slices.Chunk(todo, atOnce) {
		ids := make([]string, len(some))
		for i, w := range some {
			ids[i] = w.oldID
		}
		blobs, together := g.blobs(ctx, ids)
		for i, w := range some {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := bytesOf{mode: w.oldMode, perm: 0o644}
			if together == nil {
				b.content = blobs[i]
			} else if one, err := g.blobs(ctx, ids[i:i+1]); err == nil { // it was too much at once, or one is missing
				b.content = one[0]
			} else {
				r.fail(w.path, err)
				continue
			}
			if b.mode == gitExec {
				b.perm = 0o755
			}
			if p, ok := captured[w.path]; ok {
				b.perm = p
			}
			if g.object("blob", b.content) != w.oldID {
				r.fail(w.path, errDamaged)
				continue
			}
			r.file(ctx, w.path, b, w.verdict)
		}
	}
	return nil
}

// want decides about one tracked file that is not as it was kept; filter says how git makes its content, if it does.
// false: it stays, and that is written down.
func (r *restorer) want(c trackedChange, filter string) (wanted, bool) {
	inTree := func(t tree) bool {
		return t.Method != wasAbsent && (c.path == string(t.Path) || strings.HasPrefix(c.path, string(t.Path)+"/"))
	}
	isFile := func(f looseFile) bool { return string(f.Path) == c.path } // untracked then, or a target
	if slices.ContainsFunc(r.m.Trees, inTree) || slices.ContainsFunc(r.m.Files, isFile) {
		return wanted{}, false // kept once more, and more exactly
	}
	left, touched := r.after.Tracked[rawPath(c.path).key()]
	v := judge(facts{wasAbsent: c.oldMode == gitEmpty, sealed: r.sealed, untouched: !touched, nowAbsent: !c.there, nowLeft: c.state != "" && c.state == left, force: r.force})
	if v == isCreated && r.sealed && !touched || r.note(c.path, v) { // the first: made later, by somebody else
		return wanted{}, false
	}
	if i := slices.IndexFunc(r.m.NotKept, func(n rawNamed) bool { return string(n.Path) == c.path }); i >= 0 {
		r.fail(c.path, errors.New("it was not kept: "+r.m.NotKept[i].Why))
		return wanted{}, false
	}
	if filter != "" {
		r.fail(c.path, fmt.Errorf("its content is made by git (%s); to put it back: git -C %s restore --source=%s --worktree -- %s", filter, text.Word(r.Repo), r.m.Commit,
			text.Word(c.path)))
		return wanted{}, false
	}
	return wanted{c, v}, true
}

// filtered says of which files the work tree does not hold what git stores, and why. Those whose bytes were captured
// need no filter.
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

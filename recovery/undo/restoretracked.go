package undo

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// wanted is a tracked file that is to be put back.
type wanted struct {
	trackedChange
	verdict verdict
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
	var todo []wanted
	for _, c := range list {
		if w, ok := r.want(c, odd[c.path]); ok {
			todo = append(todo, w)
		}
	}
	for n := 0; n < len(todo); n += atOnce {
		some := todo[n:min(n+atOnce, len(todo))]
		blobs := make([][]byte, len(some))
		ids := make([]string, len(some))
		for i, w := range some {
			ids[i] = w.oldID
		}
		if all, err := g.blobs(ctx, ids); err == nil {
			blobs = all
		}
		for i, w := range some {
			if err := ctx.Err(); err != nil {
				return err
			}
			if blobs[i] == nil { // too much at once, or one is missing
				one, err := g.blobs(ctx, ids[i:i+1])
				if err != nil {
					r.fail(w.path, err)
					continue
				}
				blobs[i] = one[0]
			}
			b := bytesOf{mode: w.oldMode, perm: 0o644, content: blobs[i]}
			if b.mode == gitExec {
				b.perm = 0o755
			}
			if p, ok := captured[w.path]; ok {
				b.perm = p
			}
			if g.object("blob", b.content) != w.oldID {
				r.fail(w.path, errors.New("what was kept is damaged"))
				continue
			}
			r.file(ctx, w.path, fmt.Sprintf("t%d", n+i), b, w.verdict)
		}
	}
	return nil
}

// atOnce is how many files are read from git together.
const atOnce = 50

// want decides about one tracked file that is not as it was kept; filter says how
// git makes its content, if it does. false: it stays, and that is written down.
func (r *restorer) want(c trackedChange, filter string) (wanted, bool) {
	for _, t := range r.m.Trees { // kept once more, and more exactly
		if p := string(t.Path); t.Method != wasAbsent && (c.path == p || strings.HasPrefix(c.path, p+"/")) {
			return wanted{}, false
		}
	}
	for _, f := range r.m.Files {
		if string(f.Path) == c.path { // untracked then, or a target
			return wanted{}, false
		}
	}
	there, err := r.occupied(c.path, c.now)
	if err != nil {
		r.fail(c.path, err)
		return wanted{}, false
	}
	left, touched := r.after.Tracked[rawPath(c.path).key()]
	v := judge(facts{wasAbsent: c.oldMode == gitEmpty, sealed: r.sealed, untouched: !touched, nowAbsent: !there, nowLeft: c.now != "" && c.now == left, force: r.force})
	if v == isCreated && r.sealed && !touched {
		return wanted{}, false // made later, by somebody else
	}
	if r.note(c.path, v) {
		return wanted{}, false
	}
	for _, n := range r.m.NotKept {
		if string(n.Path) == c.path {
			r.fail(c.path, errors.New("it was not kept: "+n.Why))
			return wanted{}, false
		}
	}
	if filter != "" {
		r.fail(c.path, fmt.Errorf("its content is made by git (%s); to put it back: git -C %s restore --source=%s --worktree -- %s", filter, shellWord(r.Repo), r.m.Commit,
			shellWord(c.path)))
		return wanted{}, false
	}
	return wanted{c, v}, true
}

// filtered says of which files the work tree does not hold what git stores, and
// why. Those whose bytes were captured need no filter.
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

// shellWord quotes s for a command line that a person pastes.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@:,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

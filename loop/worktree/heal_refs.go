package worktree

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
)

// files lists the regular files below a directory.
func files(dir string) (paths []string) {
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths = append(paths, p)
		}
		return nil
	})
	return paths
}

// packedRefs takes the lines out of packed-refs that are no refs, and restores the refs that were in them from their
// reflogs.
func (h *healer) packedRefs(ctx context.Context) error {
	file := filepath.Join(h.git.Common, "packed-refs")
	data, err := door.Read(file, maxRefs)
	if err != nil {
		if exists(file) {
			return err
		}
		return nil
	}
	var good strings.Builder
	for line := range strings.Lines(string(data)) {
		id, ref, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "^"), " ")
		isRef := isID(id) && (strings.HasPrefix(ref, "refs/") || line[0] == '^')
		if strings.HasSuffix(line, "\n") && (line[0] == '#' || isRef) && !strings.Contains(line, "\x00") {
			good.WriteString(line)
		}
	}
	if good.Len() == len(data) && len(data) > 0 {
		return nil
	}
	if err := h.replace(file, []byte(good.String())); err != nil {
		return err
	}
	h.did("packed-refs was torn; its whole lines are left, and tags may be missing")
	out, err := h.read(ctx, "for-each-ref", "--format=%(refname)")
	if err != nil {
		return err
	}
	there := strings.Split(string(out), "\n")
	logs := filepath.Join(h.git.Common, "logs")
	for _, log := range files(filepath.Join(logs, "refs")) {
		ref, _ := filepath.Rel(logs, log)
		if !slices.Contains(there, ref) {
			if err := h.restore(ctx, ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// refs restores refs that are no refs, or whose commit is gone, from their reflogs. head sees to the branch of HEAD.
func (h *healer) refs(ctx context.Context) error {
	current := h.branch()
	at := map[string]string{} // the refs that are files, by the id in them
	for _, file := range files(filepath.Join(h.git.Common, "refs")) {
		ref, _ := filepath.Rel(h.git.Common, file)
		data, err := door.Read(file, 4<<10)
		id := strings.TrimSpace(string(data))
		switch {
		case err != nil || ref == current || strings.HasSuffix(ref, ".lock") || strings.HasPrefix(id, "ref: "):
		case isID(id):
			at[ref] = id
		default:
			if err := h.drop(ctx, ref); err != nil {
				return err
			}
		}
	}
	ids := make([]string, 0, len(at))
	for _, id := range at {
		ids = append(ids, id)
	}
	gone, err := h.missing(ctx, ids)
	if err != nil {
		return err
	}
	for ref, id := range at {
		if gone[id] {
			if err := h.drop(ctx, ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop moves the file of a ref away and restores the ref.
func (h *healer) drop(ctx context.Context, ref string) error {
	if err := h.keep(filepath.Join(h.git.Common, ref)); err != nil {
		return err
	}
	return h.restore(ctx, ref)
}

// restore lets a ref lead to the newest whole commit of its reflog. Without one the ref stays as packed-refs has it.
func (h *healer) restore(ctx context.Context, ref string) error {
	id, _, err := h.newest(ctx, filepath.Join(h.git.Common, "logs", ref))
	if err != nil {
		return err
	}
	if id != "" {
		_, err = h.run(ctx, nil, "update-ref", ref, id)
	}
	if id == "" || err != nil { // git takes not every name
		h.did("%s was damaged and is gone", ref)
		return ctx.Err()
	}
	h.did("%s was damaged; it leads to %s, the newest whole commit of its reflog", ref, id)
	return nil
}

// logs takes the lines out of the reflogs that are torn or name commits that are not whole. git fsck and git gc fail on them.
func (h *healer) logs(ctx context.Context) error {
	if len(h.Did) == 0 {
		return nil
	}
	logs := files(filepath.Join(h.git.Common, "logs"))
	if h.GitDir != h.git.Common {
		logs = append(logs, files(filepath.Join(h.GitDir, "logs"))...)
	}
	var ids []string
	for _, log := range logs {
		for _, words := range lines(log) {
			ids = append(ids, words[:2]...)
		}
	}
	slices.Sort(ids)
	gone, err := h.missing(ctx, slices.Compact(ids))
	if err != nil {
		return err
	}
	for _, log := range logs {
		data, err := door.Read(log, maxReflog)
		if err != nil {
			continue // longer than anything that git would read, or another user's
		}
		var good strings.Builder
		for _, words := range lines(log) {
			lost := slices.ContainsFunc(words[:2], func(id string) bool { return (gone[id] || h.lost[id]) && strings.Trim(id, "0") != "" })
			if !lost && !strings.Contains(words[2], "\x00") {
				fmt.Fprintln(&good, strings.Join(words, " "))
			}
		}
		if good.Len() == len(data) {
			continue
		}
		if err := h.replace(log, []byte(good.String())); err != nil {
			return err
		}
	}
	return nil
}

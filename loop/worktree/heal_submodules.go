package worktree

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
)

// submodules heals the repositories of the submodules that are checked out, as Heal does this one. A loop can go on
// without one that cannot be healed, so such a one is only named, in Damaged.
func (h *healer) submodules(ctx context.Context) error {
	list, err := h.Repo.index(ctx)
	if err != nil {
		return err
	}
	for _, e := range list {
		dir := filepath.Join(h.Top, e.path)
		if e.mode != modeGitlink || !exists(filepath.Join(dir, ".git")) {
			continue
		}
		var healed Healed
		sub, err := h.linked(ctx, dir)
		if err == nil {
			was := h.was
			was.Commit = ""
			healed, err = sub.Heal(ctx, was)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, did := range healed.Did {
			h.did("in the submodule %s: %s", e.path, did)
		}
		if healed.Kept != "" {
			h.did("what was replaced in it is kept in %s", healed.Kept)
		}
		if h.Damaged = append(h.Damaged, healed.Damaged...); err != nil {
			h.Damaged = append(h.Damaged, fmt.Sprintf("the repository of the submodule %s is damaged: %v; to fetch it anew and keep what is there: %s", e.path, err, h.anew(e.path)))
		}
	}
	return nil
}

// anew returns the command that fetches a submodule anew, and keeps its files and its repository beside the work tree.
func (h *healer) anew(path string) string {
	dir, kept := filepath.Join(h.Top, path), h.Top+"-"+strings.ReplaceAll(path, "/", "-")
	command := "mv " + text.Paste(dir) + " " + text.Paste(kept)
	data, _ := door.Read(filepath.Join(dir, ".git"), 4<<10) // a file that is empty or gone leads nowhere
	if to, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir: "); ok {
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		if exists(to) {
			command += " && mv " + text.Paste(to) + " " + text.Paste(kept+".git")
		}
	}
	return command + " && git -C " + text.Paste(h.Top) + " submodule update --init -- " + text.Paste(path)
}

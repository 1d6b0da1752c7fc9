package carry

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/layout"
)

// Offer puts a loop on its remote, so that a machine can take it: what the clone repo has committed, and the configuration
// in it. A loop that was there before goes on where it stands, with the configuration of the clone. fresh begins it with
// what the clone has committed; its journal goes on all the same. A machine that runs the loop loses it.
func Offer(ctx context.Context, repo string, c host.Claim, fresh bool, o Options) error {
	state, err := layout.StateRoot(o.StateHome)
	if err != nil {
		return err
	}
	l := &Loop{Repo: repo, o: o, dir: filepath.Join(state, "carried", nameOf(c.Remote, c.Loop)+".offer"), blobs: map[string]blob{}, rec: record{Claim: c}}
	if err := o.Disk.MkdirAll("carried", l.dir, 0o700); err != nil {
		return err
	}
	if err := l.open(ctx); err != nil {
		return err
	}
	was, err := l.git.At(ctx, c.Remote, StateRef(c.Loop))
	if err != nil {
		return fmt.Errorf("asking %s for loop %s: %w", text.Paste(c.Remote), c.Loop, err)
	}
	out, err := l.git.Run(ctx, nil, "rev-parse", "--verify", "HEAD^{commit}")
	if err != nil {
		return fmt.Errorf("the clone has no commit to begin with: %w", err)
	}
	head := strings.TrimSpace(string(out))
	trees := map[string]string{"work": head, "index": head}
	if was != "" {
		tree, at, err := l.before(ctx, was)
		if err != nil {
			return err
		}
		if !fresh {
			head, trees["work"], trees["index"] = at, tree+":work", tree+":index"
		}
		for _, part := range []string{"loop", "private"} {
			if has, err := l.git.Run(ctx, nil, "ls-tree", tree, "--", part); err != nil {
				return err
			} else if len(has) > 0 {
				trees[part] = tree + ":" + part
			}
		}
	}
	files, err := l.below(ctx, "super", l.paths.Super)
	if err != nil {
		return err
	}
	said, err := loop.EncodeIndent(meta{Version: metaVersion, Workflow: c.Workflow, Loop: c.Loop, Machine: c.Machine, Grant: c.Grant}, "  ")
	if err != nil {
		return err
	}
	id, err := l.object(ctx, said)
	if err != nil {
		return err
	}
	tree, err := l.tree(ctx, "", append(files, file{"meta.json", id, "100644"}), trees)
	if err != nil {
		return err
	}
	next, err := l.commit(ctx, tree, head)
	if err != nil {
		return err
	}
	if err := l.git.Swap(ctx, c.Remote, StateRef(c.Loop), was, next, "+"+head+":"+WorkRef(c.Loop)); err != nil {
		return fmt.Errorf("pushing loop %s to %s: %w", c.Loop, text.Paste(c.Remote), err)
	}
	return nil
}

// before fetches and checks the state that the remote has.
func (l *Loop) before(ctx context.Context, state string) (tree, head string, err error) {
	c := l.rec.Claim
	if err := l.git.Fetch(ctx, c.Remote, "+"+StateRef(c.Loop)+":"+StateRef(c.Loop)); err != nil {
		return "", "", fmt.Errorf("fetching loop %s: %w", c.Loop, err)
	}
	raw, err := l.git.Run(ctx, nil, "cat-file", "commit", state)
	if err != nil {
		return "", "", err
	}
	tree, head, err = authentic(state, raw, c)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		err = fmt.Errorf("%s; to begin without it: git push %s :%s", refused.Why, text.Paste(c.Remote), StateRef(c.Loop))
	}
	return tree, head, err
}

package take

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/result"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/server/forge"
)

// PullOptions are the flags of superloop pr. Env reads the environment of the user, and LookPath finds a program on the
// user's PATH.
type PullOptions struct {
	Base                 string
	Ready, DryRun, Force bool
	Env                  func(string) string
	LookPath             func(string) (string, error)
}

// maxBody bounds the body of a pull request, in bytes. GitHub takes 65,536 characters.
const maxBody = 60_000

// Pull opens a draft pull request for the branch of the loop, or updates the body of the one that is open. It pushes the
// branch first. gh or glab runs with the environment of this process, outside of the repository, so that nothing in there
// steers it. The caller knows that an operator calls, and that nobody runs the loop.
func (w *Work) Pull(ctx context.Context, o PullOptions) error {
	res, err := w.settled(ctx, "superloop pr", o.Force)
	if err != nil {
		return err
	}
	name, remote, err := Remote(ctx, w.Main, "")
	if r, ok := errors.AsType[*Refusal](err); ok {
		r.Next += ", then: superloop pr --loop " + w.ID
	}
	if err != nil {
		return err
	}
	at, ok := forge.Of(remote, o.Env)
	if !ok {
		return refuse("git -C "+text.Paste(w.Paths.Repo)+" remote -v   (for a host of your own: GH_HOST=HOST or GITLAB_HOST=HOST superloop pr --loop "+w.ID+")",
			"superloop does not know whether gh or glab opens pull requests at %s (%s)", text.Line(remote, 200), name)
	}
	if _, err := o.LookPath(at.Program); err != nil {
		return refuse(at.Install(), "%s is not on the PATH; it opens pull requests at %s", at.Program, at.Host)
	}
	r, tip, err := w.request(ctx, res, o)
	if err != nil {
		return err
	}
	// The directory of the private state is no clone.
	tool := forge.Tool{Forge: at, Env: w.Environ, Dir: w.Paths.Private}
	if o.DryRun {
		create := r
		create.Base = cmp.Or(r.Base, "(the default branch)")
		w.say("would push %s to %s", r.Branch, text.Line(remote, 200))
		w.say("would look for an open pull request: %s", text.Words(tool.Argv(at.FindCall(r.Branch))))
		w.say("would create one from %s into %s if there is none: %s\nwith the title %s and the body:\n", r.Branch, create.Base, text.Words(tool.Argv(at.CreateCall(create))), text.Line(r.Title, 200))
		w.say("%s", text.Plain(r.Body))
		return nil
	}
	w.say("pushing %s to %s", r.Branch, text.Line(remote, 200))
	if err := w.Main.Push(ctx, remote, tip, r.Branch); err != nil {
		return refuse("git -C "+text.Paste(w.Paths.Repo)+" push "+text.Paste(name)+" "+r.Branch, "pushing %s: %w", r.Branch, forge.Said(err))
	}
	return w.open(ctx, forge.Client{Forge: at, Doer: tool}, r)
}

// Offer commits what a completed loop has left, and returns the pull request of it and the commit that is to be pushed to
// its branch. It pushes nothing.
func (w *Work) Offer(ctx context.Context) (r forge.Request, tip string, err error) {
	res, err := w.settled(ctx, "superloop pr", false)
	if err != nil {
		return r, "", err
	}
	return w.request(ctx, res, PullOptions{})
}

func (w *Work) request(ctx context.Context, res result.Result, o PullOptions) (r forge.Request, tip string, err error) {
	branch, tip, err := w.pushable(ctx, res, o)
	subject, _ := res.Message()
	return forge.Request{Branch: branch, Base: o.Base, Title: subject, Body: text.Head(res.Body(), maxBody), Ready: o.Ready}, tip, err
}

// Remote returns the name and the address of a remote of a repository: the one with the name, or for "" origin, or the only
// one.
func Remote(ctx context.Context, main *worktree.Repo, wanted string) (name, address string, err error) {
	all, err := main.Remotes(ctx)
	if err != nil {
		return "", "", err
	}
	names := slices.Sorted(maps.Keys(all))
	repo := "git -C " + text.Paste(main.Top)
	switch {
	case wanted != "" && all[wanted] == "":
		return "", "", refuse(repo+" remote -v", "the repository %s has no remote %s", main.Top, text.Line(wanted, 100))
	case wanted != "":
		return wanted, all[wanted], nil
	case all["origin"] != "":
		return "origin", all["origin"], nil
	case len(names) == 1:
		return names[0], all[names[0]], nil
	case len(names) == 0:
		return "", "", refuse(repo+" remote add origin URL", "the repository %s has no remote, so there is nowhere to open a pull request", main.Top)
	}
	return "", "", refuse(repo+" remote rename "+text.Paste(names[0])+" origin", "which remote? none is called origin: %s", text.Line(strings.Join(names, ", "), 200))
}

// pushable returns the branch with the work and its commit. All of the work is committed then.
func (w *Work) pushable(ctx context.Context, res result.Result, o PullOptions) (branch, tip string, err error) {
	repo := "git -C " + text.Paste(w.Paths.Repo)
	branch = w.Paths.OwnBranch()
	if w.Own {
		if err := w.commitRest(ctx, res, o.DryRun); err != nil {
			return "", "", err
		}
	} else {
		if branch, err = w.Main.Branch(ctx); err != nil {
			return "", "", err
		}
		dirty, err := w.Main.Dirty(ctx)
		switch {
		case err != nil:
			return "", "", err
		case branch == "":
			return "", "", refuse(repo+" switch -c superloop/"+w.ID, "%w, so there is none to push", worktree.ErrDetached)
		case branch == o.Base || o.Base == "" && slices.Contains([]string{"main", "master", "trunk"}, branch):
			return "", "", refuse(repo+" switch -c superloop/"+w.ID+", then: superloop pr --loop "+w.ID, "the work of loop %s is on %s itself; a pull request wants a branch of its own", w.ID, branch)
		case len(dirty) > 0:
			return "", "", refuse(repo+" add -A && "+repo+" commit, then: superloop pr --loop "+w.ID, "%s not committed, and so would not be in the pull request", count(len(dirty), "changed file"))
		}
	}
	tip, err = w.Main.Tip(ctx, branch)
	return branch, tip, err
}

// open updates the pull request of the branch, or creates it.
func (w *Work) open(ctx context.Context, c forge.Client, r forge.Request) error {
	pull, made, err := c.Open(ctx, r)
	if e, ok := errors.AsType[*forge.Error](err); ok {
		return refuse(e.Next, "%w", e.Err)
	}
	switch {
	case err != nil:
		return refuse("superloop pr --loop "+w.ID, "%w", err)
	case !made:
		w.say("updated the pull request that is open: %s", text.Line(pull.URL, 300))
	default:
		w.say("opened a %spull request: %s", map[bool]string{false: "draft "}[r.Ready], text.Line(pull.URL, 300))
	}
	return nil
}

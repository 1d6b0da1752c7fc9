package take

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/result"
	"github.com/superloop/superloop/loop/worktree"
)

// PullOptions are the flags of superloop pr. Env reads the environment of the user, and LookPath finds a program on the
// user's PATH.
type PullOptions struct {
	Base                 string
	Ready, DryRun, Force bool
	Env                  func(string) string
	LookPath             func(string) (string, error)
}

var errNoDefault = errors.New("glab names none")

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
	name, remote, err := w.remote(ctx)
	if err != nil {
		return err
	}
	forge, ok := ForgeOf(remote, o.Env)
	if !ok {
		return refuse("git -C "+text.Paste(w.Paths.Repo)+" remote -v   (for a host of your own: GH_HOST=HOST or GITLAB_HOST=HOST superloop pr --loop "+w.ID+")",
			"superloop does not know whether gh or glab opens pull requests at %s (%s)", text.Line(remote, 200), name)
	}
	if _, err := o.LookPath(forge.Program); err != nil {
		return refuse(forge.Install(), "%s is not on the PATH; it opens pull requests at %s", forge.Program, forge.Host)
	}
	branch, tip, err := w.pushable(ctx, res, o)
	if err != nil {
		return err
	}
	subject, _ := res.Message()
	body := text.Head(res.Body(), maxBody)
	if o.DryRun {
		w.say("would push %s to %s", branch, text.Line(remote, 200))
		w.say("would look for an open pull request: %s", text.Words(append([]string{forge.Program}, forge.Find(branch).Args...)))
		w.say("would create one if there is none: %s\nwith the body:\n", text.Words(append([]string{forge.Program}, forge.Create(branch, o.Base, subject, "...", !o.Ready).Args...)))
		w.say("%s", text.Plain(body))
		return nil
	}
	w.say("pushing %s to %s", branch, text.Line(remote, 200))
	if err := w.Main.Push(ctx, remote, tip, branch); err != nil {
		return refuse("git -C "+text.Paste(w.Paths.Repo)+" push "+text.Paste(name)+" "+branch, "pushing %s: %w", branch, toolSaid(err))
	}
	return w.open(ctx, forge, o, branch, subject, body)
}

// remote returns the name and the address of the remote: origin, or the only one.
func (w *Work) remote(ctx context.Context) (name, address string, err error) {
	all, err := w.Main.Remotes(ctx)
	if err != nil {
		return "", "", err
	}
	names := slices.Sorted(maps.Keys(all))
	repo := "git -C " + text.Paste(w.Paths.Repo)
	switch {
	case all["origin"] != "":
		return "origin", all["origin"], nil
	case len(names) == 1:
		return names[0], all[names[0]], nil
	case len(names) == 0:
		return "", "", refuse(repo+" remote add origin URL, then: superloop pr --loop "+w.ID, "the repository %s has no remote, so there is nowhere to open a pull request", w.Paths.Repo)
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
func (w *Work) open(ctx context.Context, f Forge, o PullOptions, branch, title, body string) error {
	out, err := w.call(ctx, f, f.Find(branch))
	if err != nil {
		return err
	}
	found, err := f.Found(out)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		if _, err := w.call(ctx, f, f.Update(found[0].Number, body)); err != nil {
			return err
		}
		w.say("updated the pull request that is open: %s", text.Line(found[0].URL, 300))
		return nil
	}
	base := o.Base
	if c, needed := f.Default(); needed && base == "" {
		out, err := w.call(ctx, f, c)
		var project struct {
			Branch string `json:"default_branch"`
		}
		if err == nil {
			err = text.Decode(out, &project)
		}
		if err != nil || project.Branch == "" {
			return refuse("superloop pr --loop "+w.ID+" --base BRANCH", "the default branch of %s is not known: %w", f.Path, cmp.Or(err, errNoDefault))
		}
		base = project.Branch
	}
	out, err = w.call(ctx, f, f.Create(branch, base, title, body, !o.Ready))
	if err != nil {
		return err
	}
	said := string(out)
	var made struct {
		WebURL string `json:"web_url"`
	}
	if text.Decode(out, &made) == nil {
		said = made.WebURL
	}
	w.say("opened a %spull request: %s", map[bool]string{false: "draft "}[o.Ready], text.Line(said, 300))
	return nil
}

// call runs the program of a forge in the directory of the loop's private state, which is no clone.
func (w *Work) call(ctx context.Context, f Forge, c Call) ([]byte, error) {
	tool := proc.Tool{Dir: w.Paths.Private, Env: append(w.Environ[:len(w.Environ):len(w.Environ)], "GH_PROMPT_DISABLED=1", "NO_COLOR=1", "GH_NO_UPDATE_NOTIFIER=1"),
		Stdin: []byte(c.Stdin), Limit: 4 << 20}
	out, err := tool.Run(ctx, append([]string{f.Program}, c.Args...)...)
	if err != nil {
		return nil, refuse(f.Program+" auth status --hostname "+f.Host, "%s %s: %w", f.Program, strings.Join(c.Args[:2], " "), toolSaid(err))
	}
	return out, nil
}

// toolSaid shortens the error of a program to what it said. The arguments can hold a whole body.
func toolSaid(err error) error {
	failed, ok := errors.AsType[*proc.ToolError](err)
	if !ok {
		return err
	}
	return errors.New(text.Line(strings.TrimSpace(failed.Err.Error()+": "+failed.Stderr), 400))
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/worktree"
)

// toolTimeout bounds each program that a check starts.
const toolTimeout = 10 * time.Second

// lookPath finds a program as a loop would.
func (p Target) lookPath(file string) (string, error) {
	return proc.LookPath(file, []string{"PATH=" + p.Path})
}

// tool runs a program with the patient's PATH, in a directory that is nobody's.
func (p Target) tool(ctx context.Context, argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	return proc.Tool{Dir: "/", Env: append(os.Environ(), "PATH="+p.Path), Limit: 1 << 20}.Run(ctx, argv...)
}

// git looks for git, 2.30 or newer.
func (p Target) git(ctx context.Context) Result {
	const fix = "install git 2.30 or newer"
	path, err := p.lookPath("git")
	if err != nil {
		return Result{Status: Fail, Detail: err.Error(), Fix: fix}
	}
	out, err := p.tool(ctx, path, "version")
	if err != nil {
		return Result{Status: Fail, Detail: err.Error(), Fix: fix}
	}
	return judgeGit(firstLine(out), path, fix)
}

func judgeGit(said, path, fix string) Result {
	m := regexp.MustCompile(`^git version (\d+)\.(\d+)`).FindStringSubmatch(said)
	if m == nil {
		return Result{Status: Warn, Detail: fmt.Sprintf("%s says %q, which is no version", path, said), Fix: fix}
	}
	major, _ := strconv.Atoi(m[1]) // too many digits give the largest number
	minor, _ := strconv.Atoi(m[2])
	if major < 2 || major == 2 && minor < 30 {
		return Result{Status: Fail, Detail: fmt.Sprintf("%s at %s is too old", said, path), Fix: fix}
	}
	return Result{Status: OK, Detail: fmt.Sprintf("%s at %s", said, path)}
}

// open opens the work tree; the Result is to be given when it is nil.
func (p Target) open(ctx context.Context) (*worktree.Repo, Result) {
	repo, err := worktree.Open(ctx, p.Repo)
	switch {
	case errors.Is(err, worktree.ErrNotRepo):
		return nil, Result{Status: Fail, Detail: p.Repo + " is not in a git work tree", Fix: "git -C " + text.Paste(p.Repo) + " init"}
	case err != nil:
		return nil, Result{Status: Fail, Detail: err.Error(), Fix: "git -C " + text.Paste(p.Repo) + " status"}
	}
	return repo, Result{}
}

// repository looks for a work tree with a commit.
func (p Target) repository(ctx context.Context) Result {
	repo, bad := p.open(ctx)
	if repo == nil {
		return bad
	}
	head, err := repo.Head(ctx)
	if err != nil {
		return Result{Status: Fail, Detail: err.Error(), Fix: "git -C " + text.Paste(p.Repo) + " status"}
	}
	if head == "" {
		r := Result{Status: Warn, Detail: repo.Top + " has no commit yet, so there is nothing to go back to",
			Fix: "git -C " + text.Paste(repo.Top) + " add -A && git -C " + text.Paste(repo.Top) + " commit -m 'Start'"}
		if p.Config != nil {
			for _, l := range p.Config.Loops {
				if l.Git.Worktree {
					r.Status, r.Detail = Fail, fmt.Sprintf("%s has no commit yet, and the loop %q wants a worktree made from one", repo.Top, l.ID)
				}
			}
		}
		return r
	}
	branch, err := repo.Branch(ctx)
	switch {
	case err != nil:
		return Result{Status: Fail, Detail: err.Error(), Fix: "git -C " + text.Paste(p.Repo) + " status"}
	case branch == "":
		return Result{Status: Warn, Detail: fmt.Sprintf("%s is at %.12s without a branch; commits of a loop would be hard to find", repo.Top, head),
			Fix: "git -C " + text.Paste(repo.Top) + " switch -c NAME"}
	}
	return Result{Status: OK, Detail: fmt.Sprintf("%s, branch %s at %.12s", repo.Top, branch, head)}
}

// workTree looks for what keeps git from committing, and tells how much is
// uncommitted.
func (p Target) workTree(ctx context.Context) Result {
	repo, bad := p.open(ctx)
	if repo == nil {
		bad.Fix = "mend the repository first, see above"
		return bad
	}
	for _, s := range []struct{ file, what, fix string }{
		{"index.lock", "another git holds the index, or left its lock behind", "wait for it; if no git is running: rm %s"},
		{"MERGE_HEAD", "a merge is in progress", "git merge --continue, or git merge --abort (marked by %s)"},
		{"CHERRY_PICK_HEAD", "a cherry-pick is in progress", "git cherry-pick --continue, or --abort (marked by %s)"},
		{"REVERT_HEAD", "a revert is in progress", "git revert --continue, or --abort (marked by %s)"},
		{"rebase-merge", "a rebase is in progress", "git rebase --continue, or git rebase --abort (marked by %s)"},
		{"rebase-apply", "a rebase or git am is in progress", "git rebase --continue or git am --continue, or --abort (marked by %s)"},
		{"BISECT_LOG", "a bisection is in progress", "git bisect reset (marked by %s)"},
	} {
		file := filepath.Join(repo.GitDir, s.file)
		if info, err := os.Lstat(file); err == nil {
			return Result{Status: Warn, Fix: fmt.Sprintf(s.fix, text.Paste(file)),
				Detail: fmt.Sprintf("%s: %s, since %s", s.what, file, info.ModTime().Local().Format(time.DateTime))}
		}
	}
	dirty, err := repo.Dirty(ctx)
	if err != nil {
		return Result{Status: Fail, Detail: err.Error(), Fix: "git -C " + text.Paste(repo.Top) + " status"}
	}
	if len(dirty) == 0 {
		return Result{Status: OK, Detail: "clean"}
	}
	return Result{Status: OK, Detail: fmt.Sprintf("%s changed or untracked and not committed, such as %s", count(len(dirty), "path"), dirty[0])}
}

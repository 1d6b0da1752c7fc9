package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/worktree"
)

// lookPath finds a program on the PATH of the target, as a loop would.
func (p Target) lookPath(file string) (string, error) {
	return proc.LookPath(file, []string{"PATH=" + p.Path})
}

// version finds a program, runs it with arg, and returns the first line of its output and its path. The program has 10
// s.
func (p Target) version(ctx context.Context, program, arg string) (said, path string, err error) {
	if path, err = p.lookPath(program); err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := proc.Tool{Dir: "/", Env: append(os.Environ(), "PATH="+p.Path), Limit: 1 << 20}.Run(ctx, path, arg)
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return render.Cut(render.Clean(strings.TrimSpace(line)), 120), path, err
}

func (p Target) git(ctx context.Context) Result {
	const fix = "install git 2.30 or newer"
	said, path, err := gitcmd.Version(ctx)
	if err != nil {
		return fail(fix, "%v", err)
	}
	return judgeGit(said, path, fix)
}

func judgeGit(said, path, fix string) Result {
	m := regexp.MustCompile(`^git version (\d+)\.(\d+)`).FindStringSubmatch(said)
	if m == nil {
		return warn(fix, "%s says %q, which is no version", path, said)
	}
	major, _ := strconv.Atoi(m[1]) // a number that is too long gives the largest int
	minor, _ := strconv.Atoi(m[2])
	if major < 2 || major == 2 && minor < 30 {
		return fail(fix, "%s at %s is too old", said, path)
	}
	return ok("%s at %s", said, path)
}

// bash looks for bash, the shell that runs the test and validation commands.
func (p Target) bash(ctx context.Context) Result {
	said, path, err := p.version(ctx, "bash", "--version")
	if err != nil {
		return fail("install bash; test and validation commands run under bash -c", "%v", err)
	}
	return ok("%s at %s", said, path)
}

// open opens the work tree. If the returned Repo is nil, the caller returns the Result.
func (p Target) open(ctx context.Context) (*worktree.Repo, Result) {
	repo, err := worktree.Open(ctx, p.Repo, "")
	switch {
	case errors.Is(err, worktree.ErrNotRepo):
		return nil, fail("git -C "+text.Paste(p.Repo)+" init", "%s is not in a git work tree", p.Repo)
	case err != nil:
		return nil, fail("git -C "+text.Paste(p.Repo)+" status", "%v", err)
	}
	return repo, Result{}
}

// repository checks that the directory is in a git work tree and that the work tree has a commit and a branch.
func (p Target) repository(ctx context.Context) Result {
	repo, bad := p.open(ctx)
	if repo == nil {
		return bad
	}
	top := "git -C " + text.Paste(repo.Top)
	head, err := repo.Head(ctx)
	branch := ""
	if err == nil && head != "" {
		branch, err = repo.Branch(ctx)
	}
	switch {
	case err != nil:
		return fail("git -C "+text.Paste(p.Repo)+" status", "%v", err)
	case head != "" && branch == "":
		return warn(top+" switch -c NAME", "%s is at %.12s without a branch; commits of a loop would be hard to find", repo.Top, head)
	case head != "":
		return ok("%s, branch %s at %.12s", repo.Top, branch, head)
	}
	fix := top + " add -A && " + top + " commit -m 'Start'"
	if p.Config != nil {
		if i := slices.IndexFunc(p.Config.Loops, func(l config.Loop) bool { return l.Git.Worktree }); i >= 0 {
			return fail(fix, "%s has no commit yet, and the loop %q wants a worktree made from one", repo.Top, p.Config.Loops[i].ID)
		}
	}
	return warn(fix, "%s has no commit yet, so there is nothing to go back to", repo.Top)
}

// workTree looks for a state of the repository that keeps git from committing, such as a merge in progress. It also
// reports how many paths are uncommitted.
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
			return warn(fmt.Sprintf(s.fix, text.Paste(file)), "%s: %s, since %s", s.what, file, info.ModTime().Local().Format(time.DateTime))
		}
	}
	dirty, err := repo.Dirty(ctx)
	switch {
	case err != nil:
		return fail("git -C "+text.Paste(repo.Top)+" status", "%v", err)
	case len(dirty) == 0:
		return ok("clean")
	}
	return ok("%s changed or untracked and not committed, such as %s", render.Number(len(dirty), "path"), dirty[0])
}

// config checks whether the configuration is valid, and reports its warnings.
func (p Target) config(context.Context) Result {
	if p.Config == nil {
		var bad *config.Error
		switch {
		case !errors.As(p.ConfigErr, &bad) || len(bad.Problems) == 0:
			return fail("superloop validate", "%v", p.ConfigErr)
		case bad.Problems[0].Code == config.CodeNoFile:
			return fail("superloop init", "there is no %s", p.ConfigPath)
		}
		return fail("superloop validate", "%s: %s", p.ConfigPath, firstOf(bad.Problems))
	}
	r := ok("%s, %s, %s", p.ConfigPath, render.Number(len(p.Config.Loops), "loop"), render.Number(len(p.Config.Runners), "runner"))
	if w := p.Config.Warnings; len(w) > 0 {
		return warn("superloop validate shows all", "%s, %s: %s", r.Detail, render.Number(len(w), "warning"), firstOf(w))
	}
	return r
}

// permissions checks whether other users may change the configuration or its directory.
func (p Target) permissions(context.Context) Result {
	for _, path := range []string{filepath.Dir(p.ConfigPath), p.ConfigPath} {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fail("superloop init", "there is no %s", path)
		case err != nil:
			return fail("ls -ld "+text.Paste(path), "%v", err)
		}
		perm, who := info.Mode().Perm(), ""
		switch {
		case perm&0o002 != 0 && info.Mode()&fs.ModeSticky == 0:
			who = "everybody"
		case perm&0o020 != 0:
			who = "its group"
		}
		if who != "" {
			return warn("chmod go-w "+text.Paste(path), "%s may change %s (mode %04o), and so what superloop runs as you", who, path, perm)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Getuid() {
			return warn(fmt.Sprintf("chown %d %s", os.Getuid(), text.Paste(path)), "%s belongs to uid %d, who may change what superloop runs as you", path, st.Uid)
		}
	}
	return ok("only you and root may change the configuration")
}

// specs checks the files that the configuration names for loops and roles.
func (p Target) specs(context.Context) Result {
	if p.Config == nil {
		return fail("superloop validate", "not known without a valid configuration")
	}
	problems := slices.DeleteFunc(p.Config.Check(p.Repo, p.lookPath), func(q config.Problem) bool { // the runners' checks report these
		return strings.HasPrefix(q.Pointer, "/runner/") || strings.HasPrefix(q.Pointer, "/runners/")
	})
	if len(problems) > 0 {
		return fail("superloop validate", "%s", firstOf(problems))
	}
	var files []string
	for _, l := range p.Config.Loops {
		if !slices.Contains(files, l.SpecFile) {
			files = append(files, l.SpecFile)
		}
	}
	return ok("%s", strings.Join(files, ", "))
}

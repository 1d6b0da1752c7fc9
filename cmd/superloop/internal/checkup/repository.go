package checkup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/worktree"
)

// versionPatience bounds how long a program may take to say its version; some
// agent CLIs need several seconds.
const versionPatience = 15 * time.Second

func checkGit(ctx context.Context, p *Patient) []Result {
	out, err := proc.Tool{Dir: p.Repo}.Run(ctx, "git", "version")
	if err != nil {
		return one("git", Fail, err.Error(), "install git 2.30 or newer")
	}
	version := strings.TrimSpace(strings.TrimPrefix(string(out), "git version "))
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err == nil && (major < 2 || major == 2 && minor < 30) {
		return one("git", Fail, "version "+version+" is too old", "install git 2.30 or newer")
	}
	repo, err := worktree.Open(ctx, p.Repo)
	if err != nil {
		return one("git", Fail, err.Error(), "git init")
	}
	head, err := repo.Head(ctx)
	switch {
	case err != nil:
		return one("git", Fail, err.Error(), "git status")
	case head == "":
		return one("git", Warn, version+"; the repository has no commit yet", "git commit --allow-empty -m start")
	}
	return one("git", OK, version, "")
}

func checkConfig(_ context.Context, p *Patient) []Result {
	path := filepath.Join(p.Repo, ".superloop", "config.json")
	cfg, err := config.Load(path)
	if err != nil {
		fix := "superloop validate"
		if errors.Is(err, fs.ErrNotExist) {
			fix = "superloop init"
		}
		return one("config", Fail, err.Error(), fix)
	}
	p.config = cfg
	out := one("config", OK, fmt.Sprintf("%s, %d loop(s)", path, len(cfg.Loops)), "")
	for _, w := range cfg.Warnings {
		out = append(out, Result{"config", Warn, fmt.Sprint(w), "superloop validate"})
	}
	for _, x := range cfg.Check(p.Repo, p.LookPath) {
		if x.Code == config.CodeNotFound && strings.HasPrefix(x.Pointer, "/runners/") {
			continue // checkRunners says it with more
		}
		out = append(out, Result{"config", Fail, fmt.Sprint(x), "superloop validate"})
	}
	return out
}

func checkPermissions(_ context.Context, p *Patient) []Result {
	if p.config == nil {
		return nil
	}
	info, err := os.Stat(p.config.Path)
	if err != nil {
		return one("permissions", Fail, err.Error(), "ls -l "+p.config.Path)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return one("permissions", Warn, fmt.Sprintf("others may write %s (%s)", p.config.Path, info.Mode().Perm()), "chmod go-w "+p.config.Path)
	}
	return nil
}

// checkRunners looks for each program that a role is given to, and asks it for
// its version: one that cannot say it will not work at night either.
func checkRunners(ctx context.Context, p *Patient) []Result {
	if p.config == nil {
		return nil
	}
	var out []Result
	seen := map[string]bool{}
	for _, l := range p.config.Loops {
		for _, r := range l.Roles {
			runner := p.config.Runners[r.Runner]
			if seen[r.Runner] || len(runner.Command) == 0 {
				continue
			}
			seen[r.Runner] = true
			out = append(out, runnerResult(ctx, p, r.Runner, runner.Command[0]))
		}
	}
	return out
}

func runnerResult(ctx context.Context, p *Patient, name, program string) Result {
	program = strings.ReplaceAll(program, "{repo}", p.Repo)
	path := program
	if !strings.ContainsRune(program, '/') {
		found, err := p.LookPath(program)
		if err != nil {
			return Result{"runner " + name, Fail, err.Error(), "install " + program + ", or give its path in runners." + name + ".command"}
		}
		path = found
	} else if !filepath.IsAbs(path) {
		path = filepath.Join(p.Repo, path)
	}
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode().Perm()&0o111 == 0 {
		return Result{"runner " + name, Fail, path + " is not a program", "chmod +x " + path}
	}
	ctx, stop := context.WithTimeout(ctx, versionPatience)
	defer stop()
	out, err := proc.Tool{Dir: p.Repo, Limit: 64 << 10}.Run(ctx, path, "--version")
	if err != nil {
		return Result{"runner " + name, Warn, path + " does not tell its version", path + " --version"}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return Result{"runner " + name, OK, path + " " + first, ""}
}

func checkShell(_ context.Context, p *Patient) []Result {
	if _, err := p.LookPath("bash"); err != nil {
		return one("shell", Warn, "bash is not on PATH; test commands run under sh", "install bash")
	}
	return one("shell", OK, "bash runs the test commands", "")
}

// checkWorkTree finds what keeps git from committing at night.
func checkWorkTree(ctx context.Context, p *Patient) []Result {
	repo, err := worktree.Open(ctx, p.Repo)
	if err != nil {
		return nil // checkGit has said it
	}
	for file, what := range map[string]string{"MERGE_HEAD": "a merge", "rebase-merge": "a rebase", "rebase-apply": "a rebase",
		"CHERRY_PICK_HEAD": "a cherry-pick", "BISECT_LOG": "a bisect"} {
		if exists(filepath.Join(repo.GitDir, file)) {
			return one("work tree", Warn, what+" is in progress", "git status")
		}
	}
	if lock := filepath.Join(repo.GitDir, "index.lock"); exists(lock) {
		return one("work tree", Warn, lock+" is there: another git runs, or one was killed", "rm "+lock+"   (when no git runs)")
	}
	return one("work tree", OK, "nothing is in progress", "")
}

func checkPrivateState(_ context.Context, p *Patient) []Result {
	paths, err := loop.NewPaths(p.Repo, "x", p.StateHome)
	if err != nil {
		return one("private state", Fail, err.Error(), "export XDG_STATE_HOME=$HOME/.local/state")
	}
	dir := filepath.Dir(filepath.Dir(paths.Private))
	if rel, err := filepath.Rel(paths.Repo, dir); err == nil && !strings.HasPrefix(rel, "..") {
		return one("private state", Fail, dir+" is inside the repository, where agents write", "export XDG_STATE_HOME=$HOME/.local/state")
	}
	at := dir
	for !exists(at) && at != filepath.Dir(at) {
		at = filepath.Dir(at)
	}
	if !writable(at) {
		return one("private state", Fail, at+" cannot be written", "export XDG_STATE_HOME=DIR")
	}
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o077 != 0 {
		return one("private state", Warn, fmt.Sprintf("%s is open to others (%s)", dir, info.Mode().Perm()), "chmod 700 "+dir)
	}
	return one("private state", OK, dir, "")
}

// checkJournals verifies what each loop has recorded.
func checkJournals(_ context.Context, p *Patient) []Result {
	if p.config == nil {
		return nil
	}
	var out []Result
	for _, l := range p.config.Loops {
		name := "journal " + l.ID
		paths, err := loop.NewPaths(p.Repo, l.ID, p.StateHome)
		if err != nil {
			return nil // checkPrivateState has said it
		}
		rep, err := journal.Verify(paths.Events())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && rep.FirstBad == nil {
			err = journal.CheckHead(paths.Events(), paths.Head())
		}
		held := ""
		for _, lock := range paths.Locks() {
			if _, locked, lerr := durable.Holder(lock); lerr == nil && locked {
				held = ", a supervisor runs it"
			}
		}
		switch {
		case err != nil:
			out = append(out, Result{name, Fail, err.Error(), "superloop events --verify --loop " + l.ID})
		case rep.FirstBad != nil && rep.FirstBad.Torn:
			out = append(out, Result{name, Warn, "its last line is torn; the next run repairs it" + held, "superloop run --loop " + l.ID})
		case rep.FirstBad != nil:
			out = append(out, Result{name, Fail, rep.FirstBad.Error(), "superloop events --verify --loop " + l.ID})
		default:
			out = append(out, Result{name, OK, fmt.Sprintf("%d events, the chain is whole%s", rep.Events, held), ""})
		}
	}
	return out
}

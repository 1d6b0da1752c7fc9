package gitcmd_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/recovery/undo"
)

// yard is a repository of a user, in which an agent arranges something.
type yard struct {
	t          *testing.T
	base, repo string
	home       string
	marker     string // exists when a program of the agent has run
	evil       string // the program
	env        []string
	moved      bool // the repository lies elsewhere now
}

func newYard(t *testing.T) *yard {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	plain, err := os.MkdirTemp("/tmp", "superloop-evil-") // git hands the program to a shell; TMPDIR may hold blanks
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(plain) })
	y := &yard{t: t, base: base, repo: filepath.Join(base, "repo"), home: filepath.Join(base, "home"), marker: filepath.Join(plain, "marker"),
		evil: filepath.Join(plain, "evil")}
	t.Setenv("HOME", y.home) // undo takes the environment of the process
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	y.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + y.home, "GIT_CONFIG_NOSYSTEM=1", "TZ=UTC", "HOOK_URL=https://secret.example"}
	y.put(y.home+"/.gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n")
	// What git-lfs prints is what filters print; a monitor and gpg are only to be started.
	y.put(y.evil, "#!/bin/sh\nenv > "+y.marker+"\ncat\n")
	must(t, os.Chmod(y.evil, 0o755))
	y.git("", "init", "-q", y.repo)
	y.write("a.dat", "one\n")
	y.write("package.json", `{"scripts": {"test": "true"}}`)
	y.git(y.repo, "add", "-A")
	y.git(y.repo, "commit", "-q", "-m", "one")
	return y
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (y *yard) put(path, text string) {
	y.t.Helper()
	must(y.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(y.t, os.WriteFile(path, []byte(text), 0o644))
}

func (y *yard) write(name, text string) { y.put(filepath.Join(y.repo, name), text) }

// git runs git as the agent.
func (y *yard) git(dir string, args ...string) string {
	y.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, y.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		y.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (y *yard) config(key, v string) { y.git(y.repo, "config", key, v) }

// hooks writes every hook that git knows.
func (y *yard) hooks(dir string) {
	for _, name := range strings.Fields(`pre-commit prepare-commit-msg commit-msg post-commit post-checkout post-index-change
		reference-transaction pre-auto-gc post-rewrite fsmonitor-watchman post-merge`) {
		y.put(filepath.Join(dir, name), "#!/bin/sh\ntouch "+y.marker+"\n")
		must(y.t, os.Chmod(filepath.Join(dir, name), 0o755))
	}
}

// supervise does all that superloop does with git, as a supervisor that started before the agent, and as one that starts
// now.
func (y *yard) supervise(early *worktree.Repo) {
	y.t.Helper()
	ctx := y.t.Context()
	late, err := worktree.OpenEnv(ctx, y.repo, filepath.Join(y.base, "private", "late"), y.env)
	must(y.t, err)
	for i, r := range []*worktree.Repo{early, late} {
		if _, err := r.Dirty(ctx); i == 0 && y.moved {
			// A supervisor does not follow a repository that is moved under its feet.
			if err == nil {
				y.t.Error("the repository has moved, and git found it")
			}
			continue
		}
		y.write("a.dat", strings.Repeat("changed\n", i+2))
		_, err := r.Dirty(ctx)
		must(y.t, err)
		_, err = r.Snapshot(ctx)
		must(y.t, err)
		_, err = r.Recent(ctx, time.Time{}, 5)
		must(y.t, err)
		y.write("new"+string(rune('0'+i)), "x")
		_, err = r.Commit(ctx, worktree.CommitRequest{LoopID: "l", RunID: "r", Iteration: i + 1})
		must(y.t, err)
		_, err = r.AddWorktree(ctx, filepath.Join(y.base, "linked"+string(rune('0'+i))), "loop"+string(rune('0'+i)))
		must(y.t, err)
	}
	store := undo.Store{Disk: durable.OS(), Dir: filepath.Join(y.base, "private", "undo"), Repo: y.repo}
	y.write("a.dat", "uncommitted\n")
	kept, err := store.Keep(ctx, undo.Request{Targets: undo.Targets{Untracked: true}, Caps: undo.DefaultCaps(), Time: time.Unix(1e9, 0)})
	must(y.t, err)
	must(y.t, os.Remove(filepath.Join(y.repo, "a.dat")))
	must(y.t, store.Seal(ctx, kept.ID))
	_, err = store.Restore(ctx, kept.ID, undo.Options{})
	must(y.t, err)
}

// ways are what an agent can arrange so that a plain git runs its program.
var ways = map[string]func(y *yard){
	"filter in .git/config": func(y *yard) {
		y.config("filter.x.clean", y.evil)
		y.config("filter.x.smudge", y.evil)
		y.write(".git/info/attributes", "*.dat filter=x\n")
	},
	"filter in ~/.gitconfig": func(y *yard) {
		y.git(y.repo, "config", "--global", "filter.x.clean", y.evil)
		y.git(y.repo, "config", "--global", "filter.x.smudge", y.evil)
		y.write(".gitattributes", "*.dat filter=x\n")
	},
	"filter in an include": func(y *yard) {
		y.put(y.base+"/more", "[filter \"x\"]\n\tclean = "+y.evil+"\n\tsmudge = "+y.evil+"\n")
		y.config("include.path", y.base+"/more")
		y.write(".gitattributes", "*.dat filter=x\n")
	},
	"required filter process": func(y *yard) {
		y.config("filter.x.process", y.evil)
		y.config("filter.x.required", "true")
		y.write(".gitattributes", "*.dat filter=x\n")
	},
	"attributes of the user": func(y *yard) {
		y.put(y.home+"/.config/git/attributes", "*.dat filter=x\n")
		y.config("filter.x.clean", y.evil)
	},
	"core.attributesFile": func(y *yard) {
		y.put(y.base+"/attr", "*.dat filter=x\n")
		y.config("core.attributesFile", y.base+"/attr")
		y.config("filter.x.clean", y.evil)
	},
	"signature": func(y *yard) {
		y.config("gpg.program", y.evil)
		y.config("commit.gpgsign", "true")
		y.config("log.showSignature", "true")
	},
	"ssh signature": func(y *yard) {
		y.config("gpg.format", "ssh")
		y.config("gpg.ssh.program", y.evil)
		y.config("user.signingKey", y.home+"/key")
		y.config("commit.gpgsign", "true")
	},
	"hooks":          func(y *yard) { y.hooks(y.repo + "/.git/hooks") },
	"core.hooksPath": func(y *yard) { y.hooks(y.base + "/hooks"); y.config("core.hooksPath", y.base+"/hooks") },
	"monitor":        func(y *yard) { y.config("core.fsmonitor", y.evil) },
	"diff and textconv": func(y *yard) {
		y.config("diff.external", y.evil)
		y.config("diff.x.textconv", y.evil)
		y.config("diff.x.command", y.evil)
		y.config("merge.x.driver", y.evil)
		y.write(".gitattributes", "* diff=x merge=x\n")
	},
	"pager, editor, aliases": func(y *yard) {
		for _, key := range []string{"core.pager", "pager.log", "pager.status", "core.editor", "sequence.editor", "core.askPass", "core.sshCommand",
			"credential.helper", "core.alternateRefsCommand", "trailer.superloop-loop.command", "interactive.diffFilter"} {
			y.config(key, y.evil)
		}
		for _, key := range []string{"status", "log", "ls-files", "commit-tree", "read-tree"} {
			y.config("alias."+key, "!"+y.evil)
		}
	},
	"config.worktree": func(y *yard) {
		y.config("extensions.worktreeConfig", "true")
		y.put(y.repo+"/.git/config.worktree", "[core]\n\tfsmonitor = "+y.evil+"\n[filter \"x\"]\n\tclean = "+y.evil+"\n")
		y.write(".gitattributes", "*.dat filter=x\n")
	},
	"commondir": func(y *yard) {
		y.git("", "clone", "-q", "--bare", y.repo, y.base+"/common")
		y.put(y.base+"/common/config", "[core]\n\tbare = false\n\tfsmonitor = "+y.evil+"\n[filter \"x\"]\n\tclean = "+y.evil+"\n")
		y.write(".git/commondir", y.base+"/common\n")
		y.write(".gitattributes", "*.dat filter=x\n")
	},
	"a file .git": func(y *yard) {
		must(y.t, os.Rename(y.repo+"/.git", y.base+"/moved"))
		y.moved = true
		y.put(y.base+"/moved/config", "[core]\n\tfsmonitor = "+y.evil+"\n[filter \"x\"]\n\tclean = "+y.evil+"\n")
		y.write(".git", "gitdir: "+y.base+"/moved\n")
		y.write(".gitattributes", "*.dat filter=x\n")
	},
	"core.worktree": func(y *yard) {
		y.put(y.base+"/elsewhere/a.dat", "one\n")
		y.config("core.worktree", y.base+"/elsewhere")
		y.config("core.fsmonitor", y.evil)
	},
	"alternates": func(y *yard) {
		y.git("", "clone", "-q", "--bare", y.repo, y.base+"/other")
		y.write(".git/objects/info/alternates", y.base+"/other/objects\n")
		y.config("core.alternateRefsCommand", y.evil)
	},
	"submodule": func(y *yard) {
		y.git("", "clone", "-q", y.repo, y.base+"/lib")
		y.git(y.repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", y.base+"/lib", "lib")
		y.git(y.repo, "commit", "-q", "-m", "lib")
		for key, v := range map[string]string{"filter.x.clean": y.evil, "core.fsmonitor": y.evil} {
			y.git(y.repo+"/lib", "config", key, v)
		}
		y.config("submodule.lib.update", "!"+y.evil)
		y.config("submodule.recurse", "true")
		y.write("lib/.gitattributes", "*.dat filter=x\n")
		y.write("lib/a.dat", "changed in the submodule\n")
		y.hooks(y.repo + "/.git/modules/lib/hooks")
	},
	"promisor": func(y *yard) {
		y.config("core.repositoryFormatVersion", "1")
		y.config("extensions.partialClone", "origin")
		y.config("remote.origin.promisor", "true")
		y.config("remote.origin.url", "ext::"+y.evil)
		y.config("protocol.ext.allow", "always")
		y.config("url.ext::"+y.evil+".insteadOf", "none:")
	},
	"trace": func(y *yard) {
		y.git(y.repo, "config", "--global", "trace2.normalTarget", y.marker)
		y.git(y.repo, "config", "--global", "trace2.eventTarget", y.marker)
		must(y.t, os.RemoveAll(y.marker))
	},
	"a git first in PATH": func(y *yard) {
		must(y.t, os.MkdirAll(y.base+"/bin", 0o755))
		must(y.t, os.Symlink(y.evil, y.base+"/bin/git"))
		must(y.t, os.Symlink(y.evil, y.base+"/bin/rm"))
		y.t.Setenv("PATH", y.base+"/bin:"+os.Getenv("PATH"))
		y.env = append(slices.Clone(y.env), "PATH="+os.Getenv("PATH"), "GIT_EXEC_PATH="+y.base+"/bin", "GIT_SSH_COMMAND="+y.evil, "GIT_EXTERNAL_DIFF="+y.evil)
	},
	"variables": func(y *yard) {
		y.env = append(slices.Clone(y.env), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0="+y.evil, "GIT_PAGER="+y.evil)
	},
}

// T-1: nothing that an agent can have arranged runs when superloop runs git.
func TestNothingOfAnAgentRuns(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(ways)) {
		if i%testkit.Sample(3, 1, 1) != 0 {
			continue
		}
		arrange := ways[name]
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			early, err := worktree.OpenEnv(t.Context(), y.repo, filepath.Join(y.base, "private", "early"), y.env)
			must(t, err)
			arrange(y)
			must(t, os.Chtimes(y.repo+"/a.dat", time.Time{}, time.Unix(2e9, 0)))
			_ = os.Remove(y.marker) // the agent's own git may have run it
			y.supervise(early)
			if got, err := os.ReadFile(y.marker); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a program of the agent ran, with the environment:\n%s", got)
			}
		})
	}
}

// A way that does not work with a plain git would prove nothing: each one that names a filter, a monitor or hooks runs
// the agent's program when the agent itself calls git.
func TestTheWaysWork(t *testing.T) {
	for _, name := range []string{"filter in .git/config", "filter in ~/.gitconfig", "filter in an include", "required filter process", "attributes of the user",
		"core.attributesFile", "hooks", "core.hooksPath", "monitor", "config.worktree", "commondir", "a file .git", "core.worktree", "submodule", "trace"} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			ways[name](y)
			y.write("a.dat", "two\n")
			_ = os.Remove(y.marker)
			for _, args := range [][]string{{"status"}, {"commit", "-q", "-a", "-m", "x"}} {
				cmd := exec.Command("git", args...)
				cmd.Dir, cmd.Env = y.repo, y.env
				_ = cmd.Run() // a filter that breaks off fails the command, and has run
			}
			if _, err := os.Stat(y.marker); err != nil {
				t.Error("git did not run the program")
			}
		})
	}
}

// Some programs need content to start them; the door refuses what would.
func TestAdminRunsNoContent(t *testing.T) {
	y := newYard(t)
	r, err := gitcmd.Open(t.Context(), y.repo, filepath.Join(y.base, "private"), y.env)
	must(t, err)
	for _, args := range [][]string{{"status", "x"}, {"worktree"}, {"worktree", "add", "x"}, {"commit", "-m", "x"}} {
		if _, err := r.Admin(t.Context(), args...); err == nil {
			t.Errorf("%q", args)
		}
	}
}

// A FIFO in the place of a file that git reads holds git until superloop moves it aside.
func TestFIFOsDoNotHoldGit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".gitignore", "sub/.gitattributes", ".git/info/exclude", ".git/index", "elsewhere/ignore"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, ctx := t.TempDir(), t.Context()
			if _, err := gitcmd.Scratch(ctx, dir, "init", "-q"); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"a.txt": "a\n", "sub/b.txt": "b\n", ".git/info/exclude": "", "elsewhere/ignore": ""} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := gitcmd.Scratch(ctx, dir, "config", "core.excludesFile", filepath.Join(dir, "elsewhere/ignore")); err != nil {
				t.Fatal(err)
			}
			r, err := gitcmd.Open(ctx, dir, t.TempDir(), os.Environ())
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			_ = os.Remove(path)
			if err := unix.Mkfifo(path, 0o644); err != nil {
				t.Fatal(err)
			}
			// The call may fail, as with an empty index. It ends, and so does the next one.
			_, _ = r.Run(ctx, nil, "status", "--porcelain=v2", "--untracked-files=all")
			_, _ = r.Filtered(ctx, []string{"sub/b.txt"})
			if _, err := r.Run(ctx, nil, "status", "--porcelain=v2", "--untracked-files=all"); err != nil {
				t.Error(err)
			}
			told := 0
			r.OnMoved(func(from, to string) {
				info, err := os.Lstat(to)
				if from != path || err != nil || info.Mode().Type() != fs.ModeNamedPipe {
					t.Errorf("%s to %s: %v", from, to, err)
				}
				told++
			})
			if told != 1 {
				t.Errorf("%d FIFOs were moved", told)
			}
		})
	}
}

// A file that git reads whole, sparse and larger than the memory, is moved aside.
func TestSparseFilesDoNotEndGit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".gitignore", "sub/.gitignore", ".git/info/exclude"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, ctx := t.TempDir(), t.Context()
			if _, err := gitcmd.Scratch(ctx, dir, "init", "-q"); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x\n"), 0o644), os.Truncate(path, 1<<40)); err != nil {
				t.Fatal(err)
			}
			r, err := gitcmd.Open(ctx, dir, t.TempDir(), os.Environ())
			if err != nil {
				t.Fatal(err)
			}
			told := ""
			r.OnMoved(func(from, _ string) { told += from })
			if err := os.WriteFile(filepath.Join(filepath.Dir(path), "a.txt"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Run(ctx, nil, "status", "--porcelain=v2", "--untracked-files=all"); err != nil || told != path {
				t.Errorf("moved %q: %v", told, err)
			}
		})
	}
}

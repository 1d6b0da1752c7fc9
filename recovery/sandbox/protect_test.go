//go:build linux

package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// takeovers try to change what is protected in the repository.
var takeovers = []string{
	`echo x > .superloop/config.json`,
	`rm -rf .superloop`,
	`mv .superloop s && mkdir .superloop && echo x > .superloop/config.json`,
	`cp -r .superloop s; mv -T s .superloop`,
	`ln .superloop/config.json same && echo x > same`,
	`ln -s .superloop way; echo x > way/new`,
	`cd sub && echo x > ../.superloop/new`,
	`echo x > "/proc/self/root$PWD/.superloop/root"`,
	`exec 9< .superloop && echo x > /proc/self/fd/9/byfd`,
	`exec 9< .superloop/config.json && echo x > /proc/self/fd/9`,
	`chmod 777 .superloop .superloop/config.json`,
	`touch .superloop/config.json`,
	`echo x > .git/hooks/post-checkout`,
	`rm -rf .git/hooks && mkdir .git/hooks && echo x > .git/hooks/post-checkout`,
	`mv .git/hooks .git/h`,
	`git config core.fsmonitor evil`,
	`echo x >> .git/config`,
	`mv .git g && cp -r g .git && echo x > .git/hooks/post-checkout`,
	`mv .git/config c && echo x > .git/config`,
	`mkdir -p .git/info; echo '* filter=x' >> .git/info/exclude`,
	`umount .superloop; umount -l .git/hooks; mount -o remount,rw .superloop`,
	`unshare -Urm bash -c 'umount -l .superloop .git/hooks .git/config; echo x > .superloop/new; echo x > .git/hooks/new'`,
	`mount --bind sub .superloop; mount -t tmpfs none .superloop`,
	`git init; git clone -q . copy; :`,
}

func gitInit(t *testing.T, w *world) {
	t.Helper()
	for _, args := range [][]string{
		{"init", "-q", w.repo}, {"-C", w.repo, "config", "user.email", "a@example.org"}, {"-C", w.repo, "config", "user.name", "a"},
		{"-C", w.repo, "add", "."}, {"-C", w.repo, "commit", "-q", "-m", "first"},
	} {
		if out, err := exec.Command("git", append([]string{"-c", "safe.directory=*"}, args...)...).CombinedOutput(); err != nil {
			t.Skipf("needs git: %v: %s", err, out)
		}
	}
	if err := os.MkdirAll(w.repo+"/.git/hooks", 0o755); err != nil {
		t.Fatal(err)
	}
	w.own(t, w.repo)
}

func TestProtectedPlacesHold(t *testing.T) {
	t.Parallel()
	for _, level := range []Level{LandlockMount, Mount, Landlock} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			eachUser(t, func(t *testing.T, w *world) {
				gitInit(t, w)
				show := func() string {
					return picture(t, w.repo+"/.superloop", true) + picture(t, w.repo+"/.git/hooks", true) + picture(t, w.repo+"/.git/config", true)
				}
				before := show()
				j := w.at(t, level, w.job(t, "{ ("+strings.Join(takeovers, "); (")+"); } 2>&1; echo end"))
				if level == Landlock { // the control: what nothing keeps from happening does happen
					j.Command = "echo x > .superloop/config.json; echo x > .git/hooks/post-checkout; echo end"
				}
				j.Protected = Protected(w.repo)
				o := w.mustRun(t, j)
				if !strings.HasSuffix(o.Result.Stdout.Text(), "end\n") {
					t.Fatal(o)
				}
				if after := show(); (before != after) != (level == Landlock) {
					t.Errorf("before:\n%s\nafter:\n%s\n%v", before, after, o)
				}
				noted := slices.ContainsFunc(o.Sandbox.Notes, func(n string) bool {
					return strings.HasPrefix(n, "can be written: ") && strings.Contains(n, w.repo+"/.superloop")
				})
				if noted != (level == Landlock) {
					t.Errorf("notes %q", o.Sandbox.Notes)
				}
			})
		})
	}
}

// The protection of .git does not keep git from working.
func TestGitWorksUnderProtection(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, w *world) {
		gitInit(t, w)
		j := w.job(t, `set -e; echo new > new; git add new; git commit -qm second; git checkout -qb other; git mv new newer; git stash -q; git stash pop -q
git commit -qam third; git tag v1; git gc -q --prune=now; git reset -q --hard HEAD~1; git clean -qfdx -e .superloop; git status --porcelain; git log --oneline | wc -l`)
		j.Protected = Protected(w.repo)
		if o := w.mustRun(t, j); o.Result.Code != 0 || strings.TrimSpace(o.Result.Stdout.Text()) != "2" {
			t.Error(o)
		}
	})
}

func TestHiddenPlacesAreEmpty(t *testing.T) {
	t.Parallel()
	for _, level := range []Level{LandlockMount, Mount, Landlock} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			eachUser(t, func(t *testing.T, w *world) {
				w.write(t, w.home+"/.ssh/id", "private-key")
				w.write(t, w.home+"/.netrc", "private-password")
				home, err := os.Open(w.home)
				if err != nil {
					t.Fatal(err)
				}
				defer home.Close()
				// The address of a socket has at most 107 bytes, and the path may be longer.
				listen, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/engine.sock", home.Fd()))
				if err != nil {
					t.Fatal(err)
				}
				defer listen.Close()
				w.own(t, w.home)
				j := w.at(t, level, w.job(t, "cat ~/.ssh/* ~/.netrc; echo x > ~/.ssh/new; ls -A ~/.ssh ~/.netrc; [ -S ~/engine.sock ] && echo socket; echo end"))
				j.Hidden = []string{w.home + "/.ssh", w.home + "/.netrc", w.home + "/.missing", w.home + "/engine.sock"}
				o := w.mustRun(t, j)
				got := o.Result.Stdout.Text()
				seen := strings.Contains(got, "private-key") && strings.Contains(got, "private-password") && strings.Contains(got, "socket")
				nothing := !strings.Contains(got, "private") && !strings.Contains(got, "socket") && strings.Contains(got, "/.ssh:\nend")
				if seen != (level == Landlock) || nothing == seen {
					t.Errorf("%q", got)
				}
				if exists(w.home + "/.ssh/new") {
					t.Error("written")
				}
				if noted := strings.Contains(strings.Join(o.Sandbox.Notes, "\n"), "can be read: "+w.home); noted != (level == Landlock) {
					t.Errorf("notes %q", o.Sandbox.Notes)
				}
			})
		})
	}
}

// A link could be replaced, so nothing is promised: one level down, and a note.
func TestProtectedThroughALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid(), "")
	if err := os.Rename(w.repo+"/.superloop", w.repo+"/real"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", w.repo+"/.superloop"); err != nil {
		t.Fatal(err)
	}
	j := w.at(t, LandlockMount, w.job(t, "echo ran"))
	if o := w.mustRun(t, j); o.Sandbox.Level != Landlock || !strings.Contains(strings.Join(o.Sandbox.Notes, " "), "symbolic link") {
		t.Errorf("%+v", o.Sandbox)
	}
	j.Required = LandlockMount
	if o := w.run(t, j); o.Refused == nil || o.Refused.Sandbox.Level != Landlock || strings.Contains(o.Result.Output.Text(), "ran") {
		t.Error(o)
	}
}

// What is not there cannot be protected, but it is told that it came to be.
func TestAppeared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid(), "")
	gitInit(t, w)
	j := w.job(t, "echo /tmp/evil > .git/commondir; mkdir -p .git/info; echo '* filter=evil' > .git/info/attributes")
	if err := os.RemoveAll(w.repo + "/.git/info"); err != nil {
		t.Fatal(err)
	}
	j.Protected = Protected(w.repo)
	if o := w.mustRun(t, j); !slices.Equal(o.Result.Appeared, []string{w.repo + "/.git/commondir", w.repo + "/.git/info/attributes"}) {
		t.Errorf("%q", o.Result.Appeared)
	}
}

func TestProtectedPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid(), "")
	if got := Protected(w.repo); !slices.Equal(got, []string{w.repo + "/.superloop"}) {
		t.Errorf("no git: %q", got)
	}
	gitInit(t, w)
	own := []string{w.repo + "/.superloop"}
	for name := range strings.FieldsSeq(gitSteering) {
		own = append(own, w.repo+"/.git/"+name)
	}
	if got := Protected(w.repo); !slices.Equal(got, own) {
		t.Errorf("%q", got)
	}
	tree := filepath.Join(filepath.Dir(w.repo), "tree")
	if out, err := exec.Command("git", "-C", w.repo, "worktree", "add", "-q", tree).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	own = append(own, w.repo+"/.git/worktrees/tree/commondir", w.repo+"/.git/worktrees/tree/gitdir")
	if got := Protected(tree); !slices.Equal(got, append([]string{tree + "/.superloop", tree + "/.git"}, own[1:]...)) {
		t.Errorf("a work tree: %q", got)
	}
	for _, dir := range []string{"modules/a", "modules/deep/b", "modules/deep/b/modules/c"} {
		if err := os.MkdirAll(w.repo+"/.git/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(w.repo+"/.git/"+dir+"/HEAD", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := Protected(w.repo); !slices.Contains(got, w.repo+"/.git/"+dir+"/config") || !slices.Contains(got, w.repo+"/.git/"+dir+"/hooks") {
			t.Errorf("%s: %q", dir, got)
		}
	}
	// What an agent may put there must not make us wait, or read elsewhere.
	for name, plant := range map[string]func(string) error{
		"fifo": func(p string) error { return exec.Command("mkfifo", p).Run() },
		"link": func(p string) error { return os.Symlink("/etc/passwd", p) },
		"text": func(p string) error { return os.WriteFile(p, []byte("no gitdir\n"), 0o600) },
	} {
		at := t.TempDir()
		if err := plant(at + "/.git"); err != nil {
			t.Fatal(err)
		}
		if got := Protected(at); !slices.Equal(got, []string{at + "/.superloop", at + "/.git"}) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

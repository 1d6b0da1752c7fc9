package steering

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/sandbox"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case proc.SpawnerArg:
			os.Exit(proc.SpawnerMain())
		case sandbox.ShimArg:
			os.Exit(sandbox.ShimMain())
		}
	}
	goleak.VerifyTestMain(m)
}

// world is a home directory with a repository in it.
type world struct {
	t          testing.TB
	home, repo string
	env        []string
	keeper     *Keeper
	agents     sandbox.Spawner // nil before protect
}

func newWorld(t testing.TB) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, home: filepath.Join(base, "home"), repo: filepath.Join(base, "home/work/repo")}
	w.env = []string{"HOME=" + w.home, "PATH=" + w.home + "/.local/bin:" + w.home + "/go/bin:/usr/local/bin:/usr/bin:/bin", "TMPDIR=" + base}
	w.write(".superloop/config.json", "{}", w.repo)
	return w
}

// write makes a file below the home directory, or below dir.
func (w *world) write(path, text string, dir ...string) {
	w.t.Helper()
	at := filepath.Join(append(dir, w.home)[0], path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) link(path, to string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(w.home, path)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(to, filepath.Join(w.home, path)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) surroundings(change func(*Home)) Home {
	h := Home{Env: w.env, Work: []string{w.repo}, Needed: []string{filepath.Dir(w.home)}}
	if change != nil {
		change(&h)
	}
	return h
}

// protect makes the mounts, and skips the test where none can be had.
func (w *world) protect(change func(*Home)) {
	w.t.Helper()
	s, err := proc.Start(proc.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	w.keeper = NewKeeper(w.surroundings(change), durable.OS())
	w.t.Cleanup(w.keeper.Close)
	var rep sandbox.ProtectionReport
	w.agents, rep = sandbox.Protect(context.Background(), s, sandbox.Protection{ReadOnly: []string{w.repo + "/.superloop"}, Around: w.keeper.Around})
	notes := strings.Join(rep.Notes, "\n")
	if rep.Level != sandbox.ProtectMount {
		w.t.Skipf("no protection is to be had here: %s", notes)
	}
	if strings.Contains(notes, "is not protected: ") {
		w.t.Fatal(notes)
	}
}

// agent runs a script as an agent, and returns what it printed.
func (w *world) agent(script string) string {
	w.t.Helper()
	res, err := w.agents.Run(context.Background(), proc.Spec{Argv: []string{"/bin/bash", "-c", "{ " + script + "\n} 2>&1"}, Dir: w.repo, Env: w.env, Timeout: time.Minute})
	if err != nil || res.Err != nil {
		w.t.Fatal(res, err)
	}
	return res.Stdout.Text()
}

// picture is the content of the home directory, without the work in it.
func (w *world) picture() string {
	w.t.Helper()
	var lines []string
	err := filepath.WalkDir(w.home, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.Join(w.home, "work") {
			return filepath.SkipDir
		}
		line := strings.TrimPrefix(path, w.home) + " " + e.Type().String()
		switch {
		case e.Type()&os.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			line += " " + to
		case e.Type().IsRegular():
			text, _ := os.ReadFile(path)
			line += " " + string(text)
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// furnish fills the home directory.
func (w *world) furnish() {
	w.write("dotfiles/bashrc", "good")
	w.link(".bashrc", "dotfiles/bashrc")
	w.write(".local/bin/tool", "good")
	w.write(".local/share/pipx/venvs/linked/bin/linked", "good")
	w.write(".local/share/pipx/venvs/linked/lib.py", "good")
	w.link(".local/bin/linked", "../share/pipx/venvs/linked/bin/linked")
	w.write("lib/node_modules/cli/main.js", "good")
	w.link(".local/bin/cli", "../../lib/node_modules/cli/main.js")
	w.write(".local/bin/go", "good")
	w.write(".ssh/config", "good")
	w.write(".own/settings", "good")
	w.write(".claude/settings.json", "state")
	w.write(".cache/x", "cache")
}

func own(h *Home) { h.Paths = []string{"~/.own", "~/.later"} }

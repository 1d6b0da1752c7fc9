package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

func idOfPath(t testing.TB, path string) FileID {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return FileID{Dev: uint64(st.Dev), Ino: st.Ino}
}

func link(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// Conforms: 004-sec-path
func TestResolve(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repo := base + "/repo"
	for _, dir := range []string{repo + "/a/b", repo + "/.git/hooks", repo + "/.superloop", base + "/repo-sibling", base + "/outside", repo + "/~", repo + "/ blank "} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(repo+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link(t, "a/b", repo+"/in")
	link(t, "../outside", repo+"/out")
	link(t, base+"/outside", repo+"/abs")
	link(t, "/proc/self/cwd", repo+"/magic")
	link(t, ".git", repo+"/git")
	link(t, "loop", repo+"/loop")
	link(t, "nothing", repo+"/dangling")
	link(t, repo, base+"/alias")

	for _, c := range []struct{ dir, want, wrong string }{
		{"", repo, ""},
		{".", repo, ""},
		{"a", repo + "/a", ""},
		{"a/b/..", repo + "/a", ""},
		{"./a//b/", repo + "/a/b", ""},
		{"in", repo + "/a/b", ""},
		{"in/..", repo + "/a", ""},
		{"~", repo + "/~", ""},
		{" blank ", repo + "/ blank ", ""},
		{repo, repo, ""},
		{repo + "/a", repo + "/a", ""},
		{"..", "", "leads out of the repository"},
		{"a/../..", "", "leads out of the repository"},
		{"../repo/a", "", "leads out of the repository"},
		{"out", "", "leads out of the repository"},
		{"abs", "", "leads out of the repository"},
		{base, "", "not in the repository"},
		{base + "/repo-sibling", "", "not in the repository"},
		{"../repo-sibling", "", "leads out of the repository"},
		{"/", "", "not in the repository"},
		{"magic", "", ""},
		{"/proc/self/cwd", "", "not in the repository"},
		{"loop", "", ""},
		{"dangling", "", ""},
		{"missing", "", "does not exist"},
		{"file", "", "not a directory"},
		{".git", "", "lies in .git"},
		{".git/hooks", "", "lies in .git"},
		{"git/hooks", "", "lies in .git"},
		{"a/../.superloop", "", "lies in .superloop"},
		{"$HOME", "", "does not exist"},
		{"a\x00b", "", "NUL"},
		{strings.Repeat("a/", 4096), "", "bytes"},
	} {
		for _, from := range []string{repo, base + "/alias"} {
			p, err := Resolve(from, c.dir)
			if c.want == "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%.60q: %+v %v, want %q", c.dir, p, err, c.wrong)
				}
				continue
			}
			if err != nil || p.Repo != repo || p.DirID != idOfPath(t, c.want) || p.RepoID != idOfPath(t, repo) {
				t.Errorf("%.60q from %s: %+v %v", c.dir, from, p, err)
			}
		}
	}
	for _, bad := range []string{"", "relative", base + "/missing", repo + "/file"} {
		if p, err := Resolve(bad, ""); err == nil {
			t.Errorf("repository %q: %+v", bad, p)
		}
	}
	if p, err := Resolve(base+"/alias", base+"/alias/a"); err != nil || p.DirID != idOfPath(t, repo+"/a") || p.Dir != "a" {
		t.Errorf("by the repository's own other name: %+v %v", p, err)
	}
}

func TestOtherDevice(t *testing.T) {
	t.Parallel()
	root, err := Resolve("/", "")
	if err != nil {
		t.Fatal(err)
	}
	if idOfPath(t, "/proc").Dev == root.RepoID.Dev {
		t.Skip("/proc is no device of its own")
	}
	if p, err := Resolve("/", "proc"); err == nil || !strings.Contains(err.Error(), "another device") {
		t.Errorf("%+v %v", p, err)
	}
}

// swap exchanges what stands at dir, as fast as it can: a directory, a link out of
// the repository, another directory, nothing. The returned function ends that.
func swap(dir, outside string) (stop func()) {
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			_ = os.Rename(dir, dir+".kept")
			_ = os.Symlink(outside, dir)
			_ = os.Remove(dir)
			_ = os.Rename(dir+".kept", outside+"/moved")
			_ = os.Mkdir(dir, 0o755)
			_ = os.Remove(dir)
			_ = os.Rename(outside+"/moved", dir)
		}
	})
	return func() {
		done.Store(true)
		wg.Wait()
	}
}

func TestRaceForTheDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid(), "")
	dir := w.repo + "/sub/deep"
	place, err := Resolve(w.repo, "sub/deep")
	if err != nil {
		t.Fatal(err)
	}
	out, repo := idOfPath(t, w.outside), idOfPath(t, w.repo+"/sub")
	stop := swap(dir, w.outside)
	found, refused := 0, 0
	for range 1500 {
		p, fds, err := open(w.repo, "sub/deep")
		if err != nil {
			refused++
			continue
		}
		found++
		var st unix.Stat_t
		_ = unix.Fstat(int(fds.dir.Fd()), &st)
		if id := (FileID{Dev: uint64(st.Dev), Ino: st.Ino}); id == out || id == repo || id != p.DirID {
			t.Errorf("%+v leads to %+v", p, id)
		}
		fds.close()
	}
	// The real thing: a command that leaves a trace where it runs.
	ran := 0
	for range 40 {
		j := w.job(t, "touch ran-here; echo ran")
		j.Place = place
		o := w.run(t, j)
		if o.Err == "" {
			ran++
		} else if o.Result.Ended != proc.NotStarted || !strings.Contains(o.Err, "working directory") {
			t.Errorf("%v", o)
		}
	}
	stop()
	t.Logf("found %d, refused %d; ran %d of 40", found, refused, ran)
	if found == 0 || refused == 0 {
		t.Errorf("found %d, refused %d: this shows nothing", found, refused)
	}
	for _, trace := range []string{w.outside + "/ran-here", w.repo + "/ran-here", w.repo + "/sub/ran-here"} {
		if exists(trace) {
			t.Errorf("it ran in %s", filepath.Dir(trace))
		}
	}
}

// Another directory of the same name is not the one that was decided on.
func TestReplacedDirectory(t *testing.T) {
	t.Parallel()
	for what, replace := range map[string]func(w *world) error{
		"the working directory": func(w *world) error {
			return os.Rename(w.repo+"/sub", w.repo+"/old")
		},
		"the repository": func(w *world) error {
			return os.Rename(w.repo, w.repo+".old")
		},
	} {
		w := newWorld(t, os.Getuid(), "")
		j := w.job(t, "echo ran")
		var err error
		if j.Place, err = Resolve(w.repo, "sub"); err == nil {
			if err = replace(w); err == nil {
				err = os.MkdirAll(w.repo+"/sub", 0o755)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		o := w.run(t, j)
		if !strings.Contains(o.Err, what) || !strings.Contains(o.Err, "replaced") || o.Result.Ended != proc.NotStarted || o.Result.Output.Bytes != 0 {
			t.Errorf("%s: %v", what, o)
		}
	}
}

func TestRequiredAndLevels(t *testing.T) {
	t.Parallel()
	all := Levels()
	for i, have := range all {
		for k, need := range all {
			if have.Meets(need) != (i >= k) {
				t.Errorf("%s meets %s: %v", have, need, i < k)
			}
		}
		if !have.Meets("") || have.Meets("landlok") || Level("").Meets(None) {
			t.Errorf("%s: unknown levels", have)
		}
	}
	w := newWorld(t, os.Getuid(), "")
	best, err := Measure(context.Background(), w.spawner)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" && (best.Level != None || len(best.Notes) == 0) {
		t.Errorf("%+v", best)
	}
	for _, l := range all {
		j := w.job(t, "echo ran; touch ran")
		j.Required = l
		o := w.run(t, j)
		ran := exists(w.repo + "/ran")
		_ = os.Remove(w.repo + "/ran")
		if best.Level.Meets(l) {
			if o.Err != "" || !ran || o.Sandbox.Level != best.Level {
				t.Errorf("%s: %v", l, o)
			}
		} else if ran || o.Refused == nil || o.Refused.Required != l || !strings.Contains(o.Err, "refused, nothing was run") || !strings.Contains(o.Err, string(l)) {
			t.Errorf("%s: %v", l, o)
		}
		// Switched off, it is refused where it was good enough before.
		j.Without = []Mechanism{UseLandlock, UseMount}
		o = w.run(t, j)
		if refused := o.Refused != nil; refused != (l != None) || exists(w.repo+"/ran") == refused {
			t.Errorf("%s without anything: %v", l, o)
		}
		_ = os.Remove(w.repo + "/ran")
	}
}

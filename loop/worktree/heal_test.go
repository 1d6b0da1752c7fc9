package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/internal/text"
)

// loose lists the loose objects of the repository.
func (b box) loose() map[string]bool {
	b.t.Helper()
	all := map[string]bool{}
	must(b.t, filepath.WalkDir(filepath.Join(b.dir, ".git/objects"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && len(d.Name()) == 38 {
			all[p] = true
		}
		return err
	}))
	return all
}

// cut shortens a file, as a power cut does.
func (b box) cut(name string, to int64) {
	b.t.Helper()
	must(b.t, os.Chmod(filepath.Join(b.dir, name), 0o644))
	must(b.t, os.Truncate(filepath.Join(b.dir, name), to))
}

// cutObjects shortens the loose objects that are not in before, or those of one type.
func (b box) cutObjects(before map[string]bool, which string, to int64) {
	b.t.Helper()
	var list []string
	for p := range b.loose() {
		if !before[p] && (which == "" || b.git("cat-file", "-t", filepath.Base(filepath.Dir(p))+filepath.Base(p)) == which) {
			rel, _ := filepath.Rel(b.dir, p)
			list = append(list, rel)
		}
	}
	for _, p := range list {
		b.cut(p, to)
	}
}

func unclean() Accident { return Accident{Unclean: true, Now: time.Now()} }

// T-8: what a power cut leaves of a repository is healed, the work tree stays as it was, and what was replaced is kept.
func TestHeal(t *testing.T) {
	t.Parallel()
	const back, index = "took HEAD back", "built the index anew"
	cases := map[string]struct {
		damage func(b box, before map[string]bool)
		lost   bool // the last commit is lost
		did    string
		unseen bool // only a look after an unclean end finds it
	}{
		"nothing":        {damage: func(box, map[string]bool) {}},
		"a short index":  {damage: func(b box, _ map[string]bool) { b.cut(".git/index", 60) }, did: index},
		"an empty index": {damage: func(b box, _ map[string]bool) { b.cut(".git/index", 0) }, did: index},
		"an index that ends between two files": {damage: func(b box, _ map[string]bool) {
			info, err := os.Stat(filepath.Join(b.dir, ".git/index"))
			must(b.t, err)
			b.cut(".git/index", info.Size()-24)
		}, did: index},
		"an index of objects that are gone": {damage: func(b box, _ map[string]bool) {
			before := b.loose()
			b.put("staged", "only here")
			b.git("add", "staged")
			b.cutObjects(before, "", 0)
		}, did: index, unseen: true},
		"empty objects":                  {damage: func(b box, x map[string]bool) { b.cutObjects(x, "", 0) }, lost: true, did: back},
		"short objects":                  {damage: func(b box, x map[string]bool) { b.cutObjects(x, "", 20) }, lost: true, did: back},
		"an empty commit":                {damage: func(b box, x map[string]bool) { b.cutObjects(x, "commit", 0) }, lost: true, did: back},
		"an empty tree":                  {damage: func(b box, x map[string]bool) { b.cutObjects(x, "tree", 0) }, lost: true, did: back},
		"an empty file":                  {damage: func(b box, x map[string]bool) { b.cutObjects(x, "blob", 0) }, lost: true, did: back, unseen: true},
		"a short file":                   {damage: func(b box, x map[string]bool) { b.cutObjects(x, "blob", 12) }, lost: true, did: back, unseen: true},
		"an empty branch":                {damage: func(b box, _ map[string]bool) { b.cut(".git/refs/heads/main", 0) }, did: back},
		"a branch that is gone":          {damage: func(b box, _ map[string]bool) { b.rm(".git/refs/heads/main") }, did: back},
		"a branch of zeros":              {damage: func(b box, _ map[string]bool) { b.put(".git/refs/heads/main", strings.Repeat("\x00", 41)) }, did: back},
		"a torn reflog and empty branch": {damage: func(b box, _ map[string]bool) { b.cut(".git/logs/HEAD", 30); b.cut(".git/refs/heads/main", 0) }, did: back},
		"another branch is empty": {damage: func(b box, _ map[string]bool) {
			b.git("branch", "other")
			b.cut(".git/refs/heads/other", 0)
		}, did: "refs/heads/other was damaged; it leads to", unseen: true},
		"torn packed-refs": {damage: func(b box, _ map[string]bool) {
			b.git("branch", "other")
			b.git("pack-refs", "--all")
			b.cut(".git/packed-refs", 70)
		}, did: "packed-refs was torn"},
		"empty packed-refs": {damage: func(b box, _ map[string]bool) {
			b.git("pack-refs", "--all")
			b.cut(".git/packed-refs", 0)
		}, did: "packed-refs was torn"},
		"locks": {damage: func(b box, _ map[string]bool) { b.put(".git/index.lock", "") }, did: "one lock of a git that was ended", unseen: true},
		"all at once": {damage: func(b box, x map[string]bool) {
			b.cutObjects(x, "", 0)
			b.cut(".git/index", 11)
			b.cut(".git/refs/heads/main", 0)
		}, lost: true, did: back},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		if i%testkit.Sample(3, 1, 1) != 0 {
			continue
		}
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.put("a", "1")
			b.put("dir/b", "1")
			b.commitAll("one")
			one, before := b.git("rev-parse", "HEAD"), b.loose()
			b.put("a", "2 and a content that is longer than a few bytes")
			b.put("new", "2")
			b.commitAll("two")
			want := b.git("rev-parse", "HEAD")
			if c.lost {
				want = one
			}
			r := b.open()
			c.damage(b, before)
			accident := unclean()
			accident.Unclean = c.unseen
			got, err := r.Heal(t.Context(), accident)
			// A git of another test that ends at this moment does not say any more where it worked, so the lock could be its own.
			for try := 0; err == nil && c.unseen && len(got.Did) == 0 && try < 50; try++ {
				got, err = r.Heal(t.Context(), accident)
			}
			must(t, err)
			if did := strings.Join(got.Did, "; "); !strings.Contains(did, c.did) || c.did == "" && did != "" {
				t.Errorf("did %q", did)
			}
			equal(t, "HEAD", b.git("rev-parse", "HEAD"), want)
			equal(t, "branch", b.git("symbolic-ref", "HEAD"), "refs/heads/main")
			b.put("later", "3")
			res := commit(t, r, request(1))
			equal(t, "committed", b.git("rev-parse", "HEAD"), res.SHA)
			equal(t, "the work is there", b.git("show", "HEAD:a")+b.git("show", "HEAD:new"), "2 and a content that is longer than a few bytes2")
			if status := b.git("status", "--porcelain"); status != "" && status != "?? staged" {
				t.Errorf("status %q", status)
			}
			b.git("fsck", "--full", "--strict")
			b.git("gc", "-q")
			if got, err = r.Heal(t.Context(), unclean()); len(got.Did) > 0 || err != nil {
				t.Errorf("once more: %q %v", got, err)
			}
		})
	}
}

// A lock that is older than what the accident can have interrupted is not superloop's to move.
func TestHealLeavesOldLocks(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.open()
	b.put(".git/index.lock", "")
	accident := unclean()
	accident.Since = time.Now().Add(time.Minute)
	if got, err := r.Heal(t.Context(), accident); len(got.Did) > 0 || err != nil || !exists(filepath.Join(b.dir, ".git/index.lock")) {
		t.Errorf("did %q: %v", got.Did, err)
	}
}

// The first commit of a repository can be lost, too: what it held is uncommitted work.
func TestHealTheFirstCommit(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.open()
	if got, err := r.Heal(t.Context(), Accident{}); len(got.Did) > 0 || err != nil {
		t.Errorf("without a commit: %q %v", got, err)
	}
	b.put("a", "1")
	b.commitAll("one")
	b.cutObjects(nil, "", 0)
	got, err := r.Heal(t.Context(), unclean())
	must(t, err)
	if !strings.Contains(strings.Join(got.Did, ";"), "the first commit of refs/heads/main was not on the disk") {
		t.Errorf("did %q", got.Did)
	}
	res := commit(t, r, request(1))
	equal(t, "committed", b.git("rev-list", "HEAD"), res.SHA)
	b.git("fsck", "--full", "--strict")
}

// Without a whole commit a command is named, and nothing is thrown away.
func TestHealNamesTheCommand(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("a", "1")
	b.commitAll("one")
	b.git("checkout", "-q", "--detach")
	r := b.open()
	b.cutObjects(nil, "", 0)
	_, err := r.Heal(t.Context(), unclean())
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "git -C "+text.Paste(b.dir)+" fsck --full") {
		t.Errorf("%v", err)
	}
	b.git("config", "remote.origin.url", "https://example.org/x.git")
	if _, err = r.Heal(t.Context(), unclean()); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "fetch --refetch origin") {
		t.Errorf("with a remote: %v", err)
	}
}

// The index of a sparse work tree says which files are left out, and nothing else does.
func TestHealASparseWorkTree(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("in/a", "1")
	b.put("out/b", "1")
	b.commitAll("one")
	b.git("sparse-checkout", "set", "in")
	r := b.open()
	b.cut(".git/index", 20)
	_, err := r.Heal(t.Context(), Accident{})
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "read-tree HEAD && git -C") {
		t.Fatal(err)
	}
	b.git("read-tree", "HEAD")
	b.git("sparse-checkout", "reapply")
	equal(t, "status", b.git("status", "--porcelain"), "")
}

// A linked work tree has a HEAD and an index of its own.
func TestHealALinkedWorkTree(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("a", "1")
	b.commitAll("one")
	w, err := b.open().AddWorktree(t.Context(), filepath.Join(b.dir, "linked"), "side")
	must(t, err)
	before := b.loose()
	l := b.in("linked")
	l.put("a", "2")
	l.commitAll("two")
	b.cutObjects(before, "", 0)
	b.cut(".git/worktrees/linked/index", 50)
	got, err := w.Heal(t.Context(), unclean())
	must(t, err)
	equal(t, "HEAD", l.git("rev-parse", "HEAD"), b.git("rev-parse", "main"))
	equal(t, "status", l.git("status", "--porcelain"), " M a")
	equal(t, "kept below", filepath.Dir(filepath.Dir(got.Kept)), filepath.Join(w.git.Common))
	if !exists(filepath.Join(got.Kept, "worktrees/linked/index")) {
		t.Error("the index is not kept")
	}
	commit(t, w, request(1))
	b.git("fsck", "--full", "--strict")
}

// With an empty file HEAD, or none, no git works at all.
func TestMendHead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more    func(b box)
		leads   string
		refuses bool
	}{
		"one branch":           {func(box) {}, "refs/heads/main", false},
		"the branch by reflog": {func(b box) { b.git("checkout", "-q", "-b", "x/y"); b.put("a", "2"); b.commitAll("two") }, "refs/heads/x/y", false},
		"two that are equal":   {func(b box) { b.git("branch", "other") }, "", true},
	} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprint(name, gone), func(t *testing.T) {
				t.Parallel()
				b := newBox(t)
				b.put("a", "1")
				b.commitAll("one")
				c.more(b)
				if b.cut(".git/HEAD", 0); gone {
					b.rm(".git/HEAD")
				}
				did, err := gitcmd.MendHead(b.dir)
				if c.refuses {
					if err == nil || !strings.Contains(err.Error(), "echo 'ref: refs/heads/BRANCH' >"+text.Paste(b.dir+"/.git/HEAD")) {
						t.Errorf("%q %v", did, err)
					}
					return
				}
				must(t, err)
				equal(t, "HEAD", b.git("symbolic-ref", "HEAD"), c.leads)
				if did, err = gitcmd.MendHead(b.dir); did != "" || err != nil {
					t.Errorf("once more: %q %v", did, err)
				}
			})
		}
	}
}

// What an agent wrote into the git directory leads healing nowhere else.
func TestHealStaysInTheGitDirectory(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(b box){
		"HEAD names a file": func(b box) { b.put(".git/HEAD", "ref: refs/../../theirs\n") },
		"refs lead out": func(b box) {
			b.git("symbolic-ref", "HEAD", "refs/heads/away/theirs")
			must(b.t, os.Symlink(b.dir, filepath.Join(b.dir, ".git/refs/heads/away")))
		},
		"kept files lead out": func(b box) { must(b.t, os.Symlink(b.dir, filepath.Join(b.dir, ".git/superloop-damaged"))) },
		"the index is a pipe": func(b box) { b.rm(".git/index"); must(b.t, syscall.Mkfifo(filepath.Join(b.dir, ".git/index"), 0o600)) },
		"a directory of objects": func(b box) {
			b.rm(".git/objects/00")
			must(b.t, os.Symlink(b.dir, filepath.Join(b.dir, ".git/objects/00")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.put("theirs", "1")
			b.commitAll("one")
			r := b.open()
			arrange(b)
			b.cut(".git/logs/HEAD", 10)
			b.put(".git/packed-refs", "torn")
			_, _ = r.Heal(t.Context(), unclean())
			entries, err := os.ReadDir(b.dir)
			must(t, err)
			if len(entries) != 2 {
				t.Errorf("something was written: %v", entries)
			}
			data, err := os.ReadFile(filepath.Join(b.dir, "theirs"))
			equal(t, "their file", string(data), "1")
			must(t, err)
		})
	}
}

// BenchmarkHeal is what healing costs at a start at which nothing is wrong, in a repository of 1,000 files.
func BenchmarkHeal(b *testing.B) {
	x := newBox(b)
	for i := range 1000 {
		x.put(manyName(i*97), "x")
	}
	x.commitAll("all")
	r := x.open()
	for name, a := range map[string]Accident{"clean": {}, "unclean": unclean()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if got, err := r.Heal(b.Context(), a); err != nil || len(got.Did) > 0 {
					b.Fatal(got, err)
				}
			}
		})
	}
}

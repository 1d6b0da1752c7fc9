package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const odd = "a \"b\"\n\tc 'é' \\ \x01"

func TestSnapshotIsIndependentOfCommits(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.open()
	empty := snap(t, r)
	equal(t, "an empty tree", len(empty.entries), 0)
	equal(t, "the zero snapshot", empty.Signature(), Snapshot{}.Signature())

	b.put("a", "1")
	b.put("d/b", "2")
	b.put(odd, "3")
	b.put("run.sh", "#!/bin/sh\n")
	must(t, os.Chmod(filepath.Join(b.dir, "run.sh"), 0o755))
	must(t, os.Symlink("a", filepath.Join(b.dir, "link")))
	must(t, os.Symlink("nowhere", filepath.Join(b.dir, "dangling")))
	must(t, os.Symlink("d", filepath.Join(b.dir, "dirlink")))
	b.put(".superloop/loops/x/events.jsonl", "1")
	one := snap(t, r)
	equal(t, "first files", diff(empty, one), "added a, added "+odd+", added d/b, added dangling, added dirlink, added link, added run.sh")
	equal(t, "untracked or staged", diff(one, func() Snapshot { b.git("add", "-A"); return snap(t, r) }()), "")
	b.git("commit", "-q", "-m", "one")
	two := snap(t, r)
	equal(t, "staged or committed", diff(one, two), "")
	equal(t, "signature", two.Signature(), one.Signature())

	b.put("a", "changed")
	b.rm("d/b")
	b.put("new", "n")
	must(t, os.Chmod(filepath.Join(b.dir, "run.sh"), 0o644))
	b.rm("link")
	must(t, os.Symlink("new", filepath.Join(b.dir, "link")))
	b.put(".superloop/loops/x/events.jsonl", "2")
	three := snap(t, r)
	want := "modified a, deleted d/b, modified link, added new, modified run.sh"
	equal(t, "changes", diff(two, three), want)
	if three.Signature() == two.Signature() {
		t.Error("another tree has the same signature")
	}
	b.git("add", "a") // partly staged
	b.put("new", "n") // touched, not changed
	equal(t, "partly staged", diff(three, snap(t, r)), "")
	b.commitAll("two") // the agent commits by itself
	b.git("checkout", "-q", "-b", "other")
	equal(t, "committed by the agent", diff(three, snap(t, r)), "")
	b.git("commit", "-q", "--allow-empty", "-m", "nothing")
	b.git("rm", "-q", "-r", "--cached", ".") // everything untracked again
	equal(t, "untracked again", diff(three, snap(t, r)), "")
	b.git("add", "-N", ".")
	equal(t, "intent to add", diff(three, snap(t, r)), "")
	b.git("reset", "-q", "--hard", "HEAD~2")
	equal(t, "back", diff(two, snap(t, r)), "")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The ids are git's: what is on disk and what is committed are told alike.
func TestSnapshotHasGitsIDs(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		b := box{t, t.TempDir(), hermetic(t)}
		b.git("init", "-q", "--object-format="+format)
		b.put("f", "content\n")
		s := snap(t, b.open())
		id := b.git("hash-object", "f")
		equal(t, format, fmt.Sprintf("%x", s.entries[0].sum[:len(id)/2]), id)
		b.git("add", "f")
		equal(t, format, diff(s, snap(t, b.open())), "")
	}
}

func TestSnapshotWithRenamesAndConflicts(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("old", strings.Repeat("line\n", 50))
	b.put("c", "base\n")
	b.commitAll("one")
	r := b.open()
	one := snap(t, r)
	b.git("mv", "old", "new")
	equal(t, "rename", diff(one, snap(t, r)), "added new, deleted old")
	b.git("mv", "new", "old")
	b.git("checkout", "-q", "-b", "side")
	b.put("c", "side\n")
	b.commitAll("side")
	b.git("checkout", "-q", "main")
	b.put("c", "main\n")
	b.commitAll("main")
	if _, err := b.try("merge", "-q", "side"); err == nil {
		t.Fatal("there was to be a conflict")
	}
	conflict := snap(t, r)
	equal(t, "conflict", diff(one, conflict), "modified c")
	b.put("c", "resolved\n")
	resolvedSnap := snap(t, r)
	equal(t, "edited", diff(conflict, resolvedSnap), "modified c")
	b.git("add", "c")
	b.git("commit", "-q", "--no-edit")
	equal(t, "merged", diff(resolvedSnap, snap(t, r)), "")
	// A file becomes a directory, a directory a file, a file a link.
	b.rm("old")
	b.put("old/inside", "x")
	b.rm("c")
	must(t, os.Symlink("old", filepath.Join(b.dir, "c")))
	types := snap(t, r)
	equal(t, "types", diff(resolvedSnap, types), "modified c, deleted old, added old/inside")
	b.commitAll("types")
	equal(t, "types committed", diff(types, snap(t, r)), "")
}

func TestSnapshotOfBigFiles(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.open()
	file := filepath.Join(b.dir, "big")
	must(t, os.WriteFile(file, nil, 0o644))
	must(t, os.Truncate(file, maxHashed+1))
	b.put("small", "s")
	before := snap(t, r)
	equal(t, "again", diff(before, snap(t, r)), "")
	since := func(prev Snapshot) Snapshot {
		s, err := r.SnapshotSince(t.Context(), prev)
		must(t, err)
		return s
	}
	b.commitAll("one")
	after := since(before)
	equal(t, "committed", diff(before, after), "")
	equal(t, "and once more", diff(after, since(after)), "")
	must(t, os.Chtimes(file, time.Time{}, time.Unix(1_700_000_000, 0)))
	equal(t, "touched", diff(after, since(after)), "modified big")
	must(t, os.Truncate(file, maxHashed+2))
	equal(t, "longer", diff(after, since(after)), "modified big")
}

// With a filter git stores another content than the file's.
func TestSnapshotSinceWithLineEnds(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put(".gitattributes", "*.txt text eol=crlf\n")
	b.commitAll("attributes")
	r := b.open()
	b.put("a.txt", "one\r\ntwo\r\n")
	b.put("b.txt", "one\r\n")
	before := snap(t, r)
	b.commitAll("text")
	after, err := r.SnapshotSince(t.Context(), before)
	must(t, err)
	equal(t, "committed", diff(before, after), "")
	// A file that was changed before it was committed is changed, even when its
	// size and time are made to look the same.
	info, err := os.Stat(filepath.Join(b.dir, "b.txt"))
	must(t, err)
	b.put("b.txt", "ONE\r\n")
	must(t, os.Chtimes(filepath.Join(b.dir, "b.txt"), info.ModTime(), info.ModTime()))
	_, _ = b.try("update-index", "--really-refresh") // says by its exit code that there is something
	b.git("-c", "core.trustctime=false", "add", "--renormalize", ".")
	b.git("commit", "-q", "-m", "changed")
	changed, err := r.SnapshotSince(t.Context(), after)
	must(t, err)
	equal(t, "changed and committed", diff(after, changed), "modified b.txt")
}

func TestSnapshotOfManyUntracked(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.open()
	b.put("tracked", "1")
	b.commitAll("one")
	must(t, os.Mkdir(filepath.Join(b.dir, "many"), 0o755))
	for i := range maxUntracked + 1 {
		must(t, os.WriteFile(filepath.Join(b.dir, "many", fmt.Sprint(i)), []byte("x"), 0o644))
	}
	b.put("tracked", "2")
	one := snap(t, r)
	equal(t, "paths", len(one.entries), maxUntracked+2)
	equal(t, "again", diff(one, snap(t, r)), "")
	must(t, os.Chtimes(filepath.Join(b.dir, "many/7"), time.Time{}, time.Unix(1_700_000_000, 0)))
	b.put("tracked", "3")
	equal(t, "touched", diff(one, snap(t, r)), "modified many/7, modified tracked")
}

func TestSnapshotOfSubmodules(t *testing.T) {
	t.Parallel()
	lib := newBox(t)
	lib.put("lib.c", "1")
	lib.commitAll("one")
	b := newBox(t)
	b.put("main.c", "1")
	b.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.dir, "vendor/lib")
	b.commitAll("with a submodule")
	sub := b.in("vendor/lib")
	sub.git("config", "user.name", "Ada")
	sub.git("config", "user.email", "ada@example.org")
	r := b.open()
	one := snap(t, r)

	s, err := OpenEnv(t.Context(), sub.dir, "", b.env)
	must(t, err)
	equal(t, "top of a submodule", resolved(s.Top), resolved(sub.dir))
	equal(t, "files of a submodule", len(snap(t, s).entries), 1)

	sub.put("lib.c", "2")
	two := snap(t, r)
	equal(t, "changed inside", diff(one, two), "modified vendor/lib")
	sub.put("lib.c", "22")
	three := snap(t, r)
	equal(t, "changed inside again", diff(two, three), "modified vendor/lib")
	sub.put("new.c", "")
	equal(t, "untracked inside", diff(three, snap(t, r)), "modified vendor/lib")
	sub.commitAll("two")
	four := snap(t, r)
	equal(t, "committed inside", diff(one, four), "modified vendor/lib")
	b.commitAll("the submodule's commit")
	equal(t, "recorded", diff(four, snap(t, r)), "")
	b.rm("vendor/lib")
	equal(t, "removed", diff(four, snap(t, r)), "deleted vendor/lib")
}

func TestSnapshotOfNestedRepositories(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("main.c", "1")
	b.commitAll("one")
	r := b.open()
	one := snap(t, r)
	for _, born := range []bool{false, true} {
		in := b.in("nested")
		must(t, os.MkdirAll(in.dir, 0o755))
		in.git("init", "-q", "-b", "main")
		in.put("x", "1")
		if born {
			in.git("config", "user.name", "Ada")
			in.git("config", "user.email", "ada@example.org")
			in.commitAll("inside")
		}
		two := snap(t, r)
		equal(t, "nested", diff(one, two), "added nested/")
		in.put("x", "22")
		equal(t, "changed inside", diff(two, snap(t, r)), "modified nested/")
		b.rm("nested")
	}
	// The agent adds one as a submodule without .gitmodules.
	in := b.in("nested")
	must(t, os.MkdirAll(in.dir, 0o755))
	in.git("init", "-q", "-b", "main")
	in.git("config", "user.name", "Ada")
	in.git("config", "user.email", "ada@example.org")
	in.put("x", "1")
	in.commitAll("inside")
	b.git("-c", "advice.addEmbeddedRepo=false", "add", "nested")
	b.git("commit", "-q", "-m", "embedded")
	three := snap(t, r)
	equal(t, "embedded", diff(one, three), "added nested")
	in.put("x", "2")
	in.commitAll("inside, again")
	in.git("pack-refs", "--all")
	four := snap(t, r)
	equal(t, "its commit moved", diff(three, four), "modified nested")
	b.git("-c", "advice.addEmbeddedRepo=false", "commit", "-q", "-a", "-m", "moved")
	equal(t, "and was recorded", diff(four, snap(t, r)), "")
}

func TestSnapshotEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("a", "1")
	r := b.open()
	ctx, cancel := contextOf(t)
	cancel()
	if _, err := r.Snapshot(ctx); err == nil {
		t.Error("a cancelled snapshot is one")
	}
	b.rm(".git")
	if _, err := r.Snapshot(t.Context()); err == nil {
		t.Error("a repository that is gone has a snapshot")
	}
	if _, err := r.Dirty(t.Context()); err == nil {
		t.Error("a repository that is gone has a status")
	}
}

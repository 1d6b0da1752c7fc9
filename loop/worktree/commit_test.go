package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func request(iteration int) CommitRequest {
	return CommitRequest{LoopID: "loop one", RunID: "20261121T120000Z", Iteration: iteration, Strategy: "per_iteration", Subject: "Add things"}
}

func commit(t *testing.T, r *Repo, q CommitRequest) CommitResult {
	t.Helper()
	res, err := r.Commit(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (b box) head() string { return mustTry(b.t, b, "rev-parse", "HEAD")[:40] }

func TestCommit(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.open()
	res := commit(t, r, request(1))
	if res.Skipped != SkippedNoChanges || res.SHA != "" {
		t.Errorf("an empty tree: %+v", res)
	}

	// The first commit of all.
	b.put("a", "1")
	b.put(odd, "2")
	b.put(":(glob)*", "magic")
	b.put(".superloop/loops/x/state.json", "{}")
	b.put("sub/.superloop/x", "{}")
	b.put("x.log", "")
	b.put(".gitignore", "*.log\n")
	res = commit(t, r, request(1))
	equal(t, "sha", res.SHA, b.git("rev-parse", "HEAD"))
	equal(t, "files", strings.ReplaceAll(b.git("ls-files", "-z"), "\x00", "|"), ".gitignore|:(glob)*|a|"+odd+"|")
	equal(t, "paths", len(res.Paths), 4)
	equal(t, "left dirty", b.git("status", "--porcelain", "--ignored=no"), "?? .superloop/\n?? sub/")
	equal(t, "message", b.git("log", "-1", "--format=%B"), "Add things\n\nSuperloop-Loop: loop one\nSuperloop-Run: 20261121T120000Z\n"+
		"Superloop-Iteration: 1\nSuperloop-Commit-Strategy: per_iteration\n")
	equal(t, "author", b.git("log", "-1", "--format=%an <%ae> %cn"), "Ada <ada@example.org> Ada")
	if _, err := os.Stat(filepath.Join(b.dir, ".git/superloop-commit-paths")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the list of paths is left behind")
	}

	// Changed, deleted, renamed, a mode, a link; staged by the agent in part.
	b.put("a", "11")
	b.git("add", "a")
	b.put("a", "111")
	b.rm(odd)
	b.git("mv", ".gitignore", "ignored")
	must(t, os.Symlink("a", filepath.Join(b.dir, "link")))
	res = commit(t, r, request(2))
	equal(t, "changes", b.git("log", "-1", "--format=", "--name-status", "--no-renames", "-z"),
		"D\x00.gitignore\x00M\x00a\x00D\x00"+odd+"\x00A\x00ignored\x00A\x00link\x00A\x00x.log\x00")
	equal(t, "content", b.git("show", "HEAD:a"), "111")
	equal(t, "author", b.git("log", "-1", "--format=%an <%ae> %cn"), "Ada <ada@example.org> Ada")
	equal(t, "subject", res.Subject, "Add things")

	b.git("checkout", "-q", "--detach")
	b.put("a", "4")
	res = commit(t, r, request(3))
	equal(t, "detached", res.SHA, b.git("rev-parse", "HEAD"))
	res = commit(t, r, request(4))
	equal(t, "nothing new", res.Skipped, SkippedNoChanges)
}

func TestCommitFromASubdirectory(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("sub/a", "1")
	b.put("b", "1")
	r, err := OpenEnv(t.Context(), filepath.Join(b.dir, "sub"), "", b.env)
	must(t, err)
	commit(t, r, request(1))
	equal(t, "files", b.git("ls-files"), "b\nsub/a")
}

// What an operator had in the tree when the loop began is the operator's.
func TestCommitLeavesThePersonsFiles(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	for _, f := range []string{"theirs", "theirs staged", "both", "ours", "their deletion", "tracked/.superloop/config.json"} {
		b.put(f, "0\n")
	}
	b.commitAll("base")
	b.put("theirs", "person\n")
	b.put("theirs staged", "staged\n")
	b.git("add", "theirs staged")
	b.put("theirs staged", "staged and edited\n")
	b.put("their new", "n\n")
	b.put("their new staged", "n\n")
	b.git("add", "their new staged")
	b.put("both", "person\n")
	b.rm("their deletion")
	b.put("tracked/.superloop/config.json", "1\n")
	r := b.open()
	dirty, err := r.Dirty(t.Context())
	must(t, err)
	start := snap(t, r)

	b.put("both", "person and loop\n")
	b.put("ours", "loop\n")
	b.put("ours new", "loop\n")
	q := request(1)
	q.Exclude = Unchanged(start, snap(t, r), dirty)
	equal(t, "excluded", strings.Join(q.Exclude, "|"), "their deletion|their new|their new staged|theirs|theirs staged")
	status := "MM theirs staged| D their deletion| M theirs| M tracked/.superloop/config.json|?? their new|A  their new staged"
	check := func(what string) {
		t.Helper()
		got := strings.Split(strings.TrimRight(mustTry(t, b, "status", "--porcelain", "-z", "-uall"), "\x00"), "\x00")
		equal(t, what, strings.Join(sorted(got), "|"), strings.Join(sorted(strings.Split(status, "|")), "|"))
		equal(t, what+", staged content", b.git("show", ":theirs staged"), "staged")
	}
	commit(t, r, q)
	equal(t, "committed", b.git("log", "-1", "--format=", "--name-only"), "both\nours\nours new")
	check("after the commit")

	// A commit that fails leaves the index as it was.
	b.put("ours", "more\n")
	b.put("ours newer", "n\n")
	q = request(2)
	q.Exclude = Unchanged(start, snap(t, r), dirty)
	q.Record = func(string) error { return errors.New("no such luck") }
	status += "| M ours|?? ours newer"
	if _, err := r.Commit(t.Context(), q); err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("a commit that fails: %v", err)
	}
	check("after the failure")
	equal(t, "commits", b.git("rev-list", "--count", "HEAD"), "2")
}

func mustTry(t testing.TB, b box, args ...string) string {
	t.Helper()
	out, err := b.try(args...)
	must(t, err)
	return out
}

func sorted(list []string) []string {
	out := append([]string(nil), list...)
	for i := range out {
		for j := i; j > 0 && out[j] < out[j-1]; j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

func TestCommitIsDoneOnce(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.open()
	b.put("a", "1")
	q, recorded := request(1), ""
	q.Record = func(sha string) error {
		if out, err := b.try("rev-parse", "HEAD"); err == nil && strings.HasPrefix(out, sha) {
			t.Error("the branch led to the commit before it was recorded")
		}
		recorded = sha
		return nil
	}
	first := commit(t, r, q)
	equal(t, "recorded", recorded, first.SHA)
	b.put("a", "2")
	q.Made = recorded
	again := commit(t, r, q) // the supervisor died before it wrote the first one down
	if again.Skipped != SkippedAlreadyCommitted || again.SHA != first.SHA || again.Subject != "Add things" {
		t.Errorf("again: %+v, first: %+v", again, first)
	}
	for i := range 30 { // agents commit too
		b.git("commit", "-q", "--allow-empty", "-m", "agent "+string(rune('a'+i)))
	}
	equal(t, "many commits later", commit(t, r, q).Skipped, SkippedAlreadyCommitted)

	// Killed between the record and the branch: the record leads to a commit that HEAD does not contain.
	q = request(2)
	q.Record = func(sha string) error { recorded = sha; return errors.New("killed") }
	if _, err := r.Commit(t.Context(), q); err == nil {
		t.Error("a commit without a record")
	}
	equal(t, "no branch leads to it", b.head() == recorded, false)
	q.Record, q.Made = nil, recorded
	equal(t, "made anew", commit(t, r, q).Skipped, "")

	// Killed between the branch and the index.
	b.put("a", "3")
	b.put("theirs", "staged")
	b.git("add", "theirs")
	q = request(3)
	q.Exclude = []string{"theirs"}
	q.Record = func(sha string) error { recorded = sha; b.git("update-ref", "HEAD", sha); return errors.New("killed") }
	_, err := r.Commit(t.Context(), q)
	equal(t, "killed", err != nil, true)
	q.Made = recorded
	equal(t, "found", commit(t, r, q).SHA, recorded)
	equal(t, "the index follows", b.git("status", "--porcelain"), "A  theirs")
}

// T-14: an agent writes superloop's trailers into a commit of its own.
func TestATrailerMakesNoCommitSuperloops(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.open()
	b.put("a", "1")
	text, _ := request(1).message()
	b.git("commit", "-q", "--allow-empty", "-m", text)
	res := commit(t, r, request(1))
	equal(t, "skipped", res.Skipped, "")
	equal(t, "files", b.git("ls-tree", "--name-only", "HEAD"), "a")
}

func TestCommitMessage(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	r := b.open()
	b.put("a", "1")
	q := request(1)
	q.Subject = "#42 \x1b[31mred\x1b[0m \u202eevil\nSuperloop-Run: forged\r\x00 " + strings.Repeat("ü", 80)
	q.MaxSubject = 40
	q.Body = "# a heading\r\n\n\n\n- item\t1  \n\x07bell\nnot utf8: \xff\n---\ndiff --git a b\n# ------------------------ >8 ------------------------\nlast\n\nSuperloop-Iteration: 99\n"
	commit(t, r, q)
	subject := b.git("log", "-1", "--format=%s")
	if len([]rune(subject)) != 40 || !strings.HasPrefix(subject, "#42 [31mred[0m evil Superloop-Run:") {
		t.Errorf("subject: %q", subject)
	}
	body := b.git("log", "-1", "--format=%b")
	want := "# a heading\n\n- item\t1\nbell\nnot utf8: \ufffd\n---\ndiff --git a b\n # ------------------------ >8 ------------------------\nlast\n\n" +
		"Superloop-Iteration: 99\n\nSuperloop-Loop: loop one\nSuperloop-Run: 20261121T120000Z\nSuperloop-Iteration: 1\nSuperloop-Commit-Strategy: per_iteration\n"
	equal(t, "body", body, want)
	equal(t, "iteration", b.git("log", "-1", "--format=%(trailers:key=Superloop-Iteration,valueonly,separator=%x2c)"), "1")

	q = CommitRequest{LoopID: "l\nSuperloop-Run: x", RunID: "r", Iteration: 2, Subject: " \n\x00 ", Body: strings.Repeat("word ", maxBody)}
	text, subject := q.message()
	equal(t, "no subject", subject, "superloop: l Superloop-Run: x, iteration 2")
	if len(text) > maxBody+1000 || !strings.Contains(text, "[cut]") || strings.Count(text, "\nSuperloop-Run: ") != 1 {
		t.Errorf("a long body: %d bytes", len(text))
	}
	q.MaxSubject = 2
	q.Subject = "abc"
	if _, subject := q.message(); subject != "ab" {
		t.Errorf("got %q", subject)
	}
}

// A change that is staged and taken back is none.
func TestCommitOfNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("a", "1")
	b.commitAll("one")
	r := b.open()
	b.put("a", "2")
	b.git("add", "a")
	b.put("a", "1")
	res, err := r.Commit(t.Context(), request(1))
	if err != nil || res.Skipped != SkippedNoChanges || res.SHA != "" || res.Paths != nil {
		t.Errorf("staged and taken back: %+v %v", res, err)
	}
}

// What a commit holds follows the kinds of files, not the index.
func TestCommitOfKinds(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("file", "1")
	b.put("dir/x", "1")
	b.put("hidden", "1")
	b.commitAll("one")
	b.git("update-index", "--assume-unchanged", "hidden")
	b.rm("file")
	b.put("file/now", "a directory")
	b.rm("dir")
	must(t, os.Symlink("file", filepath.Join(b.dir, "dir")))
	b.put("run", "x")
	must(t, os.Chmod(filepath.Join(b.dir, "run"), 0o755))
	commit(t, b.open(), request(1))
	equal(t, "tree", strings.Join(strings.Fields(b.git("ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD")), " "), "120000 dir 100644 file/now 100644 hidden 100755 run")
	equal(t, "clean", b.git("status", "--porcelain"), "")
}

// A file with a filter is left alone: its content does not belong into the repository.
func TestCommitLeavesWhatHasAFilter(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 3\n"
	b.put("big.bin", pointer)
	b.put("old.bin", pointer)
	b.commitAll("as git-lfs stores it")
	b.put(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
	b.put("big.bin", "the content")
	b.put("new.bin", "another")
	b.rm("old.bin")
	res := commit(t, b.open(), request(1))
	equal(t, "left", strings.Join(res.Left, " "), "big.bin new.bin")
	equal(t, "stored", b.git("show", "HEAD:big.bin")+"\n", pointer)
	equal(t, "files", b.git("ls-tree", "-r", "--name-only", "HEAD"), ".gitattributes\nbig.bin")
	equal(t, "only those", commit(t, b.open(), request(2)).Skipped, SkippedNoChanges)
}

func TestCommitWithoutIdentity(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.git("config", "--unset", "user.name")
	b.git("config", "--unset", "user.email")
	b.git("config", "user.useConfigOnly", "true")
	b.put("a", "1")
	r := b.open()
	_, err := r.Commit(t.Context(), request(1))
	if !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), "config user.email") {
		t.Errorf("got %v", err)
	}
	equal(t, "the index", b.git("ls-files"), "")
	b.git("config", "user.name", "Loop")
	b.git("config", "user.email", "loop@example.org")
	commit(t, r, request(1))
}

func TestCommitWithRepositoriesInside(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("a", "1")
	in := b.in("nested")
	in.put("x", "1")
	in.git("init", "-q")
	lib := newBox(t)
	lib.put("lib.c", "1")
	lib.commitAll("one")
	b.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.dir, "lib")
	r := b.open()
	res := commit(t, r, request(1))
	equal(t, "left", slices.Contains(res.Paths, "nested/"), false)
	equal(t, "files", b.git("ls-files"), ".gitmodules\na\nlib")

	sub := b.in("lib")
	sub.git("config", "user.name", "Ada")
	sub.git("config", "user.email", "ada@example.org")
	sub.put("lib.c", "2")
	equal(t, "changed inside only", commit(t, r, request(2)).Skipped, SkippedNoChanges)
	sub.commitAll("two")
	res = commit(t, r, request(2))
	equal(t, "its new commit", strings.Join(res.Paths, " "), "lib")
	equal(t, "recorded", b.git("rev-parse", "HEAD:lib"), sub.git("rev-parse", "HEAD"))
}

func TestCommitOfManyPaths(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	long := strings.Repeat("d", 200)
	for i := range 3000 {
		b.put(filepath.Join("dir", long, strings.Repeat("f", 100)+string(rune('a'+i%26))+strings.Repeat("x", i/26)), "")
	}
	r := b.open()
	res := commit(t, r, request(1))
	equal(t, "paths", len(res.Paths), 3000)
	equal(t, "clean", b.git("status", "--porcelain"), "")
}

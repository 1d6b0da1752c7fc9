package undo

import (
	"os"
	"strings"
	"testing"
)

// odd are names that a careless program trips over.
const oddName = "a b\n\t\"'\\\xff\xfe-$(x)*?"

// fill makes a work tree with everything in it that has to come back.
func (b box) fill() {
	b.put(".gitignore", "node_modules\ndist\n.env\n")
	b.put("tracked.txt", "committed")
	b.putMode("run.sh", "#!/bin/sh\n", 0o755)
	b.link("tracked.txt", "tracked-link")
	b.put("dir/deep/file", "deep")
	b.put("gone.txt", "will be deleted by the operator")
	b.put("clean.txt", "clean")
	b.put("t-"+oddName, "tracked and odd")
	b.put("package-lock.json", "{}")
	b.put("package.json", "{}")
	b.commit()
	b.put("tracked.txt", "edited by the operator")
	b.rm("gone.txt")
	b.put("staged.txt", "staged")
	b.git("add", "staged.txt")
	b.put("staged.txt", "staged, then edited")
	b.put("untracked.txt", "untracked")
	b.putMode("untracked-secret", "s3cret", 0o600)
	b.link("nowhere", "untracked-link")
	b.put("u-"+oddName, "untracked and odd")
	b.put("empty", "")
	b.put(".env", "IGNORED=1")
	b.modules()
}

// modules is a node_modules with links, modes, empty directories and odd names.
func (b box) modules() {
	b.put("node_modules/left-pad/index.js", "module.exports = 1")
	b.putMode("node_modules/left-pad/bin/cli", "#!/usr/bin/env node", 0o755)
	b.mkdir("node_modules/empty")
	b.link("../left-pad/bin/cli", "node_modules/.bin/cli")
	b.link("/etc/hostname", "node_modules/out")
	b.put("node_modules/"+oddName, "odd")
	b.putMode("node_modules/ro/file", "read only", 0o444)
	if err := os.Chmod(b.path("node_modules/ro"), 0o555); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = os.Chmod(b.path("node_modules/ro"), 0o755) })
}

// TestUndo: whatever a command does to what was kept, undo brings the work tree
// back bit by bit, and never touches the index.
func TestUndo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ planned, runs, stays string }{
		"the published command": {"rm -rf node_modules && npm install", "chmod -R u+w node_modules; rm -rf node_modules; mkdir -p node_modules/x; echo 1 > node_modules/x/y; echo '{1}' > package-lock.json", ""},
		"nothing at all":        {"rm -rf node_modules", "true", ""},
		"rm by a glob":          {"rm -rf untracked* dir/*", "rm -rf untracked* dir/*", ""},
		"edits in place":        {"make all", "echo x >> tracked.txt; echo y >> clean.txt; chmod -x run.sh; rm dir/deep/file; echo z > untracked.txt", ""},
		"links turn into files": {"unknown", "rm tracked-link untracked-link; echo x > tracked-link; echo y > untracked-link", ""},
		"files turn into links": {"unknown", "ln -sf /etc/hostname tracked.txt; ln -sf /etc/hostname untracked.txt", ""},
		"git reset --hard":      {"git reset --hard", "git reset -q --hard", "gone.txt"},
		"git clean":             {"git clean -fdx", "chmod -R u+w node_modules; git clean -qfdx", ""},
		"git checkout":          {"git checkout -- .", "git checkout -q -- .", "gone.txt"},
		"a directory away":      {"unknown", "rm -rf dir; rm *.txt", ""},
		"mv":                    {"mv untracked.txt dir", "mv untracked.txt dir", "dir/untracked.txt"},
		"new files":             {"npm install", "echo > brand-new; touch yarn.lock", "brand-new yarn.lock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.fill()
			before, index := b.state(), b.index()
			k := b.keep(b.plan(c.planned))
			if b.state() != before || b.index() != index {
				t.Fatal("keeping touches the work tree, the index or a branch")
			}
			b.sh(c.runs)
			left := b.index()
			b.seal(k)
			r := b.restore(k, false)
			if !r.Complete() || len(r.NotKept) > 0 {
				t.Errorf("report: %+v", r)
			}
			if b.index() != left {
				t.Error("undo touches the index or a branch")
			}
			for _, f := range strings.Fields(c.stays) { // what the command made where nothing was
				b.rm(f)
			}
			if got := b.state(); got != before {
				t.Errorf("%+v\ngot\n%s\nwant\n%s", r, got, before)
			}
			again := b.restore(k, false)
			if len(again.Restored) > 0 || !again.Complete() {
				t.Errorf("a second undo does something: %+v", again)
			}
			b.nothingLeft()
		})
	}
}

// TestConflicts: what somebody changed after the command is not thrown away.
func TestConflicts(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.fill()
	k := b.keep(b.plan("rm -rf node_modules && unknown"))
	b.sh("chmod -R u+w node_modules; rm -rf node_modules; mkdir node_modules; echo new > node_modules/new; for f in clean.txt tracked.txt untracked.txt; do echo command > $f; done")
	b.seal(k)
	b.put("node_modules/later", "later")
	b.put("tracked.txt", "later")
	b.put("untracked.txt", "later")
	b.put("run.sh", "edited later, not by the command")
	b.put("untracked-secret", "edited later, too")
	b.put("new.txt", "later")
	before := b.state()

	r := b.restore(k, false)
	if got := paths(r.Conflicts); got != "node_modules untracked.txt tracked.txt" {
		t.Errorf("conflicts: %s", got)
	}
	if got := strings.Join(r.Restored, " "); got != "clean.txt" {
		t.Errorf("restored: %s", got)
	}
	if got := strings.Join(r.Left, " "); got != "untracked-secret run.sh" {
		t.Errorf("left: %s", got)
	}
	if got := b.state(); got != strings.Replace(before, `"clean.txt" -rw-r--r-- "command\n"`, `"clean.txt" -rw-r--r-- "clean"`, 1) {
		t.Errorf("more than the one file was touched:\n%s", got)
	}

	r = b.restore(k, true)
	if !r.Complete() || paths(r.Aside) != "node_modules untracked.txt tracked.txt" {
		t.Errorf("forced: %+v", r)
	}
	for name, want := range map[string]string{
		"tracked.txt": "edited by the operator", "tracked.txt" + conflictMark: "later", "untracked.txt": "untracked", "untracked.txt" + conflictMark: "later",
		"node_modules/left-pad/index.js": "module.exports = 1", "node_modules" + conflictMark + "/later": "later", "run.sh": "edited later, not by the command",
		"untracked-secret": "edited later, too",
	} {
		if got, err := os.ReadFile(b.path(name)); string(got) != want {
			t.Errorf("%s: %q %v, want %q", name, got, err, want)
		}
	}
	b.put("tracked.txt", "once more")
	if r = b.restore(k, true); len(r.Aside) != 1 || r.Aside[0].Why != "tracked.txt"+conflictMark+".2" {
		t.Errorf("a second conflict: %+v", r)
	}
	b.nothingLeft()
}

// TestUnsealed: nobody knows who changed what, so nothing that is there is
// replaced.
func TestUnsealed(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.fill()
	before := b.state()
	k := b.keep(b.plan("rm -rf node_modules && unknown"))
	b.sh("chmod -R u+w node_modules; rm -rf node_modules dir; echo x > tracked.txt; echo y > untracked.txt")
	r := b.restore(k, false)
	if got := paths(r.Conflicts); got != "untracked.txt tracked.txt" || !strings.Contains(r.Conflicts[0].Why, "not known") {
		t.Errorf("conflicts: %+v", r.Conflicts)
	}
	if got := strings.Join(r.Restored, " "); got != "node_modules dir/deep/file" {
		t.Errorf("restored: %s", got)
	}
	b.restore(k, true)
	b.rm("tracked.txt" + conflictMark)
	b.rm("untracked.txt" + conflictMark)
	if got := b.state(); got != before {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
}

// TestCaps: what does not fit is named and the rest is kept.
func TestCaps(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("t.txt", "tracked")
	b.put("big.txt", "x")
	b.commit()
	big := strings.Repeat("x", 2<<20)
	b.put("big.txt", big)
	b.put("t.txt", "edited")
	b.put("cache/a", big)
	b.put("gone/a", big)
	b.put("many/1", "1")
	b.put("many/2", "2")
	b.put("u-big", big)
	b.put("u-small", "small")
	b.git("config", "core.excludesFile", "/dev/null")
	b.put(".git/info/exclude", "cache\ngone\nmany\n")
	targets := Targets{Paths: []Target{{Path: "cache"}, {Path: "gone", Deleted: true}, {Path: "many"}}, Untracked: true}

	k := b.keepCaps(targets, Caps{Shared: 10 << 20, Copied: 1 << 20, Files: 100})
	var linked bool
	for _, tr := range k.Trees {
		linked = linked || tr.Path == "gone" && (tr.Method == byLink || tr.Method == byReflink)
	}
	if !linked {
		t.Errorf("a tree that is deleted is shared: %+v", k.Trees)
	}
	if got := paths(k.NotKept); got != "cache u-big big.txt" && got != "u-big big.txt" { // the latter where cache is a reflink
		t.Errorf("not kept: %s %+v", got, k.NotKept)
	}
	if k.Files != 1 || k.Tracked != 1 {
		t.Errorf("%+v", k)
	}
	b.sh("rm -rf cache gone many u-* *.txt")
	b.seal(k)
	r := b.restore(k, false)
	if got := paths(r.Failed); got != "big.txt" {
		t.Errorf("failed: %+v", r.Failed)
	}
	if got := strings.Join(r.Restored, " "); got != "gone many u-small t.txt" && got != "cache gone many u-small t.txt" {
		t.Errorf("restored: %s", got)
	}

	k = b.keepCaps(Targets{Paths: []Target{{Path: "many"}}}, Caps{Shared: 1, Copied: 1, Files: 2})
	if got := paths(k.NotKept); got != "many t.txt" {
		t.Errorf("too many files: %+v", k)
	}
}

// TestSingleFiles: files that the command names come back whatever git knows of
// them and however big they are, with their modes.
func TestSingleFiles(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put(".gitignore", "*.ign\n")
	b.put("tracked", "1")
	b.commit()
	big := strings.Repeat("x", smallTree+1)
	b.put("big.ign", big)
	b.putMode("secret.ign", "s3cret", 0o4710)
	b.put("untracked", "2")
	b.link("tracked", "link.ign")
	b.put("empty.ign", "")
	before := b.state()
	k := b.keep(b.plan("rm -f big.ign secret.ign untracked link.ign empty.ign tracked missing"))
	if k.Files != 5 || len(k.Trees) != 1 || k.Trees[0].Path != "big.ign" || len(k.NotKept) > 0 {
		t.Errorf("%+v", k)
	}
	b.sh("rm *.ign *tracked; mkdir empty.ign; echo other > big.ign")
	b.seal(k)
	b.put("untracked", "somebody's")
	r := b.restore(k, false)
	if paths(r.Conflicts) != "empty.ign untracked" || len(r.Failed) > 0 { // of a directory nobody knows what is in it
		t.Errorf("%+v", r)
	}
	b.rm("empty.ign")
	if r = b.restore(k, true); !r.Complete() || paths(r.Aside) != "untracked" {
		t.Errorf("%+v", r)
	}
	b.rm("untracked" + conflictMark)
	if got := b.state(); got != before {
		t.Errorf("got\n%s\nwant\n%s", got[:min(len(got), 500)], before[:500])
	}
}

// TestFileAboveATree: a command may put a file where the directory of a tree was.
func TestFileAboveATree(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put(".gitignore", "app\n")
	b.commit()
	b.put("app/dist/a.js", "1")
	before := b.state()
	k := b.keep(b.plan("rm -rf app/dist"))
	b.sh("rm -rf app; echo > app")
	b.seal(k)
	if r := b.restore(k, false); len(r.Failed) != 1 || r.Failed[0].Path != "app/dist" {
		t.Errorf("%+v", r)
	}
	b.rm("app")
	if r := b.restore(k, false); !r.Complete() || b.state() != before {
		t.Errorf("%+v", r)
	}
}

// TestLinkedRefs: where refs are kept elsewhere by a link, git makes the set's.
func TestLinkedRefs(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("file", "1")
	b.commit()
	b.mkdir(".git/elsewhere")
	b.link("../elsewhere", ".git/refs/superloop")
	k := b.keep(Targets{})
	b.sh("echo 2 > file")
	b.seal(k)
	if r := b.restore(k, false); strings.Join(r.Restored, " ") != "file" || b.git("rev-parse", k.Ref) != k.Commit {
		t.Errorf("%+v %+v", r, k)
	}
	if err := b.store.Drop(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	b.nothingLeft()
}

// TestHardLinksAreNotWrittenTo: a set that shares its files with the repository is
// checked before it is put back.
func TestHardLinksAreNotWrittenTo(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.commit()
	b.put(".git/info/exclude", "cache\n")
	b.put("cache/a", strings.Repeat("x", 2<<20))
	k := b.keepCaps(Targets{Paths: []Target{{Path: "cache", Deleted: true}}}, Caps{Shared: 10 << 20, Files: 100})
	if len(k.Trees) != 1 || k.Trees[0].Method == byReflink {
		t.Skipf("no hard link was made: %+v", k)
	}
	b.sh("echo y >> cache/a; rm -rf cache") // it said it would delete only
	b.seal(k)
	r := b.restore(k, false)
	if len(r.Failed) != 1 || !strings.Contains(r.Failed[0].Why, "changed or damaged") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Lstat(b.path("cache")); !os.IsNotExist(err) {
		t.Error("a damaged tree was put back")
	}
	b.nothingLeft()
}

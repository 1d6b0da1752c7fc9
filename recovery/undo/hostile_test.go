package undo

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/text"
)

// TestLinksAreNotFollowed: neither what is kept nor what is put back goes through
// a link.
func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "precious"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.put("d/tracked", "1")
	b.put("e/untracked", "2")
	b.put(".gitignore", "e\n")
	b.commit()
	b.link(outside, "way")
	k := b.keep(Targets{Paths: []Target{{Path: "way/precious"}, {Path: "way", Deleted: true}, {Path: "e"}}, Untracked: true})
	if paths(k.NotKept) != "way/precious" {
		t.Errorf("%+v", k.NotKept)
	}
	b.sh("rm -rf d e way")
	b.seal(k)
	// An agent plants links where things will be put back.
	b.link(outside, "d")
	r := b.restore(k, true)
	if paths(r.Failed) != "d/tracked" {
		t.Errorf("%+v", r)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("something was written outside: %v %v", entries, err)
	}
	if to, err := os.Readlink(b.path("way")); to != outside || err != nil {
		t.Errorf("the link itself comes back: %q %v", to, err)
	}
}

// TestOddEntries: sockets and pipes hang nobody and are named; the rest of their
// tree is kept.
func TestOddEntries(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put(".gitignore", "cache\n")
	b.commit()
	b.put("cache/file", "1")
	b.put("sub/.git/HEAD", "ref: refs/heads/main")
	if err := errors.Join(syscall.Mkfifo(b.path("cache/pipe"), 0o600), syscall.Mkfifo(b.path("loose-pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	before := b.state()
	k := b.keep(Targets{Paths: []Target{{Path: "cache", Deleted: true}, {Path: "loose-pipe"}}, Untracked: true})
	if got := paths(k.NotKept); got != "cache/pipe loose-pipe sub/" { // what has a .git with a HEAD counts as a repository
		t.Errorf("not kept: %s", got)
	}
	if b.state() != before {
		t.Error("touched")
	}
	b.sh("rm -rf cache")
	b.seal(k)
	if r := b.restore(k, false); strings.Join(r.Restored, " ") != "cache" {
		t.Errorf("%+v", r)
	}
}

// TestNothingIsExecuted: hooks, filters and monitors of the repository's own
// configuration do not run, and files come back with the bytes that they had.
func TestNothingIsExecuted(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put(".gitattributes", "*.dat filter=evil\n*.crlf text eol=crlf\n")
	b.put("a.dat", "raw bytes\r\n")
	b.put("b.dat", "clean")
	b.put("c.crlf", "one\r\ntwo\r\n")
	b.commit()
	ran := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "evil")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\ntr a-z A-Z\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.fsmonitor", "diff.external"} {
		b.git("config", k, script)
	}
	b.git("config", "filter.evil.required", "true")
	hooks := filepath.Join(b.dir, ".git", "hooks")
	for _, h := range []string{"reference-transaction", "post-index-change", "post-checkout"} {
		if err := os.WriteFile(filepath.Join(hooks, h), []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.put("a.dat", "other raw bytes\r\n")
	before := b.state()
	k := b.keep(Targets{Untracked: true})
	b.sh("echo x > a.dat; echo y > b.dat; echo z > c.crlf")
	b.seal(k)
	r := b.restore(k, false)
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of the repository's configuration ran")
	}
	// Of those that were clean git has other bytes than the work tree had.
	if paths(r.Failed) != "b.dat c.crlf" || !strings.Contains(r.Failed[0].Why, "git -C "+text.Word(b.dir)+" restore --source=") {
		t.Errorf("%+v", r)
	}
	b.put("b.dat", "clean")
	b.put("c.crlf", "one\r\ntwo\r\n")
	if b.state() != before {
		t.Errorf("%s", b.state())
	}
	if err := b.store.Drop(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of the repository's configuration ran")
	}
}

// TestAnyTree: random trees with odd names come back after random damage. It starts
// many programs, so it has a few seeds instead of a hundred.
func TestAnyTree(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			anyTree(t, rand.New(rand.NewPCG(seed, uint64(time.Now().UnixNano()))))
		})
	}
}

func anyTree(t *testing.T, r *rand.Rand) {
	b := newBox(t)
	b.put(".gitignore", "ignored\n")
	b.commit()
	name := func() string {
		const odd = "ab -*\n'\"\\\u00e9\u202e%\xff"
		n := make([]byte, 1+r.IntN(5))
		for i := range n {
			n[i] = odd[r.IntN(len(odd))]
		}
		return string(n)
	}
	for _, d := range []string{"ignored", "loose", "tracked"} {
		b.put(d+"/always", "x")
		for range r.IntN(12) {
			p := d + "/" + name() + "/" + name()
			if _, err := os.Lstat(b.path(p)); err == nil {
				continue
			}
			if r.IntN(3) == 0 {
				b.link(name(), p)
				continue
			}
			b.putMode(p, strings.Repeat(name(), r.IntN(3)), []os.FileMode{0o644, 0o755, 0o600}[r.IntN(3)])
		}
	}
	b.git("add", "-A", "--", "tracked")
	before := b.state()
	k := b.keep(Targets{Paths: []Target{{Path: "ignored", Deleted: r.IntN(2) == 0}}, Untracked: true})
	damages := []string{"rm -rf ignored loose tracked", "find . -path ./.git -prune -o -type f -exec sh -c 'echo x > \"$1\"' _ {} \\;",
		"find ignored loose tracked -type l -delete", "rm -rf loose; mkdir -p ignored; echo x > ignored/new", "find loose tracked -type f -exec ln -sf /etc/hostname {} \\;"}
	damage := damages[r.IntN(len(damages))]
	b.sh(damage)
	b.seal(k)
	rep := b.restore(k, false)
	want, got := withoutEmpty(strings.Split(before, "\n")), withoutEmpty(strings.Split(b.state(), "\n"))
	if !slices.Equal(want, got) || !rep.Complete() {
		t.Errorf("after %s: %+v\ngot\n%s\nwant\n%s", damage, rep, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.nothingLeft()
}

// withoutEmpty leaves out the directories of loose and tracked, which come and go
// with their files.
func withoutEmpty(lines []string) []string {
	var out []string
	for _, l := range lines {
		if (strings.HasPrefix(l, `"loose`) || strings.HasPrefix(l, `"tracked`)) && strings.Contains(l, `" d`) {
			continue
		}
		out = append(out, l)
	}
	return out
}

func TestRawPath(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p := rawPath(rapid.SliceOf(rapid.Byte()).Draw(rt, "path"))
		text, err := p.MarshalText()
		if err != nil {
			rt.Fatal(err)
		}
		var back rawPath
		if err := back.UnmarshalText(text); err != nil || back != p {
			rt.Errorf("%q became %q: %v", p, back, err)
		}
	})
	for _, bad := range []string{"%", "%4", "%zz"} {
		if new(rawPath).UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// TestJudge: over all facts, what somebody else made is never replaced, and what
// is moved or replaced was asked for.
func TestJudge(t *testing.T) {
	t.Parallel()
	for bits := range 1 << 7 {
		f := facts{bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0, bits&16 != 0, bits&32 != 0, bits&64 != 0}
		if f.nowAbsent && (f.nowKept || f.nowLeft) || f.wasAbsent && f.nowKept {
			continue // cannot be
		}
		switch v := judge(f); v {
		case replace:
			if !f.sealed || !f.nowLeft || f.untouched || f.wasAbsent {
				t.Errorf("replaces: %+v", f)
			}
		case put:
			if !f.nowAbsent || f.wasAbsent {
				t.Errorf("puts: %+v", f)
			}
		case aside:
			if !f.force || f.wasAbsent {
				t.Errorf("moves: %+v", f)
			}
		case refused:
			if f.force || f.nowAbsent {
				t.Errorf("refuses: %+v", f)
			}
		}
	}
}

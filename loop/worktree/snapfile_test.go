package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/durable"
)

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.put("a", "1")
	b.put(odd, "2")
	b.commitAll("one")
	b.put("dir/new", "3")
	b.put("a", "11")
	s := snap(t, b.open())
	file := filepath.Join(t.TempDir(), "tree.snapshot")
	must(t, s.Save(durable.OS(), file))
	got, err := Load(file)
	must(t, err)
	equal(t, "diff", diff(s, got), "")
	equal(t, "signature", got.Signature(), s.Signature())
	equal(t, "stamps", fmt.Sprint(got.dirty), fmt.Sprint(s.dirty))
	equal(t, "number of stamps", len(got.dirty), 2)

	if _, err := Load(file + ".gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("gone: %v", err)
	}
	data, err := os.ReadFile(file)
	must(t, err)
	for i := range data {
		bad := append([]byte(nil), data...)
		bad[i] ^= 0x40
		if s, err := decodeSnapshot(bad); err == nil || len(s.entries) != 0 {
			t.Fatalf("byte %d was changed: %d entries, %v", i, len(s.entries), err)
		}
		if s, err := decodeSnapshot(data[:i]); err == nil || len(s.entries) != 0 {
			t.Fatalf("cut at %d: %d entries, %v", i, len(s.entries), err)
		}
	}
}

// drawn is a snapshot of generated paths.
func drawn(t *rapid.T, name string) Snapshot {
	m := rapid.MapOfN(rapid.StringMatching(`[ab/é\n]{1,6}`), rapid.Uint8Range(0, 3), 0, 8).Draw(t, name)
	var s Snapshot
	for p, v := range m {
		e := entry{path: p, mode: modeFile}
		e.sum[0] = v
		if v == 3 {
			e.mode, e.sum[31] = modeFile|byStat, 1
		}
		s.entries = append(s.entries, e)
		s.dirty = append(s.dirty, stamp{p, int64(v), 1_700_000_000_000_000_000 + int64(v)})
	}
	s.entries, s.dirty = sortedCopy(s)
	return s
}

func sortedCopy(s Snapshot) ([]entry, []stamp) {
	m := merge(nil, nil, nil)
	for _, e := range s.entries {
		i := 0
		for i < len(m) && m[i].path < e.path {
			i++
		}
		m = append(m[:i], append([]entry{e}, m[i:]...)...)
	}
	var st []stamp
	for _, e := range m {
		for _, d := range s.dirty {
			if d.path == e.path {
				st = append(st, d)
			}
		}
	}
	return m, st
}

// Diff is what a map would say; equal signatures and an empty Diff are one; a
// written snapshot is read as it was.
func TestSnapshotProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn(t, "a"), drawn(t, "b")
		in := func(s Snapshot) map[string]entry {
			m := map[string]entry{}
			for _, e := range s.entries {
				m[e.path] = e
			}
			return m
		}
		x, y := in(a), in(b)
		want := map[string]bool{}
		for p, e := range x {
			if f, ok := y[p]; !ok || f != e {
				want[p] = true
			}
		}
		for p := range y {
			if _, ok := x[p]; !ok {
				want[p] = true
			}
		}
		got := Diff(a, b)
		last := ""
		for _, p := range got {
			if !want[p] || p <= last {
				t.Fatalf("got %v, want %v", got, want)
			}
			last = p
		}
		if len(got) != len(want) || (len(got) == 0) != (a.Signature() == b.Signature()) {
			t.Fatalf("got %v, want %v", got, want)
		}
		same := Unchanged(a, b, append(slices.Clone(got), "nowhere"))
		if len(same) != 1 || same[0] != "nowhere" {
			t.Fatalf("unchanged: %v", same)
		}
		back, err := decodeSnapshot(a.encode())
		if err != nil || len(Diff(a, back)) != 0 || fmt.Sprint(back.dirty) != fmt.Sprint(a.dirty) {
			t.Fatalf("%v: %+v became %+v", err, a, back)
		}
	})
}

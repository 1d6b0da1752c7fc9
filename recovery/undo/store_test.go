package undo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// TestDiskFails: an error at any step leaves no set, and the repository alone.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	b := small(t)
	before := b.state()
	for n := 0; ; n++ {
		k := n
		s := b.store
		var failed string
		s.Disk = durable.OS().WithFault(func(op string) error {
			if k--; k == -1 {
				failed = op
				return syscall.ENOSPC
			}
			return nil
		})
		_, err := s.Keep(t.Context(), Request{Targets: crashTargets(), Caps: DefaultCaps(), Time: time.Unix(1, 0)})
		sets, listed := b.store.List()
		if listed != nil {
			t.Fatal(listed)
		}
		if failed == "" { // there are no more steps
			if n < 15 || err != nil || len(sets) != 1 {
				t.Errorf("%d steps: %v %v", n, err, sets)
			}
			return
		}
		if fine := failed == "lock:write"; fine != (err == nil) || !fine && !durable.IsFull(err) || fine != (len(sets) == 1) {
			t.Errorf("%s: %v, sets %v", failed, err, sets)
		}
		for _, k := range sets {
			if err := b.store.Drop(t.Context(), k.ID); err != nil {
				t.Fatal(err)
			}
		}
		if b.state() != before {
			t.Errorf("%s: the repository was touched", failed)
		}
		b.nothingLeft()
	}
}

// TestPowerCut: a set whose manifest a power cut has emptied is none, and goes, even
// if its ref was emptied, too.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	b := small(t)
	kept := b.keep(crashTargets())
	for _, file := range []string{b.store.path(kept.ID, manifestFile), b.path(".git/" + kept.Ref)} {
		if err := os.Truncate(file, 0); err != nil {
			t.Fatal(err)
		}
	}
	if sets, err := b.store.List(); len(sets) != 0 || err != nil {
		t.Errorf("%v %v", sets, err)
	}
	if _, err := b.store.Restore(t.Context(), kept.ID, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	whole := b.keep(crashTargets())
	b.nothingLeft()
	if err := os.Truncate(b.path(".git/"+whole.Ref), 0); err != nil {
		t.Fatal(err)
	}
	b.put(".git/"+whole.Ref+".lock", "half of an id") // of a git that was killed
	if err := b.store.Drop(t.Context(), whole.ID); err != nil {
		t.Error(err)
	}
	b.nothingLeft()
}

// TestTornManifest: a power cut may leave a part of a manifest. The other sets are still listed, and the next Keep clears
// the torn one away.
func TestTornManifest(t *testing.T) {
	t.Parallel()
	b := small(t)
	kept, torn := b.keep(crashTargets()), b.keep(crashTargets())
	whole, err := os.ReadFile(b.store.path(torn.ID, manifestFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, len(whole) / 2, len(whole) - 3} {
		left := append(bytes.Clone(whole[:n]), make([]byte, len(whole)-n)...)
		if err := os.WriteFile(b.store.path(torn.ID, manifestFile), left, 0o600); err != nil {
			t.Fatal(err)
		}
		if sets, err := b.store.List(); err != nil || len(sets) != 1 || sets[0].ID != kept.ID {
			t.Errorf("cut after %d bytes: %v %v", n, sets, err)
		}
		if _, err := b.store.Restore(t.Context(), torn.ID, Options{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	foreign := b.store.path("20260101T000000-00000000", manifestFile)
	if err := os.WriteFile(foreign, []byte(`{"version":2,"id":"20260101T000000-00000000"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if sets, err := b.store.List(); err == nil || !strings.Contains(err.Error(), "another version") || len(sets) != 1 {
		t.Errorf("beside a set of another version: %v %v", sets, err)
	}
	if gone, err := b.store.Prune(t.Context(), 0, time.Hour, time.Now()); err == nil || len(gone) != 1 {
		t.Errorf("beside a set of another version: %v %v", gone, err)
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	b.nothingLeft()
}

// TestPrune drops by age and by number, the oldest first.
func TestPrune(t *testing.T) {
	t.Parallel()
	b := small(t)
	var ids []string
	for day := range 4 {
		k, err := b.store.Keep(t.Context(), Request{Label: Label{Loop: "l", Recovery: day}, Caps: DefaultCaps(), Time: time.Unix(int64(day)*86400, 0)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, k.ID)
	}
	now := time.Unix(4*86400, 0)
	gone, err := b.store.Prune(t.Context(), 3, 3*24*time.Hour+time.Hour, now)
	if err != nil || fmt.Sprint(gone) != fmt.Sprint(ids[:1]) {
		t.Errorf("by age: %v %v", gone, err)
	}
	if gone, err = b.store.Prune(t.Context(), 1, 0, now); err != nil || fmt.Sprint(gone) != fmt.Sprint(ids[1:3]) {
		t.Errorf("by number: %v %v", gone, err)
	}
	left, err := b.store.List()
	if err != nil || len(left) != 1 || left[0].Label.Recovery != 3 || left[0].Sealed {
		t.Errorf("%+v %v", left, err)
	}
	for _, bad := range []string{"", "..", "../x", ".new-x", "nothing"} {
		if err := b.store.Drop(t.Context(), bad); err == nil {
			t.Errorf("Drop(%q) works", bad)
		}
	}
	b.nothingLeft()
}

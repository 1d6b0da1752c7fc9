package journal

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/superloop/superloop/internal/durable"
)

// TestEveryStepFails fails each step of a journal's life once, in each way, goes
// on, and looks what became of it.
func TestEveryStepFails(t *testing.T) {
	t.Parallel()
	// life appends until it has nine events, opening the journal again whenever it
	// has to; acked are the hashes of those whose Append said that all is well.
	life := func(d durable.Disk, dir string) (acked []string, failures int) {
		path, o := filepath.Join(dir, "events.jsonl"), small(filepath.Join(dir, "head"))
		var j *Journal
		for tries := 0; tries < 30 && len(acked) < 9; tries++ {
			if j == nil {
				var err error
				if j, err = Open(d, path, o); err != nil {
					failures++
					continue
				}
			}
			n := len(acked)
			got, err := j.Append(n%2 == 0, events(n+1, 3)...)
			if err != nil {
				failures++
				if _, err := j.Append(true, event(99)); err != nil { // poisoned: only a new one helps
					j.Close()
					j = nil
				} else {
					acked = append(acked, j.end().hash)
				}
				continue
			}
			for _, ev := range got {
				acked = append(acked, ev.Hash)
			}
			if n == 3 && j.Seal() != nil {
				failures++
			}
		}
		if j != nil && j.Close() != nil {
			failures++
		}
		return acked, failures
	}
	var steps []string
	clean := t.TempDir()
	mustWrite(t, filepath.Join(clean, "events.jsonl"), []byte("half a li"))
	_, failures := life(durable.OS().WithFault(func(op string) error { steps = append(steps, op); return nil }), clean)
	if failures != 0 {
		t.Fatalf("%d failures in a clean run", failures)
	}
	for _, need := range []string{"events:truncate", "events:aside-sync", "events:append", "events:sync", "events:close", "head:open", "head:write", "head:close",
		"seal:mkdir", "seal:write", "seal:sync", "seal:rename", "seal:dirsync", "swap:create", "swap:sync", "swap:rename", "swap:dirsync", "sealed:rename"} {
		if !slices.Contains(steps, need) {
			t.Fatalf("a clean run has no step %s: %v", need, steps)
		}
	}
	for k, step := range steps {
		for _, fault := range []error{syscall.ENOSPC, syscall.EIO, &durable.ShortWrite{N: 300, Err: syscall.ENOSPC}, &durable.ShortWrite{N: 7, Err: syscall.EIO}} {
			t.Run(fmt.Sprintf("%d-%s/%v", k, step, fault), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				path := filepath.Join(dir, "events.jsonl")
				mustWrite(t, path, []byte("half a li"))
				n := k
				acked, failures := life(durable.OS().WithFault(func(string) error {
					if n--; n == -1 {
						return fault
					}
					return nil
				}), dir)
				replaced := k > 0 && steps[k-1] == "swap:dirsync" // and flushed: nobody needs it
				if failures == 0 && !replaced && step != "head:write" && !strings.HasPrefix(step, "sealed:") && step != "swap:dirsync" {
					t.Error("the fault went unnoticed")
				}
				rep, err := Verify(path)
				if err != nil || rep.FirstBad != nil {
					t.Fatalf("%+v, %v", rep.FirstBad, err)
				}
				if err := CheckHead(path, filepath.Join(dir, "head")); err != nil {
					t.Error(err)
				}
				if rep.LastSeq != int64(bytes.Count(content(t, path), []byte("\n"))) {
					t.Errorf("%d events are there, and other lines in the files", rep.LastSeq)
				}
				// What was acknowledged is there, in order. What was not may be there
				// only if a flush failed after it was written.
				var there []string
				for _, ev := range all(t, path, 0) {
					there = append(there, ev.Hash)
				}
				extra := len(there) - len(acked)
				if step != "events:sync" && extra != 0 {
					t.Errorf("%d events that failed are there", extra)
				}
				for _, h := range acked {
					if !slices.Contains(there, h) {
						t.Error("an acknowledged event is lost")
					}
				}
			})
		}
	}
}

func TestAHeadThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	fail := true
	d := durable.OS().WithFault(func(op string) error {
		if fail && op == "head:write" {
			return syscall.EIO
		}
		return nil
	})
	j := mustOpen(t, d, filepath.Join(dir, "events.jsonl"), Options{Head: filepath.Join(dir, "head")})
	if _, err := j.Append(true, event(1)); err != nil {
		t.Fatalf("an event that is on the disk: %v", err)
	}
	if rec, ok := j.head.Record(); ok {
		t.Errorf("the head holds %x", rec)
	}
	fail = false
	if _, err := j.Append(true, event(2)); err != nil {
		t.Error(err)
	}
	if rec, ok := j.head.Record(); !ok || !bytes.Equal(rec, j.end().encode()) {
		t.Errorf("the head holds %x, %v", rec, ok)
	}
}

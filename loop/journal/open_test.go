package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

// anchored is a journal of n events, each synced, and its head.
func anchored(t *testing.T, n int) (path, head string) {
	t.Helper()
	dir := t.TempDir()
	path, head = filepath.Join(dir, "events.jsonl"), filepath.Join(dir, "head")
	j := mustOpen(t, durable.OS(), path, Options{Head: head})
	for i := range n {
		if _, err := j.Append(true, event(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path, head
}

// TestATornEnd cuts a journal at every byte of its last group of two lines: what
// is whole stays, the rest is kept aside, and the journal goes on.
func TestATornEnd(t *testing.T) {
	t.Parallel()
	_, data := journalOf(t, 3)
	dir := t.TempDir()
	cuts := make(chan int)
	var wg sync.WaitGroup
	for range 8 { // they wait for the disk most of the time
		wg.Go(func() {
			for cut := range cuts {
				if err := tornAt(filepath.Join(dir, fmt.Sprint(cut)), data, cut); err != nil {
					t.Errorf("cut at %d: %v", cut, err)
				}
			}
		})
	}
	for cut := bytes.IndexByte(data, '\n') + 1; cut <= len(data); cut += testkit.Sample(4, 1, 1) {
		cuts <- cut
	}
	close(cuts)
	wg.Wait()
}

func tornAt(path string, data []byte, cut int) error {
	whole := bytes.LastIndexByte(data[:cut], '\n') + 1
	seq := int64(bytes.Count(data[:whole], []byte("\n")))
	if err := os.WriteFile(path, data[:cut], 0o600); err != nil {
		return err
	}
	j, err := Open(durable.OS(), path, Options{})
	if err != nil {
		return err
	}
	defer j.Close()
	rep := j.Repaired()
	if j.LastSeq() != seq || rep.Cut != int64(cut-whole) {
		return fmt.Errorf("last event %d, want %d; %+v", j.LastSeq(), seq, rep)
	}
	if rep.Cut > 0 {
		if aside, err := os.ReadFile(rep.Broken); err != nil || !bytes.Equal(aside, data[whole:cut]) {
			return fmt.Errorf("the torn end is not in %s: %v", rep.Broken, err)
		}
	}
	if _, err := j.Append(false, event(1)); err != nil {
		return err
	}
	v, err := Verify(path)
	if err != nil || v.FirstBad != nil || v.LastSeq != seq+1 {
		return fmt.Errorf("afterwards: %+v, %v", v, err)
	}
	return nil
}

func TestAPageThatNeverReachedTheDisk(t *testing.T) {
	path, data := journalOf(t, 3)
	at := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
	clear(data[at+20 : at+200])
	mustWrite(t, path, data)
	j := mustOpen(t, durable.OS(), path, Options{})
	if j.LastSeq() != 2 || j.Repaired().Cut != int64(len(data)-at) || !bytes.Equal(mustRead(t, j.Repaired().Broken), data[at:]) {
		t.Errorf("%d, %+v", j.LastSeq(), j.Repaired())
	}
}

// TestCorruptionIsNeverCut: a line that is whole and wrong, wherever it is.
func TestCorruptionIsNeverCut(t *testing.T) {
	for line := 1; line <= 3; line++ {
		for _, tail := range []string{"", `{"seq":4,"torn`} {
			path, data := journalOf(t, 3)
			lines := bytes.SplitAfter(data, []byte("\n"))
			lines[line-1][80] ^= 1
			broken := append(bytes.Join(lines, nil), tail...)
			mustWrite(t, path, broken)
			_, err := Open(durable.OS(), path, Options{})
			var bad *CorruptError
			if !errors.As(err, &bad) || bad.Line != int64(line) {
				t.Errorf("line %d: %v", line, err)
			}
			if !bytes.Equal(mustRead(t, path), broken) {
				t.Errorf("line %d: the file was changed", line)
			}
			if names, _ := filepath.Glob(path + ".*"); len(names) > 0 {
				t.Errorf("line %d: left %v", line, names)
			}
		}
	}
}

// tampered fails the test unless both Open and CheckHead refuse the journal
// because of event seq, and change nothing.
func tampered(t *testing.T, path, head string, seq int64) {
	t.Helper()
	before, _ := os.ReadFile(path)
	headBefore := mustRead(t, head)
	_, err := Open(durable.OS(), path, Options{Head: head})
	for _, err := range []error{err, CheckHead(path, head)} {
		var tamp *TamperedError
		if !errors.As(err, &tamp) || tamp.Seq != seq || tamp.Path != path || tamp.Head != head {
			t.Fatalf("err is %v", err)
		}
		if !strings.Contains(err.Error(), "superloop events --verify") || !strings.Contains(err.Error(), head) {
			t.Errorf("the message has no next step: %v", err)
		}
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) || !bytes.Equal(headBefore, mustRead(t, head)) {
		t.Error("a file was changed")
	}
}

func TestTheHeadFindsTampering(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string, data []byte){
		"the last line is cut off": func(t *testing.T, path string, data []byte) {
			mustWrite(t, path, data[:bytes.LastIndexByte(data[:len(data)-1], '\n')+1])
		},
		"the last newline is cut off": func(t *testing.T, path string, data []byte) { mustWrite(t, path, data[:len(data)-1]) },
		"it is empty":                 func(t *testing.T, path string, _ []byte) { mustWrite(t, path, nil) },
		"it is gone": func(t *testing.T, path string, _ []byte) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"the last line is another": func(t *testing.T, path string, data []byte) {
			mustWrite(t, path, bytes.Replace(data, []byte(`"exit_code":4,`), []byte(`"exit_code":0,`), 1))
		},
		"everything is another": func(t *testing.T, path string, data []byte) {
			other := filepath.Join(t.TempDir(), "events.jsonl")
			j := mustOpen(t, durable.OS(), other, Options{})
			if _, err := j.Append(false, events(100, 40)...); err != nil {
				t.Fatal(err)
			}
			mustWrite(t, path, mustRead(t, other))
		},
		"a line before was made longer": func(t *testing.T, path string, data []byte) {
			mustWrite(t, path, bytes.Replace(data, []byte("implementer"), []byte("implementers"), 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, head := anchored(t, 4)
			change(t, path, mustRead(t, path))
			tampered(t, path, head, 4)
		})
	}
}

// TestAHeadThatLags is what a power cut, or a kill between the flush and the
// write of the head, leaves.
func TestAHeadThatLags(t *testing.T) {
	path, head := anchored(t, 2)
	old := mustRead(t, head)
	j := mustOpen(t, durable.OS(), path, Options{Head: head})
	if _, err := j.Append(true, events(3, 3)...); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for name, rec := range map[string][]byte{"older": old, "empty": nil, "zeroes": make([]byte, len(old)), "torn": old[:20]} {
		t.Run(name, func(t *testing.T) {
			mustWrite(t, head, rec)
			j := mustOpen(t, durable.OS(), path, Options{Head: head})
			if j.LastSeq() != 5 || j.Repaired().Cut != 0 {
				t.Errorf("%d, %+v", j.LastSeq(), j.Repaired())
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			// Opening flushed what it found, and so the head names the last event.
			data := mustRead(t, path)
			mustWrite(t, path, data[:len(data)-1])
			tampered(t, path, head, 5)
			mustWrite(t, path, data)
		})
	}
	// A broken line is found, behind an older head and before it.
	mustWrite(t, head, old)
	data := mustRead(t, path)
	for _, line := range []int{4, 1} {
		lines := bytes.SplitAfter(bytes.Clone(data), []byte("\n"))
		lines[line-1][80] ^= 1
		mustWrite(t, path, bytes.Join(lines, nil))
		_, err := Open(durable.OS(), path, Options{Head: head})
		var bad *CorruptError
		if !errors.As(err, &bad) || bad.Line != int64(line) {
			t.Errorf("line %d: %v", line, err)
		}
	}
}

func TestAHeadOfAnotherKind(t *testing.T) {
	path, head := anchored(t, 1)
	s, err := durable.OS().OpenSlots("x", head, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range []string{"", "nonsense", "\x02" + strings.Repeat("\x00", 56), "\x01" + strings.Repeat("\xff", 56)} {
		if err := s.Store([]byte(rec)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(durable.OS(), path, Options{Head: head}); err == nil || !strings.Contains(err.Error(), head) {
			t.Errorf("%q: %v", rec, err)
		}
	}
	s.Close()
}

// TestAChangeWhileItIsOpen: an agent's `git clean`, or worse.
func TestAChangeWhileItIsOpen(t *testing.T) {
	path, head := anchored(t, 2)
	j := mustOpen(t, durable.OS(), path, Options{Head: head})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err := j.Append(true, event(3))
	var changed *durable.ChangedError
	if !errors.As(err, &changed) {
		t.Fatalf("err is %v", err)
	}
	j.Close()
	tampered(t, path, head, 2)
}

func TestOpenRefusesALink(t *testing.T) {
	path, data := journalOf(t, 2)
	link := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(durable.OS(), link, Options{}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("err is %v", err)
	}
	if !bytes.Equal(mustRead(t, path), data) {
		t.Error("what the link points to was changed")
	}
}

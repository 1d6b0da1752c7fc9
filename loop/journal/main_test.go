package journal

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/superloop/superloop/internal/durable"
)

// childEnv makes the test binary a process that writes a journal and is killed:
// "<step> <directory>".
const childEnv = "JOURNAL_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		step, dir, _ := strings.Cut(part, " ")
		n, err := strconv.Atoi(step)
		if err == nil {
			err = write(killAt(n), dir, func(hash string) { fmt.Println(hash) })
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// killAt is a disk that dies of SIGKILL, with the process, at the n-th step.
func killAt(n int) durable.Disk {
	return durable.OS().WithFault(func(string) error {
		if n--; n < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
		return nil
	})
}

// write opens a journal with a torn end, appends groups to it, and seals twice;
// ack is called with the hash of each event that Append says is there.
func write(d durable.Disk, dir string, ack func(hash string)) error {
	j, err := Open(d, filepath.Join(dir, "events.jsonl"), small(filepath.Join(dir, "head")))
	if err != nil {
		return err
	}
	for i := range 4 {
		evs, err := j.Append(i%2 == 0, events(i, 1+i)...)
		if err != nil {
			return err
		}
		for _, ev := range evs {
			ack(ev.Hash)
		}
		if i%2 == 1 {
			if err := j.Seal(); err != nil {
				return err
			}
		}
	}
	return j.Close()
}

// tornJournal puts a journal of two events and half a third into dir.
func tornJournal(t *testing.T, dir string) {
	t.Helper()
	_, data := journalOf(t, 3)
	mustWrite(t, filepath.Join(dir, "events.jsonl"), data[:len(data)-30])
}

// TestKilledAtEveryStep: whatever a killed process said is there is there, and
// the next one goes on.
func TestKilledAtEveryStep(t *testing.T) {
	var steps []string
	clean := t.TempDir()
	tornJournal(t, clean)
	err := write(durable.OS().WithFault(func(op string) error { steps = append(steps, op); return nil }), clean, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	for k, step := range steps {
		t.Run(fmt.Sprintf("%d-%s", k, step), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tornJournal(t, dir)
			acked := runKilled(t, k, dir)
			path, head := filepath.Join(dir, "events.jsonl"), filepath.Join(dir, "head")
			// A reader needs no writer that mends what the kill left.
			if rep, err := Verify(path); err != nil || rep.FirstBad != nil && !rep.FirstBad.Torn || rep.LastSeq < int64(2+len(acked)) {
				t.Fatalf("after the kill: %+v, %v", rep, err)
			}
			j := mustOpen(t, durable.OS(), path, small(head))
			before := j.LastSeq()
			if _, err := j.Append(true, event(9)); err != nil {
				t.Fatal(err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			intact(t, path, before+1)
			if err := CheckHead(path, head); err != nil {
				t.Error(err)
			}
			if n := bytes.Count(content(t, path), []byte("\n")); int64(n) != before+1 {
				t.Errorf("the files have %d lines for %d events", n, before+1)
			}
			var there []string
			for _, ev := range all(t, path, 3) {
				there = append(there, ev.Hash)
			}
			if len(there) < len(acked) || !slices.Equal(there[:len(acked)], acked) {
				t.Errorf("%d events were acknowledged, %d are there", len(acked), len(there)-1)
			}
			if names, _ := filepath.Glob(path + ".broken-*"); len(names) == 0 {
				t.Error("the torn end is nowhere")
			}
		})
	}
}

// runKilled runs write in a process of its own, which dies at step k, and gives
// what it acknowledged.
func runKilled(t *testing.T, k int, dir string) (acked []string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := os.StartProcess(os.Args[0], os.Args[:1], &os.ProcAttr{
		Env:   append(os.Environ(), fmt.Sprintf("%s=%d %s", childEnv, k, dir)),
		Files: []*os.File{nil, w, os.Stderr},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(r); in.Scan(); {
		acked = append(acked, in.Text())
	}
	st, err := p.Wait()
	if err != nil || st.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child was not killed: %v, %v", st, err)
	}
	return acked
}

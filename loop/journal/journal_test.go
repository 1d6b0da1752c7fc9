package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

var day = time.Date(2026, 11, 21, 4, 5, 6, 789_000_000, time.UTC)

// event is the i-th event of a test's journal.
func event(i int) Event {
	return Event{
		Timestamp: day.Add(time.Duration(i) * time.Second), Event: "role_end", LoopID: "checkout",
		RunID: "20261121T040506.789Z-0a1b2c3d", Iteration: i / 4,
		Fields: json.RawMessage(fmt.Sprintf(`{"role":"implementer","exit_code":%d,"duration_ms":152,"log_file":"logs/iter-1/implementer.log"}`, i)),
	}
}

func events(from, n int) []Event {
	var evs []Event
	for i := range n {
		evs = append(evs, event(from+i))
	}
	return evs
}

func mustOpen(t testing.TB, d durable.Disk, path string, o Options) *Journal {
	t.Helper()
	j, err := Open(d, path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// journalOf is the path of a journal of n events, and its content.
func journalOf(t testing.TB, n int) (path string, data []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "events.jsonl")
	j := mustOpen(t, durable.OS(), path, Options{})
	if _, err := j.Append(false, events(1, n)...); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path, mustRead(t, path)
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustWrite(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func all(t testing.TB, path string, from int64) []Event {
	t.Helper()
	var got []Event
	if err := Read(path, from, func(ev Event) error { got = append(got, ev); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

// intact fails the test unless path is a whole journal of n events.
func intact(t testing.TB, path string, n int64) {
	t.Helper()
	rep, err := Verify(path)
	if err != nil || rep.FirstBad != nil || rep.Events != n || rep.LastSeq != n {
		t.Fatalf("journal of %d events: %+v, %v", n, rep, err)
	}
}

func TestAppendAndReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	var want []Event
	for round := range 4 {
		j := mustOpen(t, durable.OS(), path, Options{})
		if j.LastSeq() != int64(len(want)) {
			t.Fatalf("round %d begins at %d", round, j.LastSeq())
		}
		for _, sync := range []bool{true, false} {
			got, err := j.Append(sync, events(len(want)+1, round+1)...)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, got...)
		}
		last := want[len(want)-1]
		if j.LastSeq() != last.Seq || j.end().hash != last.Hash || j.end().end != int64(len(mustRead(t, path))) {
			t.Errorf("end is %d %s %d", j.LastSeq(), j.end().hash, j.end().end)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := all(t, path, 0); !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v, wrote\n%+v", got, want)
	}
	intact(t, path, int64(len(want)))
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
}

func TestAppendRefusesWithoutATrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	j := mustOpen(t, durable.OS(), path, Options{})
	if _, err := j.Append(true, event(1)); err != nil {
		t.Fatal(err)
	}
	before, hash := mustRead(t, path), j.end().hash
	group := events(2, 3)
	group[2].Fields = json.RawMessage(`{"seq":1}`)
	kept := slices.Clone(group)
	if _, err := j.Append(true, group...); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("err is %v", err)
	}
	if !reflect.DeepEqual(group, kept) {
		t.Error("the caller's events were changed")
	}
	if string(mustRead(t, path)) != string(before) || j.end().hash != hash {
		t.Error("a refused group left a trace")
	}
	if _, err := j.Append(true); err != nil {
		t.Errorf("an empty group: %v", err)
	}
	if _, err := j.Append(true, events(2, 2)...); err != nil {
		t.Fatal(err)
	}
	intact(t, path, 3)
}

func TestAppendAfterClose(t *testing.T) {
	j := mustOpen(t, durable.OS(), filepath.Join(t.TempDir(), "events.jsonl"), Options{})
	if err := errors.Join(j.Close(), j.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(true, event(1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("err is %v", err)
	}
}

// TestOneFlushForAll: those who come while a flush is under way are all served by
// the next one.
func TestOneFlushForAll(t *testing.T) {
	const others = 20
	path := filepath.Join(t.TempDir(), "events.jsonl")
	first, gate := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	syncs := 0
	d := durable.OS().WithFault(func(op string) error {
		if op != "events:sync" {
			return nil
		}
		mu.Lock()
		syncs++
		n := syncs
		mu.Unlock()
		if n == 1 {
			close(first)
			<-gate
		}
		return nil
	})
	j := mustOpen(t, d, path, Options{})
	var wg sync.WaitGroup
	add := func(i int) {
		if _, err := j.Append(true, event(i)); err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() { add(0) })
	<-first
	for i := range others {
		wg.Go(func() { add(i + 1) })
	}
	err := Follow(t.Context(), path, others+1, func(Event) error { return ErrStop })
	if err != nil {
		t.Fatal(err)
	}
	close(gate)
	wg.Wait()
	if syncs != 2 {
		t.Errorf("%d flushes for %d appends, want 2", syncs, others+1)
	}
	intact(t, path, others+1)
}

func TestAppendersConcurrently(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "events.jsonl")
	j := mustOpen(t, durable.OS(), path, Options{Head: filepath.Join(dir, "head")})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if _, err := j.Append(i%2 == 0, events(1, 1+i%3)...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := j.LastSeq()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	intact(t, path, n)
	if err := CheckHead(path, filepath.Join(dir, "head")); err != nil {
		t.Error(err)
	}
}

// TestStepsOfAppend pins what an append costs and in which order it is done: one
// write, one flush, and the head only after the flush, so that it never names an
// event that a power cut can take back.
func TestStepsOfAppend(t *testing.T) {
	dir := t.TempDir()
	var steps []string
	d := durable.OS().WithFault(func(op string) error { steps = append(steps, op); return nil })
	j := mustOpen(t, d, filepath.Join(dir, "events.jsonl"), Options{Head: filepath.Join(dir, "head")})
	for _, tt := range []struct {
		do   func() error
		want string
	}{
		{func() error { _, err := j.Append(false, events(1, 3)...); return err }, "events:append"},
		{func() error { _, err := j.Append(true, events(4, 3)...); return err }, "events:append events:sync head:write"},
		{func() error { _, err := j.Append(true); return err }, ""},
		{func() error { _, err := j.Append(false, event(7)); return err }, "events:append"},
		{func() error { _, err := j.Append(true); return err }, "events:sync head:write"},
		{func() error { return j.Close() }, "events:close head:close"},
	} {
		steps = nil
		if err := tt.do(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(steps, " "); got != tt.want {
			t.Errorf("steps are %q, want %q", got, tt.want)
		}
	}
}

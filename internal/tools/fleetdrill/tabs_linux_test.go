package fleetdrill

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/server/registry"
)

// TestTabs lets many tabs follow a gateway while its machine records twenty events a second, and says what that takes.
func TestTabs(t *testing.T) {
	tabs := testkit.Sample(0, 100, 1000)
	if tabs == 0 {
		t.Skip("it builds both programs: SUPERLOOP_SLOW_TESTS=1 go test -v -run Tabs ./internal/tools/fleetdrill")
	}
	const perSecond, seconds = 20, 10
	s := newSite(t)
	repo := s.machine("m1")
	s.questions(1)
	dir := filepath.Join(repo, ".superloop/loops/busy")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	store := registry.Store{Disk: durable.OS(), State: filepath.Join(s.top, "m1/superloop")}
	if err := store.Put(registry.Entry{Repo: repo, Loop: "busy", Wanted: registry.Fleet, By: "ada", Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(durable.OS(), filepath.Join(dir, "events.jsonl"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	note := func(n int) {
		ev := journal.Event{Timestamp: time.Now(), Event: "operator_note", LoopID: "busy", RunID: "r", Fields: json.RawMessage(fmt.Sprintf(`{"text":"note %d"}`, n))}
		if _, err := j.Append(false, ev); err != nil {
			t.Error(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	var ready, got, late atomic.Int64
	var sent [perSecond*seconds + 1]atomic.Int64 // when each note was written, in nanoseconds
	for range tabs {
		group.Go(func() {
			if err := follow(ctx, s.socket("g", "superloop/fleet/gateway/superloop"), func() { ready.Add(1) }, func(n int) {
				got.Add(1)
				if n > 0 && time.Now().UnixNano()-sent[n].Load() > int64(time.Second) {
					late.Add(1)
				}
			}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	said := ""
	s.await("all tabs are ready", func() bool { said = fmt.Sprint(ready.Load(), " of ", tabs); return ready.Load() == int64(tabs) }, &said)
	note(0)
	s.await("all tabs have the first note", func() bool { said = fmt.Sprint(got.Load()); return got.Load() == int64(tabs) }, &said)
	gateway, worker := s.procs["gateway"].Process.Pid, s.procs["m1-worker"].Process.Pid
	before := [2]time.Duration{spent(t, gateway), spent(t, worker)}
	for _, child := range children(worker) {
		before[1] += spent(t, child)
	}
	began := time.Now()
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for n := 1; n <= perSecond*seconds; n++ {
		<-tick.C
		sent[n].Store(time.Now().UnixNano())
		note(n)
	}
	want := int64(tabs * (perSecond*seconds + 1))
	s.await("all tabs have all notes", func() bool { said = fmt.Sprint(got.Load(), " of ", want); return got.Load() >= want }, &said)
	took := time.Since(began)
	after := [2]time.Duration{spent(t, gateway), spent(t, worker)}
	for _, child := range children(worker) {
		after[1] += spent(t, child)
	}
	if got.Load() != want {
		t.Errorf("%d notes came instead of %d", got.Load(), want)
	}
	t.Logf("%d tabs, %d events a second for %d s: all came, after %.1f s, %.1f %% later than a second; they cost the gateway %.1f s of processor time and it has %d MiB, and the machine %.1f s",
		tabs, perSecond, seconds, took.Seconds(), 100*float64(late.Load())/float64(want), (after[0] - before[0]).Seconds(), resident(t, gateway)>>10, (after[1] - before[1]).Seconds())
}

// follow reads the stream of a gateway as a tab does. note is called with the number of each note.
func follow(ctx context.Context, socket string, ready func(), note func(n int)) error {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	r, err := http.NewRequestWithContext(ctx, "GET", "http://superloop/api/v1/stream", nil)
	if err != nil {
		return err
	}
	res, err := tr.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := in.Bytes()
		if bytes.Equal(line, []byte("event: ready")) {
			ready()
		}
		for bytes.HasPrefix(line, []byte("data:")) {
			_, rest, ok := bytes.Cut(line, []byte(`"text":"note `))
			if !ok {
				break
			}
			text, _, _ := bytes.Cut(rest, []byte(`"`))
			n, err := strconv.Atoi(string(text))
			if err != nil {
				return err
			}
			note(n)
			line = append([]byte("data:"), rest...)
		}
	}
	return in.Err()
}

// spent returns the processor time of a process.
func spent(t *testing.T, pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
}

// resident returns the resident memory of a process, in KiB.
func resident(t *testing.T, pid int) (kib int) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	kib, _ = strconv.Atoi(strings.Fields(rest)[0])
	return kib
}

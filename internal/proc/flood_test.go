package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// 200 MB of numbered lines: the log is capped, head and tail are right, and the memory does not grow. Not
// parallel, because it measures the heap of the whole test process.
func TestFlood(t *testing.T) {
	const lines, total, limit = 22_000_000, 186_888_897, 4 << 20
	s := spawnerAt(t, "")
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var seen int64
	var peak uint64
	spec := script(fmt.Sprintf("exec seq 1 %d", lines))
	spec.Log, spec.LogLimit, spec.HeadTail = f, limit, 1000
	var chunks atomic.Int64
	spec.Stdout = func(p []byte) {
		seen += int64(len(p))
		if chunks.Add(1)%200 == 0 {
			peak = max(peak, heap())
		}
	}
	before := heap()
	res := mustRun(t, s, spec)
	if res.Code != 0 || seen != total || res.Stdout.Bytes != total {
		t.Fatalf("%d bytes seen, %d counted, want %d: %+v", seen, res.Stdout.Bytes, total, res.Ended)
	}
	if grown := int64(peak) - int64(before); grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if !bytes.HasPrefix(res.Stdout.Head, []byte("1\n2\n3\n")) || len(res.Stdout.Head) != 1000 ||
		!bytes.HasSuffix(res.Stdout.Tail, []byte(fmt.Sprintf("\n%d\n%d\n", lines-1, lines))) || len(res.Stdout.Tail) != 1000 {
		t.Errorf("kept %q ... %q", res.Stdout.Head, res.Stdout.Tail)
	}

	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mark := regexp.MustCompile(`(?m)^\[superloop: (\d+) bytes left out here\]\n`).FindSubmatchIndex(log)
	if mark == nil {
		t.Fatal("no marker in the log")
	}
	dropped, _ := strconv.ParseInt(string(log[mark[2]:mark[3]]), 10, 64)
	head, tail := log[:mark[0]], log[mark[1]:]
	if int64(len(head)+len(tail))+dropped != total || res.LogDropped != dropped || res.LogErr != nil {
		t.Errorf("head %d + dropped %d + tail %d is not %d (%d, %v)", len(head), dropped, len(tail), total, res.LogDropped, res.LogErr)
	}
	if len(head) > limit/2 || len(head) < limit/2-16 || len(tail) > 1<<20 || len(tail) < 1<<20-16 {
		t.Errorf("head of %d bytes, tail of %d", len(head), len(tail))
	}
	consecutive(t, "head", head, 1)
	first, _, _ := bytes.Cut(tail, []byte("\n"))
	from, _ := strconv.Atoi(string(first))
	if last := consecutive(t, "tail", tail, from); last != lines {
		t.Errorf("the tail ends with %d", last)
	}
}

// consecutive fails unless text is the whole lines from, from+1, ...; it returns the last number.
func consecutive(t *testing.T, what string, text []byte, from int) int {
	n := from
	for line := range strings.Lines(string(text)) {
		if line != strconv.Itoa(n)+"\n" {
			t.Errorf("%s: %q instead of %d", what, line, n)
			return n
		}
		n++
	}
	return n - 1
}

// heap returns what is in use. What is garbage depends on the load of the computer.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// failing is a log on a full disk.
type failing struct {
	room int
	got  bytes.Buffer
}

var errFull = errors.New("no space left on device")

func (f *failing) Write(p []byte) (int, error) {
	n := min(len(p), f.room)
	f.room -= n
	f.got.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func TestFullDiskDoesNotStopTheCommand(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	log := &failing{room: 10_000}
	spec := script("seq 1 100000; echo done >&2; exit 4")
	spec.Log = log
	res := mustRun(t, s, spec)
	if res.Code != 4 || res.Ended != Exited || !errors.Is(res.LogErr, errFull) || res.Stderr.Text() != "done\n" {
		t.Errorf("%+v", res)
	}
	if all := res.Stdout.Bytes + res.Stderr.Bytes; res.LogDropped+int64(log.got.Len()) != all {
		t.Errorf("%d logged, %d dropped, of %d", log.got.Len(), res.LogDropped, all)
	}
	if !strings.HasPrefix(strings.TrimPrefix(log.got.String(), "done\n"), "1\n2\n3\n") {
		t.Errorf("log begins with %.20q", log.got.String())
	}
}

// Two streams share one log; whole lines must not be mixed.
func TestLogKeepsLinesWhole(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, "")
	var log bytes.Buffer
	spec := script(`w() { for ((i=0;i<3000;i++)); do printf '%s%s\n' "$1" "-$i-end"; done; }; w out & w err >&2 & wait`)
	spec.Log = &log
	mustRun(t, s, spec)
	whole := regexp.MustCompile(`^(out|err)-\d+-end\n$`)
	n := 0
	for line := range strings.Lines(log.String()) {
		n++
		if !whole.MatchString(line) {
			t.Fatalf("line %d: %q", n, line)
		}
	}
	if n != 6000 {
		t.Errorf("%d lines", n)
	}
}

package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

// mixed is a journal whose lines are of very different lengths, some longer than
// every buffer.
func mixed(t testing.TB, n int) (string, []Event) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	j := mustOpen(t, durable.OS(), path, Options{})
	var want []Event
	for i := 1; i <= n; i++ {
		ev := event(i)
		size := (i * i * 37) % 3000
		if i%97 == 0 {
			size = 3 * scanBuffer
		}
		ev.Fields = json.RawMessage(`{"output_tail":"` + strings.Repeat("x", size) + `"}`)
		got, err := j.Append(false, ev)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, got...)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path, want
}

func TestReadFromAnywhere(t *testing.T) {
	t.Parallel()
	const n = 500
	path, want := mixed(t, n)
	for from := int64(-1); from <= n+2; from += int64(testkit.Sample(4, 1, 1)) {
		got := all(t, path, from)
		w := want[min(max(from-1, 0), n):]
		if len(got) != len(w) || len(w) > 0 && !reflect.DeepEqual(got, w) {
			t.Fatalf("from %d: %d events, want %d", from, len(got), len(w))
		}
	}
	f, _, err := door.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if at := seek(f, n); info.Size()-at > 8*scanBuffer {
		t.Errorf("the last event is looked for from byte %d of %d on", at, info.Size())
	}
}

func TestTailIsTheEndOfRead(t *testing.T) {
	t.Parallel()
	const n = 300
	path, want := mixed(t, n)
	for _, k := range []int{0, 1, 2, 7, 20, 100, 203, 299, 300, 301, 5000} {
		got, err := Tail(path, k)
		w := want[max(0, n-k):]
		if err != nil || len(got) != len(w) || len(w) > 0 && !reflect.DeepEqual(got, w) {
			t.Errorf("last %d: %d events, want %d (%v)", k, len(got), len(w), err)
		}
	}
	data := mustRead(t, path)
	for _, torn := range []string{"{", strings.Repeat("x", 50_000)} {
		mustWrite(t, path, append(bytes.Clone(data), torn...))
		if got, err := Tail(path, 2); err != nil || !reflect.DeepEqual(got, want[n-2:]) {
			t.Errorf("with half a last line: %d events, %v", len(got), err)
		}
		if got := all(t, path, n-1); !reflect.DeepEqual(got, want[n-2:]) {
			t.Errorf("with half a last line Read gives %d events", len(got))
		}
	}
}

func TestTailOfOddFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for content, wantErr := range map[string]bool{
		"": false, "half": false, "\n": true, "{}\n": true, strings.Repeat("x", 2*MaxLine+5): true,
	} {
		mustWrite(t, path, []byte(content))
		got, err := Tail(path, 3)
		var bad *CorruptError
		if len(got) > 0 || errors.As(err, &bad) != wantErr || (err != nil) != wantErr {
			t.Errorf("%.10q: %v, %v", content, got, err)
		}
	}
	if _, err := Tail(path+"x", 3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestTheLongestLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	j := mustOpen(t, durable.OS(), path, Options{})
	probe, err := AppendLine(nil, Event{Seq: 1, Timestamp: day, Event: "e", Fields: json.RawMessage(`{"x":""}`)})
	if err != nil {
		t.Fatal(err)
	}
	ev := Event{Timestamp: day, Event: "e", Fields: json.RawMessage(`{"x":"` + strings.Repeat("y", MaxLine+1-len(probe)) + `"}`)}
	over := ev
	over.Fields = json.RawMessage(`{"x":"y` + string(ev.Fields[6:]))
	if _, err := j.Append(false, over); err == nil || !strings.Contains(err.Error(), "the longest is 16777216") {
		t.Fatalf("one byte more: %v", err)
	}
	got, err := j.Append(false, ev)
	if err != nil {
		t.Fatal(err)
	}
	if n := j.end().end; n != MaxLine+1 {
		t.Fatalf("the line has %d bytes", n)
	}
	got2, err := j.Append(false, event(2))
	if err != nil {
		t.Fatal(err)
	}
	intact(t, path, 2)
	if read := all(t, path, 0); !reflect.DeepEqual(read, append(got, got2...)) {
		t.Error("it is not read back")
	}
	if read := all(t, path, 2); !reflect.DeepEqual(read, got2) {
		t.Error("the line behind it is not found")
	}
	if tail, err := Tail(path, 2); err != nil || !reflect.DeepEqual(tail, append(got, got2...)) {
		t.Errorf("Tail: %v", err)
	}
}

func TestReadStops(t *testing.T) {
	path, _ := journalOf(t, 10)
	for _, want := range []error{ErrStop, errors.New("enough")} {
		n := 0
		err := Read(path, 3, func(ev Event) error {
			if n++; n == 4 {
				return want
			}
			return nil
		})
		if n != 4 || want == ErrStop && err != nil || want != ErrStop && err != want {
			t.Errorf("%v: after %d events: %v", want, n, err)
		}
	}
	if err := Read(path+"x", 0, func(Event) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	fifo := path + "fifo"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Read(fifo, 0, func(Event) error { return nil }); err == nil {
		t.Error("a FIFO was read")
	}
}

func TestReadFindsWhatDoesNotFollow(t *testing.T) {
	path, data := journalOf(t, 4)
	lines := strings.SplitAfter(string(data), "\n")
	for name, tt := range map[string]struct {
		content string
		good    int
		line    int64
	}{
		"a foreign line":        {lines[0] + lines[1] + "{}\n" + lines[2], 2, 3},
		"a line missing":        {lines[0] + lines[2], 1, 2},
		"the beginning missing": {lines[2], 0, 1},
		"another history":       {lines[0] + strings.Replace(lines[1], `"prev":"`, `"prev":"0`, 1), 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			mustWrite(t, path, []byte(tt.content))
			n := 0
			err := Read(path, 0, func(Event) error { n++; return nil })
			var bad *CorruptError
			if !errors.As(err, &bad) || bad.Line != tt.line || n != tt.good {
				t.Errorf("%d events, %v", n, err)
			}
		})
	}
}

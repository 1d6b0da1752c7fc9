package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/testkit"
)

// verifyBytes is Verify of a file with that content.
func verifyBytes(t testing.TB, path string, data []byte) Report {
	t.Helper()
	mustWrite(t, path, data)
	rep, err := Verify(path)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// TestEveryByteCounts changes each byte of a journal to several others.
func TestEveryByteCounts(t *testing.T) {
	t.Parallel()
	path, data := journalOf(t, 5)
	line, begin := int64(1), int64(0)
	for i, was := range data {
		if was != '\n' && i%testkit.Sample(4, 1, 1) != 0 {
			continue
		}
		for _, now := range []byte{was ^ 1, was ^ 0x20, '\n', 0, '"'} {
			if now == was {
				continue
			}
			broken := bytes.Clone(data)
			broken[i] = now
			s, err := (&files{path: path}).checkLines(newLines(path, bytes.NewReader(broken), place{}, int64(len(broken))), nil)
			if err != nil || s.bad == nil || s.bad.Line != line || s.bad.Offset != begin || s.seq != line-1 {
				t.Fatalf("byte %d, %q to %q in line %d at %d: %+v, %v", i, was, now, line, begin, s.bad, err)
			}
		}
		data[i] ^= 1
		if rep := verifyBytes(t, path, data); rep.FirstBad == nil || rep.FirstBad.Line != line {
			t.Fatalf("byte %d of line %d: %+v", i, line, rep.FirstBad)
		}
		data[i] = was
		if was == '\n' {
			line, begin = line+1, int64(i)+1
		}
	}
}

// TestLinesInOrder removes, repeats, swaps and adds lines.
func TestLinesInOrder(t *testing.T) {
	dir := t.TempDir()
	_, data := journalOf(t, 6)
	rapid.Check(t, func(rt *rapid.T) {
		lines := bytes.SplitAfter(data, []byte("\n"))
		lines = lines[:len(lines)-1]
		var out [][]byte
		n := rapid.IntRange(1, 8).Draw(rt, "n")
		for range n {
			out = append(out, lines[rapid.IntRange(0, len(lines)-1).Draw(rt, "line")])
		}
		good := 0
		for good < n && good < len(lines) && bytes.Equal(out[good], lines[good]) {
			good++
		}
		rep := verifyBytes(t, filepath.Join(dir, "f"), bytes.Join(out, nil))
		if rep.Events != int64(good) || (rep.FirstBad == nil) != (good == n) {
			rt.Fatalf("%d good of %d: %+v", good, n, rep)
		}
		if good < n && (rep.FirstBad.Line != int64(good)+1 || rep.FirstBad.Torn) {
			rt.Fatalf("first bad is %+v, want line %d", rep.FirstBad, good+1)
		}
	})
}

func TestVerifySays(t *testing.T) {
	path, data := journalOf(t, 3)
	lines := strings.SplitAfter(string(data), "\n")
	for _, tt := range []struct {
		name, content, why string
		line               int64
		torn               bool
	}{
		{"empty", "", "", 0, false},
		{"whole", string(data), "", 0, false},
		{"torn", string(data) + `{"seq":4,"timest`, "the file ends in the middle", 4, true},
		{"torn in the newline", strings.TrimSuffix(string(data), "\n"), "the file ends in the middle", 3, true},
		{"foreign line", string(data) + "{}\n", "does not begin as an event", 4, false},
		{"blank line", lines[0] + "\n" + lines[1], "does not begin as an event", 2, false},
		{"line missing", lines[0] + lines[2], "sequence number does not follow", 2, false},
		{"beginning missing", lines[1] + lines[2], "sequence number does not follow", 1, false},
		{"NUL at the end", lines[0] + lines[1] + lines[2][:100] + strings.Repeat("\x00", 50) + lines[2][150:], "never reached the disk", 3, true},
		{"NUL in the middle", lines[0] + lines[1][:100] + "\x00" + lines[1][101:] + lines[2], "never reached the disk", 2, false},
		{"too long", lines[0] + strings.Repeat("x", MaxLine+1) + "\n" + lines[1], "longer than 16 MiB", 2, false},
		{"too long and torn", lines[0] + strings.Repeat("x", MaxLine+2), "longer than 16 MiB", 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rep := verifyBytes(t, path, []byte(tt.content))
			if tt.why == "" {
				if rep.FirstBad != nil {
					t.Errorf("%v", rep.FirstBad)
				}
				return
			}
			if rep.FirstBad == nil || rep.FirstBad.Line != tt.line || rep.FirstBad.Torn != tt.torn || !strings.Contains(rep.FirstBad.Error(), tt.why) {
				t.Errorf("%+v, want line %d, %q", rep.FirstBad, tt.line, tt.why)
			}
		})
	}
	if _, err := Verify(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestARewrittenChainNeedsTheHead: a chain that was computed anew is a good
// chain; only the head shows that it is another one.
func TestARewrittenChainNeedsTheHead(t *testing.T) {
	path, head := anchored(t, 6)
	var out []byte
	var prev string
	for _, ev := range all(t, path, 0) {
		ev.Prev = prev
		if ev.Seq == 2 {
			ev.Fields = []byte(`{"exit_code":0}`)
		}
		var err error
		if out, err = AppendLine(out, ev); err != nil {
			t.Fatal(err)
		}
		prev = lineHash(out)
	}
	mustWrite(t, path, out)
	intact(t, path, 6)
	tampered(t, path, head, 6)
}

// TestALineThatWasRehashed: a line that was changed and given the right hash is
// found at the next one, whose prev is not it.
func TestALineThatWasRehashed(t *testing.T) {
	path, data := journalOf(t, 5)
	lines := bytes.SplitAfter(data, []byte("\n"))
	evs := all(t, path, 0)
	for i := range 4 {
		ev := evs[i]
		ev.Fields = []byte(`{"exit_code":0}`)
		line, err := AppendLine(nil, ev)
		if err != nil {
			t.Fatal(err)
		}
		out := bytes.Join([][]byte{bytes.Join(lines[:i], nil), line, bytes.Join(lines[i+1:], nil)}, nil)
		rep := verifyBytes(t, path, out)
		if rep.FirstBad == nil || rep.FirstBad.Line != int64(i)+2 || !strings.Contains(rep.FirstBad.Why, "prev is not the hash") {
			t.Errorf("line %d was rehashed: %+v", i+1, rep.FirstBad)
		}
		err = Read(path, 0, func(Event) error { return nil })
		var bad *CorruptError
		if !errors.As(err, &bad) || bad.Line != int64(i)+2 {
			t.Errorf("line %d was rehashed, Read: %v", i+1, err)
		}
	}
}

func TestCorruptErrorNamesTheNextStep(t *testing.T) {
	e := &CorruptError{Path: "/r/events.jsonl", Line: 7, Offset: 1234, Why: "its hash is not the hash of its bytes"}
	want := "/r/events.jsonl: line 7 (byte 1234) is broken: its hash is not the hash of its bytes; the file is kept as it is, see: superloop events --verify"
	if e.Error() != want {
		t.Errorf("message is %q", e)
	}
	e.Line = 0
	if s := fmt.Sprint(e); !strings.HasPrefix(s, "/r/events.jsonl: byte 1234 is broken") {
		t.Errorf("message is %q", s)
	}
}

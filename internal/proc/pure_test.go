package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPackProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.StringMatching(`[^\x00]*`)).Draw(t, "list")
		if got := unpack(pack(list)); !slices.Equal(got, list) {
			t.Fatalf("%q became %q", list, got)
		}
	})
}

// drawChunks draws output as it comes: lines of any length, in pieces of any length.
func drawChunks(t *rapid.T) (all []byte, chunks [][]byte) {
	for _, s := range rapid.SliceOf(rapid.StringMatching(`[a-c\n]{0,40}`)).Draw(t, "chunks") {
		chunks = append(chunks, []byte(s))
		all = append(all, s...)
	}
	return all, chunks
}

func TestHeadTailProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all, chunks := drawChunks(t)
		limit := rapid.IntRange(0, 60).Draw(t, "limit")
		h := NewHeadTail(limit)
		for _, c := range chunks {
			_, _ = h.Write(c)
		}
		c := h.Capture()
		head := all[:min(limit, len(all))]
		rest := all[len(head):]
		tail := rest[max(0, len(rest)-limit):]
		if !bytes.Equal(c.Head, head) || !bytes.Equal(c.Tail, tail) || c.Bytes != int64(len(all)) || c.Truncated != (len(tail) < len(rest)) {
			t.Fatalf("of %q with %d kept %+v", all, limit, c)
		}
		if !c.Truncated && c.Text() != string(all) {
			t.Fatalf("text %q of %q", c.Text(), all)
		}
	})
}

var gap = regexp.MustCompile(`(?m)^\[superloop: (\d+) bytes left out here\]\n`)

func TestLogSinkProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all, chunks := drawChunks(t)
		limit := rapid.Int64Range(2, 200).Draw(t, "limit")
		var out bytes.Buffer
		s := newLogSink(&out, limit, nil)
		for _, c := range chunks {
			s.write(c)
		}
		dropped, err := s.finish()
		if err != nil {
			t.Fatal(err)
		}
		got := out.Bytes()
		if int64(len(all)) <= limit/2 && !bytes.Equal(got, all) {
			t.Fatalf("short output %q became %q", all, got)
		}
		at := gap.FindSubmatchIndex(got)
		if at == nil {
			if dropped != 0 || !bytes.Equal(got, all) {
				t.Fatalf("%q became %q, %d dropped without a word", all, got, dropped)
			}
			return
		}
		said, _ := strconv.ParseInt(string(got[at[2]:at[3]]), 10, 64)
		head, tail := got[:at[0]], got[at[1]:]
		if !bytes.HasPrefix(all, head) { // a line end before the marker may be ours
			head = bytes.TrimSuffix(head, []byte("\n"))
		}
		whole := int64(len(head)+len(tail)) + said
		if said != dropped || !bytes.HasPrefix(all, head) || !bytes.HasSuffix(all, tail) || whole != int64(len(all)) && whole != int64(len(all))+1 {
			t.Fatalf("%q became %q, %d dropped", all, got, dropped)
		}
		if int64(len(head)+len(tail)) > limit+1 {
			t.Fatalf("%d + %d bytes for a limit of %d", len(head), len(tail), limit)
		}
	})
}

func TestLogSinkErrorProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all, chunks := drawChunks(t)
		log := &failing{room: rapid.IntRange(0, 100).Draw(t, "room")}
		s := newLogSink(log, 1<<20, nil)
		for _, c := range chunks {
			s.write(c)
		}
		dropped, err := s.finish()
		if !bytes.HasPrefix(all, log.got.Bytes()) || dropped != int64(len(all)-log.got.Len()) || (err != nil) != (dropped > 0) {
			t.Fatalf("of %q got %q, %d dropped, %v", all, log.got.Bytes(), dropped, err)
		}
	})
}

func TestLevelFrom(t *testing.T) {
	t.Parallel()
	for l, want := range map[Level]string{"": fmt.Sprint(available()), available()[0]: fmt.Sprint(available()), "unknown": fmt.Sprint(available()), ProcessGroup: "[process_group]"} {
		if got := fmt.Sprint(l.from()); got != want {
			t.Errorf("%q: %s", l, got)
		}
	}
}

func TestLookPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second, plain := write("a/tool", 0o755), write("b/tool", 0o755), write("a/plain", 0o644)
	hidden := write("b/plain", 0o755)
	if err := os.MkdirAll(filepath.Join(dir, "a/folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, c := range []struct {
		file, path, want string
		err              error
		text             string
	}{
		{"tool", a + ":" + b, first, nil, ""},
		{"tool", b + ":" + a, second, nil, ""},
		{"tool", "/none::.:" + b, second, nil, ""},
		{"plain", a + ":" + b, hidden, nil, ""},
		{"plain", a, "", fs.ErrPermission, plain + " is not executable"},
		{"folder", a, "", fs.ErrPermission, "is not executable"},
		{"gone", a, "", fs.ErrNotExist, "searched PATH=" + a},
		{"run.go", ".:", "", fs.ErrNotExist, "not found"},
		{"", a, "", fs.ErrNotExist, "not found"},
		{first, "", first, nil, ""},
		{plain, "", "", fs.ErrPermission, "chmod +x"},
		{a + "/gone", "", "", fs.ErrNotExist, "does not exist"},
		{a, "", "", fs.ErrPermission, "directory"},
	} {
		got, err := LookPath(c.file, []string{"PATH=/none", "PATHX=" + b, "PATH=" + c.path})
		if got != c.want || !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s in %s: %q, %v", c.file, c.path, got, err)
		}
	}
}

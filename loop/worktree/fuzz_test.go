package worktree

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzSnapshot: bytes with the right digest are a snapshot that is written again as it was read, or are damaged.
func FuzzSnapshot(f *testing.F) {
	b := newBox(f)
	b.put("a", "1")
	b.put("dir/"+odd, "2")
	s, err := b.open().Snapshot(f.Context())
	must(f, err)
	s.dirty = append(s.dirty, stamp{path: "dir/b", size: -1, mtime: 1 << 60})
	for _, s := range []Snapshot{s, {}} {
		data := s.encode()
		testkit.Seed(f, data[:len(data)-sha256.Size])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		s, ok := testkit.Decoder[Snapshot]{Decode: decodeSnapshot, Encode: func(s Snapshot) ([]byte, error) { return s.encode(), nil }}.Check(t, append(bytes.Clone(body), sum[:]...))
		if ok && len(Diff(s, s)) > 0 {
			t.Fatalf("a snapshot differs from itself: %v", Diff(s, s))
		}
	})
}

// FuzzListings: what git prints about files that agents have named is read whole, or refused.
func FuzzListings(f *testing.F) {
	id := "0123456789012345678901234567890123456789"
	testkit.Seed(f, []byte("H 100644 "+id+" 0\tz\x00S 100755 "+id+" 0\ta\tb\x00M 100644 "+id+" 2\tc\x00"),
		[]byte("1 .M N... 100644 100644 100644 "+id+" "+id+" a b\x002 R. N... 100644 100644 100644 a b R100 to\x00from\x00? z\x00"),
		[]byte("worktree /a\nHEAD "+id+"\nbranch refs/heads/main\n\nworktree /b c\ndetached\nlocked why\n\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		index, ok := testkit.Decoder[[]entry]{Decode: parseIndex}.Check(t, out)
		if ok && (!slices.IsSortedFunc(index, byPath) || len(index) > bytes.Count(out, []byte{0})+1) {
			t.Fatalf("%d entries", len(index))
		}
		status, ok := testkit.Decoder[[]change]{Decode: parseStatus}.Check(t, out)
		if ok && len(status) > bytes.Count(out, []byte{0})+1 {
			t.Fatalf("%d changes", len(status))
		}
		for _, l := range parseLinked(string(out)) {
			if !bytes.Contains(out, []byte(l.path)) || bytes.Contains([]byte(l.path), []byte("\n")) {
				t.Fatalf("%+v", l)
			}
		}
	})
}

// FuzzReflog: of a reflog that is torn, the whole lines are read.
func FuzzReflog(f *testing.F) {
	id := "0123456789012345678901234567890123456789"
	testkit.Seed(f, []byte(id+" "+id+" a <b> 1 +0000\tcommit: x\n"+id+" "+id+" y\n"))
	write := testkit.File(f, "HEAD")
	f.Fuzz(func(t *testing.T, data []byte) {
		var list [][]string
		testkit.Memory(t, len(data), func() { list = lines(write(data)) })
		for _, words := range list {
			if len(words) != 3 || !isID(words[0]) || !isID(words[1]) || !bytes.Contains(data, []byte(words[0]+" "+words[1]+" "+words[2]+"\n")) {
				t.Fatalf("%q", words)
			}
		}
	})
}

// FuzzIndexFile: a file is taken for a sound index only with its digest at its end.
func FuzzIndexFile(f *testing.F) {
	b := newBox(f)
	b.put("a", "1")
	b.commitAll("one")
	r := b.open()
	good, err := os.ReadFile(filepath.Join(b.dir, ".git/index"))
	must(f, err)
	testkit.Seed(f, good)
	write := testkit.File(f, "git/index")
	f.Fuzz(func(t *testing.T, data []byte) {
		at := &Repo{Top: r.Top, GitDir: filepath.Dir(write(data)), git: r.git}
		if !at.sound() {
			return
		}
		sum := at.hash()
		end := len(data) - sum.Size()
		sum.Write(data[:end])
		if !bytes.HasPrefix(data, []byte("DIRC")) || len(bytes.Trim(data[end:], "\x00")) > 0 && !bytes.Equal(sum.Sum(nil), data[end:]) {
			t.Fatalf("%q is taken for an index", data)
		}
	})
}

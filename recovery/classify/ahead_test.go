package classify

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/multiscan"
)

// onlyReader hides that an input can be read at any place.
type onlyReader struct{ io.Reader }

// largeLog mixes logs of all kinds with lines that many patterns match, lines that are
// longer than a block, and colour codes, at random.
func largeLog(t *testing.T, size int, seed uint64) []byte {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 3))
	var examples []string
	for _, h := range embedded(t).Handlers {
		for _, e := range h.Examples {
			examples = append(examples, e.Stdout+"\n"+e.Stderr+"\n")
		}
	}
	var b bytes.Buffer
	for b.Len() < size {
		b.Write(logOf(rnd.IntN(len(logKinds)), rnd.IntN(200_000), rnd.Uint64()))
		for range rnd.IntN(30) {
			e := examples[rnd.IntN(len(examples))]
			if rnd.IntN(4) == 0 {
				e = strings.ReplaceAll(e, "\n", "\r\n")
			}
			b.WriteString(e)
		}
		switch rnd.IntN(6) {
		case 0:
			b.WriteString(strings.Repeat("x \x1b[31m", rnd.IntN(blockSize/4)))
		case 1:
			b.WriteString("\x00" + strings.Repeat("10%\r", rnd.IntN(10_000)))
		}
	}
	b.WriteString(failingTail[:len(failingTail)-rnd.IntN(2)])
	return b.Bytes()
}

// TestAheadLikeStream: what is kept of a large input, to the last detail, is the same
// whether it is read at several places at once or from its beginning to its end.
func TestAheadLikeStream(t *testing.T) {
	t.Parallel()
	if multiscan.Workers() < 2 {
		t.Skip("one core: inputs are read from their beginning to their end")
	}
	c := embeddedClassifier(t)
	sizes := []int{aheadLeast * blockSize, 2<<20 + 12345, 3 << 20}
	if raced {
		sizes = sizes[:1]
	}
	for n, size := range sizes {
		log := largeLog(t, size, uint64(n))
		if n == 0 {
			log = append(log[len(log)-size:len(log)-1], '\n') // exactly as many blocks
		}
		want := c.prog.read(context.Background(), onStdout, onlyReader{bytes.NewReader(log)}, &workspace{})
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, append([]byte("before"), log...), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Seek(int64(len("before")), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		inputs := map[string]io.Reader{"file": f}
		if n == 0 {
			inputs["part"] = io.NewSectionReader(f, int64(len("before")), int64(len(log)))
			inputs["bytes"], inputs["text"] = bytes.NewReader(log), strings.NewReader(string(log))
		}
		for name, r := range inputs {
			got := c.prog.read(context.Background(), onStdout, r, &workspace{})
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%d bytes, %s: %d patterns, %d bytes, %d lines, not %d, %d, %d: %s", len(log), name,
					len(got.hits), got.bytes, got.lines, len(want.hits), want.bytes, want.lines, firstDifference(got, want))
			}
			if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("%s is not at its end: %d, %v", name, n, err)
			}
		}
		if len(want.hits) < 20 || want.bytes != int64(len(log)) {
			t.Errorf("only %d patterns are found: this shows little", len(want.hits))
		}
	}
}

func firstDifference(got, want *output) string {
	for p, list := range want.hits {
		if !reflect.DeepEqual(got.hits[p], list) {
			return fmt.Sprintf("pattern %d:\n got %+v\nwant %+v", p, got.hits[p], list)
		}
	}
	return fmt.Sprintf("end %+v, not %+v; broken %v, not %v", got.end, want.end, got.broken, want.broken)
}

// TestAheadOfAFileThatChanges: a file that is cut or grows while it is read is
// read to the end that it has then.
func TestAheadOfAFileThatChanges(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	log := logOf(3, 3<<20, 5)
	for name, size := range map[string]int{"cut": 2<<20 + 77, "grown": len(log)} {
		first := 4 << 20
		if name == "grown" {
			first = 2 << 20
		}
		r := &changing{Reader: bytes.NewReader(log[:size]), size: int64(first)}
		got := c.prog.read(context.Background(), onStdout, r, &workspace{})
		want := c.prog.read(context.Background(), onStdout, onlyReader{bytes.NewReader(log[:size])}, &workspace{})
		if !reflect.DeepEqual(got, want) || got.broken {
			t.Errorf("%s: %d bytes of %d, %s", name, got.bytes, size, firstDifference(got, want))
		}
	}
}

// changing says that it has another size than there are bytes.
type changing struct {
	*bytes.Reader
	size int64
}

func (c *changing) Size() int64 { return c.size }

// TestAheadIsCancelled: reading ends soon after the context is done, and says
// that something is missing.
func TestAheadIsCancelled(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	log := logOf(3, 4<<20, 5)
	ctx, cancel := context.WithCancel(context.Background())
	r := &cancelling{Reader: bytes.NewReader(log), after: 6, cancel: cancel}
	got := c.prog.read(ctx, onStdout, r, &workspace{})
	if !got.broken || got.bytes >= int64(len(log)) {
		t.Errorf("%d bytes of %d were read, broken: %v", got.bytes, len(log), got.broken)
	}
}

// cancelling cancels the reading when it reaches a block.
type cancelling struct {
	*bytes.Reader
	after  int64
	cancel context.CancelFunc
}

func (c *cancelling) ReadAt(p []byte, at int64) (int, error) {
	if at > c.after*blockSize {
		c.cancel()
	}
	return c.Reader.ReadAt(p, at)
}

func (c *cancelling) Read(p []byte) (int, error) {
	c.cancel()
	return c.Reader.Read(p)
}

package journal

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

// small seals whatever there is, in blocks of a few lines.
func small(head string) Options { return Options{Head: head, SealBeyond: 1, block: 900} }

// sealed is a journal with a head, of so many segments of four events each, and
// of two events more.
func sealed(t testing.TB, n int) (path, head string) {
	t.Helper()
	dir := t.TempDir()
	path, head = filepath.Join(dir, "events.jsonl"), filepath.Join(dir, "head")
	j := mustOpen(t, durable.OS(), path, small(head))
	for i := range n {
		seal(t, j, events(4*i+1, 4)...)
	}
	if _, err := j.Append(true, events(4*n+1, 2)...); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path, head
}

func seal(t testing.TB, j *Journal, evs ...Event) []Event {
	t.Helper()
	evs, err := j.Append(false, evs...)
	if err == nil {
		err = j.Seal()
	}
	if err != nil {
		t.Fatal(err)
	}
	if j.app.Size() != 0 {
		t.Fatal("nothing was sealed")
	}
	return evs
}

// content is what `zcat events.jsonl.segments/*.gz; cat events.jsonl` prints.
func content(t testing.TB, path string) (data []byte) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(Segments(path), "*.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range segments {
		data = append(data, unzipped(t, s)...)
	}
	return append(data, mustRead(t, path)...)
}

func unzipped(t testing.TB, path string) []byte {
	t.Helper()
	gz, err := gzip.NewReader(bytes.NewReader(mustRead(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(gz)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestSegmentsReadAsOneFile: a journal that is sealed and opened again at random
// reads, in every way, as one of the same events that never was.
func TestSegmentsReadAsOneFile(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		if runs++; runs > testkit.Sample(12, 100, 1000) {
			return
		}
		at := filepath.Join(dir, fmt.Sprint(runs))
		if err := os.Mkdir(at, 0o700); err != nil {
			rt.Fatal(err)
		}
		plain, path, head := filepath.Join(at, "plain"), filepath.Join(at, "events.jsonl"), filepath.Join(at, "head")
		one := mustOpen(t, durable.OS(), plain, Options{})
		o := Options{Head: head, SealBeyond: 1, block: int64(rapid.IntRange(1, 5000).Draw(rt, "block"))}
		j := mustOpen(t, durable.OS(), path, o)
		tail := NewTailer(path, 1)
		defer tail.Close()
		var want, followed []Event
		more := func() {
			another, err := tail.More(func(ev Event) error { followed = append(followed, ev); return nil })
			if another || err != nil {
				rt.Fatalf("the follower: another journal %v, %v", another, err)
			}
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				if err := j.Close(); err != nil {
					rt.Fatal(err)
				}
				j = mustOpen(t, durable.OS(), path, o)
			case 1, 2:
				if err := j.Seal(); err != nil {
					rt.Fatal(err)
				}
			case 3:
				more()
			default:
				evs := events(len(want)+1, rapid.IntRange(1, 9).Draw(rt, "events"))
				for i := range evs {
					evs[i].Fields = json.RawMessage(`{"x":"` + strings.Repeat("y", rapid.SampledFrom([]int{0, 1, 300, 5000, 70_000}).Draw(rt, "size")) + `"}`)
				}
				got, err := j.Append(false, evs...)
				if err != nil {
					rt.Fatal(err)
				}
				if _, err := one.Append(false, got...); err != nil {
					rt.Fatal(err)
				}
				want = append(want, got...)
			}
		}
		more()
		if len(want) != len(followed) || len(want) > 0 && !reflect.DeepEqual(followed, want) {
			rt.Fatalf("the follower has %d events of %d", len(followed), len(want))
		}
		if !bytes.Equal(content(t, path), mustRead(t, plain)) {
			rt.Fatal("the bytes differ")
		}
		if a, b := one.end(), j.end(); a != b {
			rt.Fatalf("it ends at %+v, not at %+v", b, a)
		}
		from := int64(rapid.IntRange(-1, len(want)+2).Draw(rt, "from"))
		if a, b := all(t, plain, from), all(t, path, from); !reflect.DeepEqual(a, b) {
			rt.Fatalf("from %d: %d events, want %d", from, len(b), len(a))
		}
		n := rapid.IntRange(0, len(want)+2).Draw(rt, "tail")
		a, err := Tail(plain, n)
		b, err2 := Tail(path, n)
		if err != nil || err2 != nil || !reflect.DeepEqual(a, b) {
			rt.Fatalf("the last %d: %d events, want %d (%v, %v)", n, len(b), len(a), err, err2)
		}
		intact(t, path, int64(len(want)))
		if err := CheckHead(path, head); err != nil {
			rt.Fatal(err)
		}
		one.Close()
		j.Close()
	})
}

// TestFollowAcrossSealings: nothing is missed and nothing comes twice, whether
// the follower is awake or sleeps over several sealings.
func TestFollowAcrossSealings(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	got, stop := following(t, path, 0)
	j := mustOpen(t, durable.OS(), path, small(""))
	next := int64(1)
	for awake := range 20 {
		var want []int64
		for range 1 + awake%4*3 { // it reads no event while it waits to hand one over
			for _, ev := range seal(t, j, events(int(next), 3)...) {
				want = append(want, ev.Seq)
			}
			next += 3
		}
		expect(t, got, want...)
	}
	if err := stop(); err == nil || strings.Contains(err.Error(), "broken") {
		t.Errorf("err is %v", err)
	}
}

// TestSealWaitsForItsSize: below the size nothing is sealed, and an empty file
// is not sealed either.
func TestSealWaitsForItsSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	j := mustOpen(t, durable.OS(), path, Options{SealBeyond: 3000})
	sealings := 0
	for i := range 40 {
		if _, err := j.Append(false, event(i+1)); err != nil {
			t.Fatal(err)
		}
		was := j.app.Size()
		if err := j.Seal(); err != nil {
			t.Fatal(err)
		}
		if is := j.app.Size(); (is == 0) != (was >= 3000) || is != 0 && is != was {
			t.Fatalf("%d bytes were sealed, %d are left", was, is)
		}
		if j.app.Size() == 0 {
			sealings++
		}
		if err := j.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	names, _ := filepath.Glob(filepath.Join(Segments(path), "*"))
	if sealings < 2 || len(names) != sealings {
		t.Errorf("%d sealings, %v", sealings, names)
	}
	for _, name := range append(names, path) {
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(Segments(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	big := mustOpen(t, durable.OS(), filepath.Join(t.TempDir(), "e"), Options{})
	if _, err := big.Append(false, events(1, 100)...); err != nil {
		t.Fatal(err)
	}
	if err := big.Seal(); err != nil || big.app.Size() == 0 {
		t.Errorf("a small journal was sealed: %v", err)
	}
	if err := big.Close(); err != nil {
		t.Fatal(err)
	}
	if err := big.Seal(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed journal: %v", err)
	}
}

// damage are changes of the second of three segments that leave no good segment.
var damage = map[string]func(t *testing.T, seg string, data []byte){
	"removed":        func(t *testing.T, seg string, _ []byte) { must(t, os.Remove(seg)) },
	"empty":          func(t *testing.T, seg string, _ []byte) { mustWrite(t, seg, nil) },
	"truncated":      func(t *testing.T, seg string, data []byte) { mustWrite(t, seg, data[:len(data)-1]) },
	"half":           func(t *testing.T, seg string, data []byte) { mustWrite(t, seg, data[:len(data)/2]) },
	"garbage":        func(t *testing.T, seg string, data []byte) { mustWrite(t, seg, bytes.Repeat([]byte("garbage"), 99)) },
	"one byte more":  func(t *testing.T, seg string, data []byte) { mustWrite(t, seg, append(data, 0)) },
	"twice":          func(t *testing.T, seg string, data []byte) { mustWrite(t, seg, append(bytes.Clone(data), data...)) },
	"a directory":    func(t *testing.T, seg string, _ []byte) { must(t, os.Remove(seg), os.Mkdir(seg, 0o700)) },
	"a FIFO":         func(t *testing.T, seg string, _ []byte) { must(t, os.Remove(seg), syscall.Mkfifo(seg, 0o600)) },
	"a link":         func(t *testing.T, seg string, _ []byte) { must(t, os.Rename(seg, seg+".x"), os.Symlink(seg+".x", seg)) },
	"not compressed": func(t *testing.T, seg string, data []byte) { mustWrite(t, seg, unzipped(t, seg)) },
	"the first one": func(t *testing.T, seg string, _ []byte) {
		mustWrite(t, seg, mustRead(t, segmentPath(strings.TrimSuffix(filepath.Dir(seg), ".segments"), 1)))
	},
	"the third one": func(t *testing.T, seg string, _ []byte) {
		must(t, os.Rename(segmentPath(strings.TrimSuffix(filepath.Dir(seg), ".segments"), 3), seg))
	},
	"swapped with the third one": func(t *testing.T, seg string, data []byte) {
		third := segmentPath(strings.TrimSuffix(filepath.Dir(seg), ".segments"), 3)
		must(t, os.Rename(third, seg))
		mustWrite(t, third, data)
	},
	"without its last block": func(t *testing.T, seg string, data []byte) {
		blocks, err := readBlocks(bytes.NewReader(data), int64(len(data)))
		must(t, err)
		mustWrite(t, seg, data[:blocks[len(blocks)-1].at])
	},
	"without its first block": func(t *testing.T, seg string, data []byte) {
		blocks, err := readBlocks(bytes.NewReader(data), int64(len(data)))
		must(t, err)
		mustWrite(t, seg, data[blocks[1].at:])
	},
	"of changed lines": func(t *testing.T, seg string, data []byte) {
		rewritten(t, seg, data, func(line []byte) []byte { return bytes.Replace(line, []byte("152"), []byte("153"), 1) })
	},
	"of longer lines": func(t *testing.T, seg string, data []byte) {
		rewritten(t, seg, data, func(line []byte) []byte { return bytes.Replace(line, []byte("152"), []byte("1520"), 1) })
	},
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// rewritten packs changed lines, under headers that fit the places of the old ones.
func rewritten(t *testing.T, seg string, data []byte, change func([]byte) []byte) {
	t.Helper()
	blocks, err := readBlocks(bytes.NewReader(data), int64(len(data)))
	must(t, err)
	var out []byte
	for _, b := range blocks {
		in, err := b.lines(bytes.NewReader(data))
		must(t, err)
		text, err := io.ReadAll(in)
		must(t, err)
		var buf bytes.Buffer
		gz, err := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
		must(t, err)
		gz.Extra = b.header()[headSize-extraSize:]
		for line := range bytes.Lines(text) {
			_, err := gz.Write(change(line))
			must(t, err)
		}
		must(t, gz.Close())
		b.size = int64(buf.Len())
		copy(buf.Bytes(), b.header())
		out = append(out, buf.Bytes()...)
	}
	mustWrite(t, seg, out)
}

// TestDamagedSegments: whatever a segment is instead of itself, everybody says
// so, names a file and the next step, and changes nothing.
func TestDamagedSegments(t *testing.T) {
	t.Parallel()
	for name, change := range damage {
		t.Run(name, func(t *testing.T) {
			for _, known := range []bool{true, false} {
				path, head := sealed(t, 3)
				if !known {
					must(t, os.Remove(knownPath(head)))
				}
				seg := segmentPath(path, 2)
				change(t, seg, mustRead(t, seg))
				before := tree(t, filepath.Dir(path))
				rep, err := Verify(path)
				if err != nil || rep.FirstBad == nil || rep.FirstBad.Torn {
					t.Fatalf("Verify: %+v, %v", rep, err)
				}
				_, opened := Open(durable.OS(), path, small(head))
				for _, err := range []error{rep.FirstBad, opened} {
					if err == nil || !strings.Contains(err.Error(), Segments(path)) || !strings.Contains(err.Error(), "superloop events --verify") {
						if tampered, ok := errors.AsType[*TamperedError](err); !ok || !strings.Contains(tampered.Error(), "superloop events --verify") {
							t.Errorf("%v", err)
						}
					}
				}
				if after := tree(t, filepath.Dir(path)); !reflect.DeepEqual(before, after) {
					t.Errorf("files changed: %v, %v", before, after)
				}
				n := 0
				err = Read(path, 0, func(ev Event) error {
					if n++; ev.Seq != int64(n) {
						t.Fatalf("event %d has the number %d", n, ev.Seq)
					}
					return nil
				})
				// Read computes no hashes, as without segments.
				if _, corrupt := errors.AsType[*CorruptError](err); !corrupt && name != "of changed lines" {
					t.Errorf("Read gives %d events, %v", n, err)
				}
			}
		})
	}
}

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		files[path] = e.Type().String()
		if e.Type().IsRegular() {
			files[path] = string(mustRead(t, path))
		}
		return err
	}))
	return files
}

// TestEveryByteOfASegment changes each byte of a segment: it is found, or it is
// one that says nothing, and the lines are the same.
func TestEveryByteOfASegment(t *testing.T) {
	t.Parallel()
	path, head := sealed(t, 2)
	seg := segmentPath(path, 1)
	data, want := mustRead(t, seg), all(t, path, 0)
	silent := 0
	for i, was := range data {
		if i%testkit.Sample(3, 1, 1) != 0 {
			continue
		}
		data[i] ^= 1 << (i % 8)
		mustWrite(t, seg, data)
		data[i] = was
		rep, err := Verify(path)
		if err != nil || rep.FirstBad != nil && (rep.FirstBad.Torn || filepath.Dir(rep.FirstBad.Path) != Segments(path)) {
			t.Fatalf("byte %d: %+v, %v", i, rep.FirstBad, err)
		}
		j, err := Open(durable.OS(), path, small(head))
		if (err == nil) != (rep.FirstBad == nil) {
			t.Fatalf("byte %d: Verify found %v, Open %v", i, rep.FirstBad, err)
		}
		if err == nil {
			j.Close()
			if silent++; !reflect.DeepEqual(all(t, path, 0), want) {
				t.Fatalf("byte %d: nobody found that the events are others", i)
			}
		}
	}
	if silent > len(data)/100 {
		t.Errorf("%d bytes of %d say nothing", silent, len(data))
	}
}

// TestTheHeadFindsTamperedSegments: what the chain cannot show, the head does.
func TestTheHeadFindsTamperedSegments(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, path string){
		"the last segment and the file are cut": func(t *testing.T, path string) {
			must(t, os.Remove(segmentPath(path, 3)))
			mustWrite(t, path, nil)
		},
		"all segments are gone": func(t *testing.T, path string) { must(t, os.RemoveAll(Segments(path))) },
		"the file is gone":      func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"the file is empty":     func(t *testing.T, path string) { mustWrite(t, path, nil) },
		"everything is another": func(t *testing.T, path string) {
			other := filepath.Join(t.TempDir(), "events.jsonl")
			j := mustOpen(t, durable.OS(), other, small(""))
			for i := range 3 {
				seal(t, j, events(4*i+2, 4)...)
			}
			if _, err := j.Append(false, events(14, 2)...); err != nil {
				t.Fatal(err)
			}
			for n := range 3 {
				mustWrite(t, segmentPath(path, n+1), mustRead(t, segmentPath(other, n+1)))
			}
			mustWrite(t, path, mustRead(t, other))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, head := sealed(t, 3)
			change(t, path)
			tampered(t, path, head, 14)
		})
	}
	// The head may name a line that was sealed since.
	path, head := sealed(t, 3)
	old := mustRead(t, head)
	j := mustOpen(t, durable.OS(), path, small(head))
	seal(t, j, events(15, 4)...)
	must(t, j.Close())
	mustWrite(t, head, old)
	must(t, CheckHead(path, head))
	seg := segmentPath(path, 4)
	data := mustRead(t, seg)
	mustWrite(t, seg, data[:len(data)-9])
	if err := CheckHead(path, head); err == nil || !strings.Contains(err.Error(), seg) {
		t.Errorf("err is %v", err)
	}
	mustWrite(t, seg, data)
	must(t, mustOpen(t, durable.OS(), path, small(head)).Close())
}

// TestWhatIsKnownIsNotCheckedAgain: the digest of the files stands for a look at
// their lines, and only the same files have it.
func TestWhatIsKnownIsNotCheckedAgain(t *testing.T) {
	t.Parallel()
	path, head := sealed(t, 3)
	k := readKnown(head)
	l, err := openFiles(path)
	must(t, err)
	defer l.close()
	if k.Segments != 3 || !k.fits(l) {
		t.Fatalf("%+v does not fit", k)
	}
	seg := segmentPath(path, 2)
	data := mustRead(t, seg)
	rewritten(t, seg, data, func(line []byte) []byte { return bytes.Replace(line, []byte("152"), []byte("153"), 1) })
	if k.fits(l) {
		t.Error("another file has the same digest")
	}
	if s, err := l.check(3); err != nil || s.bad != nil || s.seq != 14 {
		t.Errorf("what is known was checked: %+v, %v", s, err)
	}
	if s, err := l.check(0); err != nil || s.bad == nil || s.bad.Path != seg || s.bad.Seq != 5 {
		t.Errorf("what is not known was not checked: %+v, %v", s.bad, err)
	}
	// The same lines in other files are the same journal.
	rewritten(t, seg, data, func(line []byte) []byte { return line })
	for _, content := range []string{"", "{", `{"version":1,"segments":9,"digest":"x"}`, `{"version":1,"segments":-1}`, `{"version":1,"segments":2,"digest":"` + k.Digest + `"}`} {
		mustWrite(t, knownPath(head), []byte(content))
		must(t, mustOpen(t, durable.OS(), path, small(head)).Close())
		if got := readKnown(head); got.Segments != 3 {
			t.Errorf("after %q %+v is known", content, got)
		}
	}
}

// TestAnInterruptedSealing: a segment whose lines are still in the file counts
// nothing, for readers and for the next writer.
func TestAnInterruptedSealing(t *testing.T) {
	t.Parallel()
	path, head := sealed(t, 2)
	want, file := all(t, path, 0), mustRead(t, path)
	j := mustOpen(t, durable.OS(), path, small(head))
	must(t, j.Seal(), j.Close())
	mustWrite(t, path, file)
	mustWrite(t, filepath.Join(Segments(path), ".000003.gz.tmp-123"), []byte("half a segm"))
	if got := all(t, path, 0); !reflect.DeepEqual(got, want) {
		t.Errorf("%d events, want %d", len(got), len(want))
	}
	intact(t, path, 10)
	must(t, CheckHead(path, head))
	j = mustOpen(t, durable.OS(), path, small(head))
	if j.LastSeq() != 10 {
		t.Errorf("it ends at %d", j.LastSeq())
	}
	if entries, err := os.ReadDir(Segments(path)); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	must(t, j.Seal(), j.Close())
	intact(t, path, 10)
	if got := all(t, path, 0); !reflect.DeepEqual(got, want) {
		t.Errorf("%d events, want %d", len(got), len(want))
	}
	// A segment of other lines than those of the file was not made by a sealing.
	mustWrite(t, path, file[:bytes.IndexByte(file, '\n')+1])
	if _, err := Open(durable.OS(), path, small("")); err == nil || !strings.Contains(err.Error(), segmentPath(path, 3)) {
		t.Errorf("err is %v", err)
	}
}

// TestReadersNeedFewBlocks: an event in the middle of many is found by its block,
// and the segments that do not hold it are not decompressed.
func TestReadersNeedFewBlocks(t *testing.T) {
	t.Parallel()
	path, _ := sealed(t, 6)
	seg := segmentPath(path, 2)
	data := mustRead(t, seg)
	blocks, err := readBlocks(bytes.NewReader(data), int64(len(data)))
	must(t, err)
	data[blocks[0].at+int64(headSize)+3] ^= 0x55 // in what is compressed
	mustWrite(t, seg, data)
	if err := Read(path, 5, func(Event) error { return nil }); err == nil {
		t.Fatal("the damage is not seen")
	}
	for _, from := range []int64{blocks[1].first, 9, 20, 26} {
		if got := all(t, path, from); int64(len(got)) != 26-from+1 {
			t.Errorf("from %d: %d events", from, len(got))
		}
	}
	if got, err := Tail(path, 16); err != nil || len(got) != 16 {
		t.Errorf("%d events, %v", len(got), err)
	}
}

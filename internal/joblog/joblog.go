// Package joblog takes apart the output of several jobs that run at the same time.
//
// Tools such as docker compose, turbo, pnpm -r, concurrently, foreman and GNU parallel write the output of all jobs
// into one stream. They begin each line with the name of its job; a CI system begins it with the time. A Reader removes
// what stands before the lines, and puts the lines of a job together. So the text reads as if the job had run alone.
//
// The Reader learns from the first 256 KiB of a stream which prefixes it has. A stream without prefixes passes
// unchanged.
package joblog

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

const (
	blockSize = 256 << 10 // bytes of the stream in which the lines of a job are put together
	keptTurns = 8         // last blocks whose order of lines is known
)

// Reader reads a stream without the prefixes of its lines. It is not safe for concurrent use. Its memory does not
// depend on the size of the stream.
type Reader struct {
	r       io.Reader
	buf     []byte // raw bytes that were read and not taken
	ready   []byte // bytes that Read returns next
	err     error
	layers  []layer // the prefixes of a line, the outer first; empty: the stream passes unchanged
	learned bool
	inLine  bool // the next bytes belong to a line that is longer than a block
	bytes   int64
	lines   int64 // lines in the blocks before
	turns   []turn
}

// turn is the order in which a block was returned: line first+i of the text was line first+from[i] of the stream.
type turn struct {
	first int64
	from  []int32
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Bytes returns the number of bytes that were read from the stream so far.
func (r *Reader) Bytes() int64 { return r.bytes }

// Line returns the number in the stream of line n of the text, both from 1. The order of lines is known for the last
// 2 MiB that were read; Line returns n for a line before them.
func (r *Reader) Line(n int64) int64 {
	for _, t := range r.turns {
		if i := n - 1 - t.first; i >= 0 && i < int64(len(t.from)) {
			return t.first + int64(t.from[i]) + 1
		}
	}
	return n
}

// Read returns the next bytes of the text. Its error is that of the stream.
func (r *Reader) Read(p []byte) (int, error) {
	if r.learned && len(r.layers) == 0 && len(r.ready) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		n, err := r.r.Read(p)
		r.bytes += int64(n)
		return n, err
	}
	for len(r.ready) == 0 {
		if r.err != nil && len(r.buf) == 0 {
			return 0, r.err
		}
		r.next()
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// next reads a block, up to its last line end, and makes it ready.
func (r *Reader) next() {
	if r.buf == nil {
		r.buf = make([]byte, 0, blockSize)
	}
	for r.err == nil && len(r.buf) < blockSize {
		n, err := r.r.Read(r.buf[len(r.buf):blockSize])
		r.buf = r.buf[:len(r.buf)+n]
		r.bytes += int64(n)
		r.err = err
	}
	if !r.learned {
		r.learned = true
		for _, f := range learn(r.buf) {
			r.layers = append(r.layers, layer{form: f})
		}
	}
	end := len(r.buf)
	if r.err == nil || !errors.Is(r.err, io.EOF) {
		if i := bytes.LastIndexByte(r.buf, '\n'); i >= 0 {
			end = i + 1
		}
	}
	block := r.buf[:end]
	if len(r.layers) == 0 {
		r.ready, r.buf = r.buf, nil // the rest of the stream passes through Read
		return
	}
	r.ready = r.ready[:0]
	if r.inLine { // the rest of a line that is longer than a block
		i := bytes.IndexByte(block, '\n') + 1
		if i == 0 {
			i = len(block)
		} else {
			r.lines++
		}
		r.ready = append(r.ready, block[:i]...)
		block = block[i:]
	}
	r.inLine = end > 0 && r.buf[end-1] != '\n'
	r.ready = r.arrange(r.ready, block)
	r.buf = append(r.buf[:0], r.buf[end:]...)
}

// arrange appends the lines of a block to out, without their prefixes, the lines of a job together.
func (r *Reader) arrange(out, block []byte) []byte {
	type job struct {
		name   string
		lines  [][]byte
		from   []int32
		failed bool
	}
	var jobs []*job
	byName := map[string]*job{}
	n := int32(0)
	for line := range bytes.Lines(block) {
		name, text := r.split(line)
		j := byName[name]
		if j == nil {
			j = &job{name: name}
			byName[name] = j
			jobs = append(jobs, j)
		}
		j.lines, j.from = append(j.lines, text), append(j.from, n)
		j.failed = j.failed || failedLine(text)
		n++
	}
	// The end of an output says most about the failure. So the jobs that failed come after the others, and after them
	// what the driver of the jobs says itself.
	rank := func(j *job) int {
		switch {
		case j.name == "":
			return 2
		case j.failed:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(jobs, func(a, b *job) int { return rank(a) - rank(b) })
	t := turn{first: r.lines, from: make([]int32, 0, n)}
	for _, j := range jobs {
		for _, l := range j.lines {
			out = append(out, l...)
			if l[len(l)-1] != '\n' && len(out) > 0 {
				out = append(out, '\n') // the last line of the stream may now stand before others
			}
		}
		t.from = append(t.from, j.from...)
	}
	if len(block) > 0 && block[len(block)-1] != '\n' && len(out) > 0 {
		out = out[:len(out)-1]
	}
	r.lines += int64(n)
	if r.turns = append(r.turns, t); len(r.turns) > keptTurns {
		r.turns = r.turns[1:]
	}
	return out
}

// layer is a form of the prefixes of a stream, with some prefixes that lines of it have.
type layer struct {
	form
	known []known // at most maxKnown
}

// known is a prefix and the job that it names.
type known struct {
	prefix []byte
	job    string
}

const maxKnown = 8

// take is match. A line that begins as another one did, digits of a time aside, has a prefix of the same length, and most
// lines do. So the expressions, which cost more than all else of a line, are not tried on it.
func (l *layer) take(line []byte) (job string, size int) {
	for _, k := range l.known {
		if n := len(k.prefix); k.job == "" && alike(line, k.prefix) || k.job != "" && bytes.HasPrefix(line, k.prefix) {
			return k.job, n
		}
	}
	job, size = l.match(line)
	if size > 0 && !l.open && isBlank(line[size-1]) && len(l.known) < maxKnown {
		l.known = append(l.known, known{bytes.Clone(line[:size]), job})
	}
	return job, size
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// alike reports whether a line begins with a prefix, whatever the digits of both are.
func alike(line, prefix []byte) bool {
	if len(line) < len(prefix) {
		return false
	}
	for i, b := range prefix {
		if line[i] != b && !(isDigit(b) && isDigit(line[i])) {
			return false
		}
	}
	return true
}

// split returns the job of a line, "" if the line names none, and the line without its prefixes.
func (r *Reader) split(line []byte) (job string, rest []byte) {
	rest = uncoloured(line)
	for i := range r.layers {
		name, size := r.layers[i].take(rest)
		if size == 0 {
			continue
		}
		job += name
		rest = rest[size:]
	}
	if len(rest) == 0 {
		rest = line[len(line)-1:]
	}
	return job, rest
}

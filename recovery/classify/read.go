package classify

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/superloop/superloop/internal/joblog"
	"github.com/superloop/superloop/internal/multiscan"
	"github.com/superloop/superloop/internal/text"
)

// The bounds on the parts of a stream that the classifier keeps in memory. The stream may have any size.
const (
	blockSize  = 256 << 10 // bytes of one read
	backSize   = 32 << 10  // bytes kept before a block, in which a line's voice and place are searched
	aheadSize  = 4 << 10   // bytes after a line that must be read before the line is placed
	keptFirst  = 6         // the first hits of a pattern that are kept
	keptLast   = 2         // the last hits of a pattern that are kept
	keptPlaces = 3         // the first hits of a pattern whose place in the code is searched
	maxText    = 1 << 10   // bytes of a kept line
	maxNames   = 64        // hits of a pattern whose captures test and file are kept
	maxSaved   = 64        // saved surroundings of hits, of 20 KiB each
	maxPlaced  = 2048      // hits of one stream that are placed
	tailLines  = 400       // last lines of a stream, in which the summary is searched
	maxReport  = 20_000    // last lines of a stream, in which reports of tests are searched
	contextLen = 300       // bytes read of a line around a hit
)

// hit is one line that a pattern matched.
type hit struct {
	stream   streamSet
	line     int64 // in the text without prefixes, the lines of a job together
	origin   int64 // in the stream
	offset   int64
	text     string
	captures map[string]string
	of       *failure // the failed test that the line ended
	quoted   bool     // the match stands between quotation marks
	topic    bool     // the line says something of the quotation
	placed
}

// output holds the findings in one stream.
type output struct {
	name   streamSet
	hits   map[int][]hit // by pattern, at most keptFirst+keptLast
	count  map[int]int
	named  map[string]bool // values of the captures test and file, for the signature
	bytes  int64
	lines  int64
	broken bool // the stream broke off, or the scanner skipped a part of it
	end    summary
	tail   []string // the last lines, at most tailLines, cleaned
	window []string // the last lines, in which reports of tests are searched
	src    *joblog.Reader
}

// reading is the state of one stream that is being read.
type reading struct {
	p       *program
	out     *output
	window  []byte // the last block that was read, with up to backSize bytes before it
	base    int64  // offset of window[0] in the stream
	pending []spot
	ending  bool             // the stream has ended, and the scanner reports its last, delayed hits
	looks   int              // number of hits placed so far, at most maxPlaced
	known   map[int64]placed // by line number: results for lines that another pattern may match, too
	saved   map[slot]*surrounding
}

// placed holds the voice of a line and the place in the code that it is about, as the lines around it show them.
type placed struct {
	voice    voice
	file     string // the path of a file of the code, "" if no line around names one
	fileLine int
	located  bool // true: the file was searched, whether it was found or not
	checked  bool // the line belongs to the message of a checker about a place in the code
}

// spot is a hit that waits for the lines after it.
type spot struct {
	pattern, index int
	offset         int64
	line           int64
}

// read scans one stream to its end in constant memory. buf holds backSize+blockSize bytes.
func (p *program) read(ctx context.Context, name streamSet, r io.Reader, sc *multiscan.Scanner, buf []byte) *output {
	out := &output{name: name, hits: map[int][]hit{}, count: map[int]int{}, named: map[string]bool{}}
	if r == nil {
		return out
	}
	out.src = joblog.NewReader(r)
	r = out.src
	rd := &reading{p: p, out: out, known: map[int64]placed{}, saved: map[slot]*surrounding{}}
	sc.Reset(rd.found)
	kept, seen := 0, int64(0) // bytes before the next block in buf, and in the text so far
	for {
		n, err := fill(r, buf[kept:kept+blockSize])
		if n > 0 {
			rd.window = buf[:kept+n]
			rd.base = seen - int64(kept)
			seen += int64(n)
			out.broken = out.broken || unseen(rd.window)
			_, _ = sc.Write(buf[kept : kept+n]) // Write and Close of a Scanner never fail
			rd.place(false)
			if err == nil && ctx.Err() == nil {
				kept = copy(buf, rd.window[max(0, len(rd.window)-backSize):])
				continue
			}
		}
		if err == nil {
			err = ctx.Err()
		}
		out.broken = out.broken || !errors.Is(err, io.EOF)
		break
	}
	rd.ending = true
	_ = sc.Close()
	rd.place(true)
	st := sc.Stats()
	out.lines, out.bytes = st.Lines, out.src.Bytes()
	out.broken = out.broken || st.Skipped > 0
	out.window = cleanLines(rd.window, maxReport, true)
	out.tail = out.window[max(0, len(out.window)-tailLines):]
	out.end = lastSummary(out.tail)
	out.end.line += out.lines - int64(len(out.tail))
	return out
}

var newline = []byte("\n")

// fill reads until the buffer is full or a read returns an error.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = r.Read(buf[n:])
		n += m
	}
	return n, err
}

// found keeps a hit. The scanner calls it in the order of the lines.
func (rd *reading) found(h multiscan.Hit) {
	out := rd.out
	if rd.ending && h.Offset < rd.base && out.count[h.Pattern] > 0 {
		return // the lines around this hit have left the window, and the pattern has earlier hits
	}
	out.count[h.Pattern]++
	list := out.hits[h.Pattern]
	at := len(list)
	if at >= keptFirst+keptLast {
		at = keptFirst + out.count[h.Pattern]%keptLast
	}
	k := hit{stream: out.name, line: h.Line, origin: out.src.Line(h.Line), offset: h.Offset, text: excerpt(h.Text, h.Loc)}
	k.quoted, k.topic = inQuotes(h.Text, h.Loc)
	k.captures = rd.p.captures(h)
	if out.count[h.Pattern] <= maxNames {
		for _, n := range []string{"test", "file"} {
			if v := k.captures[n]; v != "" {
				out.named[v] = true
			}
		}
	}
	if at == len(list) {
		out.hits[h.Pattern] = append(list, k)
	} else {
		list[at] = k
	}
	rd.pending = append(rd.pending, spot{pattern: h.Pattern, index: at, offset: h.Offset, line: h.Line})
}

// captures returns the named groups of a hit that are not empty, or nil.
func (p *program) captures(h multiscan.Hit) (all map[string]string) {
	names := p.set.Names(h.Pattern)
	for i := 1; i < len(names) && 2*i+1 < len(h.Loc); i++ {
		if names[i] == "" || h.Loc[2*i] < 0 || h.Loc[2*i] == h.Loc[2*i+1] {
			continue
		}
		if all == nil {
			all = make(map[string]string, len(names))
		}
		text := h.Text[h.Loc[2*i]:h.Loc[2*i+1]]
		all[names[i]] = string(text[:min(len(text), maxText)])
	}
	return all
}

// excerpt returns at most maxText bytes of a line around the match.
func excerpt(text []byte, loc []int) string {
	if len(text) <= maxText {
		return string(text)
	}
	from := 0
	if len(loc) > 0 {
		from = max(0, loc[0]-maxText/4)
	}
	from = min(from, len(text)-maxText)
	return strings.ToValidUTF8(string(text[from:from+maxText]), "")
}

// cleanLines splits a piece of output into cleaned lines. It returns at most limit of them: the last ones if last is
// true, else the first ones.
func cleanLines(b []byte, limit int, last bool) []string {
	if len(b) == 0 {
		return nil
	}
	all := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if last {
		all = all[max(0, len(all)-limit):]
	}
	all = all[:min(len(all), limit)]
	for i, l := range all {
		all[i] = cleanLine(l)
	}
	return all
}

// cleanLine removes control sequences and the text that a carriage return overwrote. It returns at most contextLen
// bytes.
func cleanLine(l string) string {
	l = strings.TrimRight(l, "\r")
	if i := strings.LastIndexByte(l, '\r'); i >= 0 {
		l = l[i+1:]
	}
	l = l[:min(len(l), 4*contextLen)]
	l = text.Uncoloured(l)
	return strings.ToValidUTF8(l[:min(len(l), contextLen)], "")
}

// place finds the voice and the place of the pending hits that have at least aheadSize bytes after them. If final is
// true, the stream has ended, and place handles all pending and saved hits.
func (rd *reading) place(final bool) {
	end := rd.base + int64(len(rd.window))
	rest := rd.pending[:0]
	for _, p := range rd.pending {
		list := rd.out.hits[p.pattern]
		if list[p.index].line != p.line {
			continue // a later hit has replaced this one
		}
		if !final && p.offset+aheadSize > end {
			rest = append(rest, p)
			continue
		}
		k := &list[p.index]
		at, known := rd.known[p.line]
		if known && (at.located || p.index >= keptPlaces) {
			k.placed = at
			continue
		}
		from := p.offset - rd.base
		if from < 0 || from > int64(len(rd.window)) || rd.looks >= maxPlaced {
			continue // the line begins outside the window, or maxPlaced is reached: the hit keeps no place
		}
		rd.looks++
		back := rd.window[max(0, from-backSize/2):from]
		_, after, _ := bytes.Cut(rd.window[from:], newline)
		after = after[:min(len(after), aheadSize)]
		if !final && p.index >= keptFirst && rd.save(p, back, after) {
			continue
		}
		rd.know(k, p, back, after)
	}
	rd.pending = rest
	if final {
		for key, s := range rd.saved {
			if k := &rd.out.hits[key.pattern][key.index]; k.line == s.spot.line {
				rd.know(k, s.spot, s.text[:s.back], s.text[s.back:])
			}
		}
	}
}

// slot is a position among the last kept hits of a pattern. A later hit replaces the hit in it.
type slot struct{ pattern, index int }

// surrounding holds the text around a hit in a slot. place looks at it after the end of the stream, when no later hit
// can replace the hit any more.
type surrounding struct {
	spot spot
	text []byte
	back int // the first back bytes of text stand before the hit, the rest after it
}

// save keeps the text around a hit until the end of the stream. It returns false if maxSaved texts are kept already.
func (rd *reading) save(p spot, back, after []byte) bool {
	key := slot{p.pattern, p.index}
	c := rd.saved[key]
	if c == nil {
		if len(rd.saved) >= maxSaved {
			return false
		}
		c = &surrounding{}
		rd.saved[key] = c
	}
	c.spot, c.back = p, len(back)
	c.text = append(append(c.text[:0], back...), after...)
	return true
}

// know finds the voice and the place of a hit from the text around it, and notes them for other hits in the same line.
func (rd *reading) know(k *hit, p spot, back, after []byte) {
	at, known := rd.known[p.line]
	before := cleanLines(back, lookFirst, true)
	next := cleanLines(after, 60, false)
	if !known {
		line := k.text
		if len(line) > contextLen {
			line = line[:contextLen]
		}
		said, decided := speaker(before, line, next)
		if !decided && len(before) == lookFirst {
			said, _ = speaker(cleanLines(back, lookBack, true), line, next)
		}
		at.voice, at.checked = said, checked(before, line)
	}
	if p.index < keptPlaces {
		at.file, at.fileLine = codePlace(k.text, before, next)
		at.located = true
	}
	k.placed, rd.known[p.line] = at, at
}

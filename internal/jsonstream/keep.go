package jsonstream

import (
	"sort"
	"strconv"
)

const (
	maxValues = 1024    // of a want, in a line
	maxKept   = 4 << 20 // bytes of values, in a line
)

// keeper holds the wanted values of the line. Positions are bytes from the
// line's begin.
type keeper struct {
	open []capture // values that are no strings and have begun, the outermost first
	raw  []byte    // bytes of the line that open ones need from earlier chunks
	at   int64     // position of raw

	seq     int     // values that have begun
	list    []Value // those that are complete
	seqs    []int   // of list: which that began it is
	jumbled bool    // seqs does not rise
	bytes   []byte  // where list's values are
	keys    []string
	counts  []int // values of each want
	last    []int // per want that has too many: 1 + the index in list of its last one
	dropped int

	names names
}

// capture is a value that has begun.
type capture struct {
	begin int64
	seq   int
	node  int
	depth int // of containers around it
}

// found is a value that is complete, but for its bytes and keys.
type found struct {
	want int
	seq  int
	kind byte
	cut  int64
}

func (k *keeper) clear() {
	if k.seq == 0 {
		return
	}
	for i := range k.list {
		k.counts[k.list[i].Want] = 0
	}
	k.open, k.raw, k.list, k.seqs = k.open[:0], k.raw[:0], k.list[:0], k.seqs[:0]
	k.bytes, k.keys = k.bytes[:0], k.keys[:0]
	k.seq, k.dropped, k.jumbled, k.last = 0, 0, false, nil
}

// next numbers a value that begins.
func (k *keeper) next() int {
	k.seq++
	return k.seq
}

// begin notes that a value that is no string begins.
func (k *keeper) begin(node, depth int, pos int64) {
	k.open = append(k.open, capture{pos, k.next(), node, depth})
}

// ends says whether the innermost open value is the one with depth containers
// around it.
func (k *keeper) ends(depth int) bool {
	n := len(k.open)
	return n > 0 && k.open[n-1].depth == depth
}

// save copies what open values need of a chunk that is used up. off is the
// chunk's position.
func (k *keeper) save(s *Shape, p []byte, off int64) {
	end := off + int64(len(p))
	for _, c := range k.open {
		if end-c.begin > int64(s.nodes[c.node].max) {
			continue // too long already
		}
		if c.begin >= off || len(k.raw) == 0 {
			k.raw, k.at = k.raw[:0], c.begin
		}
		k.fill(p, off, end)
		return
	}
}

// fill extends raw up to the position end.
func (k *keeper) fill(p []byte, off, end int64) {
	from := k.at + int64(len(k.raw)) - off
	k.raw = append(k.raw, p[from:end-off]...)
}

// finish takes the innermost open value, which ends at the position end; its
// JSON, or nil if it is too long.
func (k *keeper) finish(s *Shape, p []byte, off, end int64) (c capture, raw []byte) {
	c = k.open[len(k.open)-1]
	k.open = k.open[:len(k.open)-1]
	switch {
	case end-c.begin > int64(s.nodes[c.node].max):
		return c, nil
	case c.begin >= off:
		return c, p[c.begin-off : end-off]
	default:
		k.fill(p, off, end)
		return c, k.raw[c.begin-k.at:]
	}
}

// add stores a complete value: a copy of raw and more, and what the "*" at the
// depths stars matched. What is stored stays where it is while bytes and keys
// grow.
func (k *keeper) add(f found, raw, more []byte, stars []int, levels []level) {
	k.counts[f.want]++
	if k.counts[f.want] >= maxValues || len(k.bytes)+len(raw)+len(more) > maxKept {
		k.addLast(f, raw, more, stars, levels)
		return
	}
	v := k.push(f)
	if len(stars) > 0 {
		first := len(k.keys)
		for _, depth := range stars {
			k.keys = append(k.keys, k.key(&levels[depth]))
		}
		v.Keys = k.keys[first:len(k.keys):len(k.keys)]
	}
	if n := len(raw) + len(more); n > 0 {
		at := len(k.bytes)
		k.bytes = append(append(k.bytes, raw...), more...)
		v.Raw = k.bytes[at : at+n : at+n]
	}
}

func (k *keeper) push(f found) *Value {
	n := len(k.list)
	if n > 0 && k.seqs[n-1] > f.seq {
		k.jumbled = true
	}
	k.seqs = append(k.seqs, f.seq)
	k.list = append(k.list, Value{Want: f.want, Type: f.kind, Cut: f.cut})
	return &k.list[n]
}

// addLast stores a value of a want that has too many: in the place of the one
// that was stored so before.
func (k *keeper) addLast(f found, raw, more []byte, stars []int, levels []level) {
	if k.last == nil {
		k.last = make([]int, len(k.counts))
	}
	var v *Value
	if at := k.last[f.want] - 1; at >= 0 {
		v = &k.list[at]
		v.Type, v.Cut, k.seqs[at] = f.kind, f.cut, f.seq
		k.jumbled = true
		k.dropped++
	} else {
		v = k.push(f)
		k.last[f.want] = len(k.list)
	}
	v.Keys, v.Raw = v.Keys[:0], append(append(v.Raw[:0], raw...), more...)
	for _, depth := range stars {
		v.Keys = append(v.Keys, k.key(&levels[depth]))
	}
}

// key is what a "*" matches in l.
func (k *keeper) key(l *level) string {
	if l.array {
		return strconv.Itoa(l.index)
	}
	return k.names.text(l.key)
}

// values gives what was stored in the order in which it began.
func (k *keeper) values() []Value {
	if k.jumbled {
		sort.Sort((*bySeq)(k))
	}
	return k.list
}

type bySeq keeper

func (k *bySeq) Len() int { return len(k.list) }
func (k *bySeq) Less(i, j int) bool {
	return k.seqs[i] < k.seqs[j] || k.seqs[i] == k.seqs[j] && k.list[i].Want < k.list[j].Want
}
func (k *bySeq) Swap(i, j int) {
	k.list[i], k.list[j] = k.list[j], k.list[i]
	k.seqs[i], k.seqs[j] = k.seqs[j], k.seqs[i]
}

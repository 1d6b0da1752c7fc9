package jsonstream

import "unicode/utf8"

const maxKeyKept = 2 * maxKeyLen // bytes of a key

// open begins a container, behind its bracket.
func (r *Reader) open(array bool) {
	if r.depth == maxDepth {
		r.state = stBroken
		return
	}
	d := r.depth
	r.depth++
	if r.inArray = array; array {
		r.arrays[d/64] |= 1 << (d % 64)
	} else {
		r.arrays[d/64] &^= 1 << (d % 64)
	}
	r.node = 0
	n := &r.shape.nodes[r.next]
	if n.inner {
		r.node = r.next
	}
	if d < len(r.levels) {
		l := &r.levels[d]
		l.node, l.index, l.array = r.node, 0, array
	}
	r.state, r.next = stFirstKey, 0
	if array {
		r.state, r.next = stFirst, n.any
	}
}

// close ends the innermost container at its bracket, p[i].
func (r *Reader) close(p []byte, i int) int {
	i++
	r.depth--
	if r.keep.ends(r.depth) {
		kind := byte('o')
		if r.inArray {
			kind = 'a'
		}
		r.finish(p, i, kind)
	}
	d := r.depth - 1
	if d < 0 {
		r.state = stEnd
		return i
	}
	r.state = stNext
	r.inArray = r.arrays[d/64]>>(d%64)&1 == 1
	r.node = 0
	if d < len(r.levels) {
		r.node = r.levels[d].node
	}
	return i
}

// endValue goes on behind a value.
func (r *Reader) endValue() {
	r.state = stNext
	if r.depth == 0 {
		r.state = stEnd
	}
}

// beginWanted takes the first byte of a wanted value, which is p[i], or all of
// it if it is a short string.
func (r *Reader) beginWanted(p []byte, i int) int {
	c := p[i]
	kind := kindOf(c)
	switch kind {
	case 's':
		i++
		node := &r.shape.nodes[r.next]
		n := plain(p[i:min(len(p), i+node.short+1)])
		if n <= node.short && i+n < len(p) && p[i+n] == '"' && utf8.Valid(p[i:i+n]) {
			r.finishText(p[i : i+n])
			return i + n + 1
		}
		r.state = stText
		r.value.begin(node.max)
		return i
	case 0:
		r.state = stBroken
		return i
	}
	r.keep.begin(r.next, r.depth, r.off+int64(i))
	switch kind {
	case 'o', 'a':
		r.open(kind == 'a')
		return i + 1
	case 'n':
		r.state, r.sub = stNumber, numBegin
		return r.readNumber(p, i)
	default:
		r.state, r.sub, r.word = stWord, 0, wordOf(c)
		return r.readWord(p, i)
	}
}

// lookUp takes a key of a container below which something is wanted. If it is
// not known to be valid UTF-8 and that matters, it does nothing and says so.
func (r *Reader) lookUp(key []byte, valid bool) bool {
	n := &r.shape.nodes[r.node]
	if n.any != 0 {
		if !valid && !utf8.Valid(key) {
			return false
		}
		l := &r.levels[r.depth-1]
		l.key = append(l.key[:0], key[:min(len(key), maxKeyKept)]...)
	}
	r.next = n.child(key)
	r.state = stColon
	return true
}

// finish takes the innermost value of those that are kept as JSON; it ends
// before p[i].
func (r *Reader) finish(p []byte, i int, kind byte) {
	end := r.off + int64(i)
	c, raw := r.keep.finish(r.shape, p, r.off, end)
	for _, w := range r.shape.nodes[c.node].ends {
		want := &r.shape.wants[w]
		f := found{want: w, seq: c.seq, kind: kind}
		if size := end - c.begin; size > int64(want.max) {
			f.cut = size
			r.keep.add(f, nil, nil, want.stars, r.levels)
		} else {
			r.keep.add(f, raw, nil, want.stars, r.levels)
		}
	}
}

// finishText takes a wanted string that is complete: short if that is not nil,
// which no want needs to cut, else r.value.
func (r *Reader) finishText(short []byte) {
	f := found{seq: r.keep.next(), kind: 's'}
	for _, w := range r.shape.nodes[r.next].ends {
		want := &r.shape.wants[w]
		f.want = w
		if short != nil {
			r.keep.add(f, short, nil, want.stars, r.levels)
			continue
		}
		head, tail, cut := r.value.kept(want.max)
		f.cut = cut
		r.keep.add(f, head, tail, want.stars, r.levels)
	}
	r.endValue()
}

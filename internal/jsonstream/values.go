package jsonstream

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	defaultMax = 4096 // bytes kept of a value whose Want.Max is 0
	maxKeys    = 64   // keys of a path
	maxKeyLen  = 512  // bytes of a key
	maxNodes   = 10_000
)

// Want names the values to keep.
type Want struct {
	// Path consists of keys joined by ".": "message.content.*.text". "*" matches any key and any array element. Other
	// keys match in objects only. Only "*" matches a key that contains a dot, and the empty key. The path "" is the
	// whole line. An object or array at the end of the path is kept as JSON.
	Path string
	// Max bounds the bytes to keep: of the decoded text of a string, and of the JSON of another value. 0 means 4096. A
	// longer string keeps its first and its last Max/2 bytes. A longer value of another type is reported with an empty
	// Raw.
	Max int
}

// Shape is a compiled set of wants. It does not change, so several readers may share it.
type Shape struct {
	wants []want
	nodes []node // nodes[0] is for values that no want names, nodes[1] for the whole line
	depth int    // number of keys of the longest path
}

type want struct {
	keys  []string
	max   int
	stars []int // indices of "*" in keys; each is also the depth of the container
}

// node is a set of places in a line: those whose path agrees with the same wants so far.
type node struct {
	ends []int // the wants whose path ends at this node
	max  int   // the largest Max of ends
	any  int   // the node of array elements, and of keys that are not in keys
	keys map[string]int
}

// inner reports whether a want has a path that goes on below the node.
func (n *node) inner() bool { return n.any != 0 || len(n.keys) > 0 }

// MustShape compiles wants that the caller knows to be valid. It panics if they are not.
func MustShape(wants ...Want) *Shape {
	s, err := Compile(wants...)
	if err != nil {
		panic(err)
	}
	return s
}

// Compile compiles wants to a shape. A Value refers to a want by its index. The error names the invalid want and the
// reason.
func Compile(wants ...Want) (*Shape, error) {
	s := &Shape{nodes: make([]node, 1)}
	all := make([]int, len(wants))
	for i, w := range wants {
		all[i] = i
		keys, err := split(w.Path)
		if err == nil && w.Max < 0 {
			err = fmt.Errorf("max is %d, it must not be negative", w.Max)
		}
		if err != nil {
			return nil, fmt.Errorf("compiling want %d, path %q: %w", i, w.Path, err)
		}
		c := want{keys: keys, max: cmp.Or(w.Max, defaultMax)}
		for depth, key := range keys {
			if key == "*" {
				c.stars = append(c.stars, depth)
			}
		}
		s.wants = append(s.wants, c)
		s.depth = max(s.depth, len(keys))
	}
	if s.build(all, 0); len(s.nodes) > maxNodes {
		return nil, fmt.Errorf("compiling %d wants: their paths overlap in more than %d ways; use fewer paths with *", len(wants), maxNodes)
	}
	return s, nil
}

func split(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	keys := strings.Split(path, ".")
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys, at most %d are possible", len(keys), maxKeys)
	}
	for _, key := range keys {
		switch {
		case key == "":
			return nil, errors.New("it has an empty key")
		case len(key) > maxKeyLen:
			return nil, fmt.Errorf("a key has %d bytes, at most %d are possible", len(key), maxKeyLen)
		case !utf8.ValidString(key):
			return nil, errors.New("it is not valid UTF-8")
		case strings.ContainsRune(key, utf8.RuneError):
			return nil, errors.New("it holds U+FFFD, which stands for bytes that are not valid UTF-8; use *")
		}
	}
	return keys, nil
}

// build makes the node for wants whose first depth keys agree with one path, and all nodes below it. It returns the
// index of the node, or 0 if there are no wants below the top of a line.
func (s *Shape) build(wants []int, depth int) int {
	if len(wants) == 0 && depth > 0 || len(s.nodes) > maxNodes {
		return 0
	}
	at := len(s.nodes)
	s.nodes = append(s.nodes, node{})
	n := node{keys: map[string]int{}}
	on := map[string][]int{"*": nil} // by next key: the wants whose path goes on
	for _, w := range wants {
		c := s.wants[w]
		if len(c.keys) == depth {
			n.ends = append(n.ends, w)
			n.max = max(n.max, c.max)
			continue
		}
		on[c.keys[depth]] = append(on[c.keys[depth]], w)
	}
	n.any = s.build(on["*"], depth+1)
	for key, some := range on {
		if key != "*" {
			n.keys[key] = s.build(slices.Sorted(slices.Values(append(some, on["*"]...))), depth+1)
		}
	}
	s.nodes[at] = n
	return at
}

// child returns the node below n for a key.
func (n *node) child(key []byte) int {
	if at, ok := n.keys[string(key)]; ok {
		return at
	}
	return n.any
}

// Kind is the kind of a line.
type Kind uint8

const (
	Broken Kind = iota // the line is not valid JSON
	Object             // the line is a JSON object
	Other              // the line is valid JSON and no object
)

func (k Kind) String() string { return [...]string{"broken", "object", "other"}[k] }

// Line is one line of the stream. A Line and its slices are valid only until the function that got the Line returns.
// The function may keep strings.
type Line struct {
	Kind Kind
	// Bytes is the length of the line without its "\n" and without a byte order mark.
	Bytes int64
	// Values holds the wanted values in the order in which they begin in the line. For a broken line it holds those
	// that are complete before the invalid byte. A number, true, false or null is complete only when another byte
	// follows.
	Values []Value
	// Head is the beginning of the line, at most 4 KiB, without the line break ("\n" or "\r\n").
	Head []byte
	// Dropped counts the values that the Reader has left out because the line has more than it keeps: 1,024 values of
	// each want and 4 MiB in total. The Reader always keeps the last value of each want.
	Dropped int

	names *names
}

// Value is one value at a wanted path.
type Value struct {
	Want int      // index of the want
	Keys []string // the key or index that each "*" of the path matched, in order; indices are "0", "1", ...; a key over 1 KiB is cut
	Type byte     // 's' string, 'n' number, 'b' bool, '0' null, 'o' object, 'a' array
	Raw  []byte   // the decoded text of a string, else the unchanged JSON
	// Cut is the number of bytes that are missing in Raw: from the middle of a string's text (never a part of a rune),
	// or all bytes of another value.
	Cut int64

	begin int64 // position in the line
}

// Last returns the last value of a want in the line. It returns false if there is none.
func (l *Line) Last(want int) (Value, bool) { return l.last(want, 0) }

// last returns the last value of a want. It returns false if there is none or if it has another type; kind 0 means any
// type.
func (l *Line) last(want int, kind byte) (Value, bool) {
	for _, v := range slices.Backward(l.Values) {
		if v.Want == want {
			return v, kind == 0 || v.Type == kind
		}
	}
	return Value{}, false
}

// All iterates over the values of a want in order.
func (l *Line) All(want int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for _, v := range l.Values {
			if v.Want == want && !yield(v) {
				return
			}
		}
	}
}

// String returns the text of the last value of a want, or "" if there is none or it is no string.
func (l *Line) String(want int) string {
	if v, ok := l.last(want, 's'); ok {
		return l.names.text(v.Raw)
	}
	return ""
}

// Int returns the last value of a want if it is a number that fits into an int64. It accepts a number with a fraction
// or an exponent, such as 1e3, if it is a whole number of at most 2^53.
func (l *Line) Int(want int) (int64, bool) {
	v, ok := l.last(want, 'n')
	if !ok {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(v.Raw), 10, 64); err == nil {
		return n, true
	}
	f, ok := l.Float(want)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Float returns the last value of a want if it is a number that fits into a float64.
func (l *Line) Float(want int) (float64, bool) {
	v, ok := l.last(want, 'n')
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Raw), 64) // a number longer than Max has an empty Raw, which is an error
	return f, err == nil
}

// Bool returns the last value of a want if it is true or false.
func (l *Line) Bool(want int) (v, ok bool) {
	last, ok := l.last(want, 'b')
	return ok && string(last.Raw) == "true", ok
}

const (
	maxValues = 1024    // values of a want in a line
	maxKept   = 4 << 20 // bytes of all values in a line
)

// count counts the values of a want in a line.
type count struct {
	n    int
	last int // 1 + the index of the value that the next one replaces, because there are too many; 0: none
}

// store keeps a complete value: a copy of head and tail, and the keys that each "*" of the want's path matched. If the
// line has too many values, the value replaces the last one of the same want that came after the bound was reached.
func (r *Reader) store(v Value, head, tail []byte) {
	l, n := &r.line, &r.counts[v.Want]
	n.n++
	raw, keys := &r.bytes, &r.keys
	at := len(l.Values)
	if n.n >= maxValues || len(r.bytes)+len(head)+len(tail) > maxKept {
		var old Value
		if n.last > 0 {
			at = n.last - 1
			old = l.Values[at]
			l.Dropped++
		}
		n.last = at + 1
		v.Raw, v.Keys = old.Raw[:0], old.Keys[:0]
		raw, keys = &v.Raw, &v.Keys
	}
	begin, first := len(*raw), len(*keys)
	*raw = append(append(*raw, head...), tail...)
	for _, depth := range r.shape.wants[v.Want].stars {
		*keys = append(*keys, r.key(depth))
	}
	v.Raw = slices.Clip((*raw)[begin:])
	if len(*keys) > first {
		v.Keys = slices.Clip((*keys)[first:])
	}
	if at == len(l.Values) {
		l.Values = append(l.Values, v)
	} else {
		l.Values[at] = v
	}
}

// key returns the key or index that a "*" matches in the open container at a depth.
func (r *Reader) key(depth int) string {
	if r.stack[depth] == '[' {
		return strconv.Itoa(r.levels[depth].index)
	}
	return r.names.text(r.levels[depth].key)
}

func sortValues(list []Value) {
	slices.SortFunc(list, func(a, b Value) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.Want, b.Want)) })
}

const (
	maxNames   = 512 // strings in names
	maxNameLen = 64  // bytes of a string in names
)

// names holds strings that occur in many lines (kinds, keys, session ids), so that the next one needs no allocation. It
// holds at most maxNames strings of at most maxNameLen bytes. When it is full, it starts again with an empty set.
type names struct{ seen map[string]string }

func (n *names) text(b []byte) string {
	if n == nil || len(b) > maxNameLen {
		return string(b)
	}
	if s, ok := n.seen[string(b)]; ok {
		return s
	}
	if n.seen == nil || len(n.seen) >= maxNames {
		n.seen = make(map[string]string)
	}
	s := string(b)
	n.seen[s] = s
	return s
}

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
	defaultMax = 4096 // bytes kept of a value whose want says 0
	maxKeys    = 64   // keys of a path
	maxKeyLen  = 512  // bytes of each
	maxNodes   = 10_000
	maxShort   = 64 // bytes of a string that is looked for whole
)

// Want names the values to keep.
type Want struct {
	// Path is keys joined by ".", where "*" is any key or any array element: "message.content.*.text". A key other than
	// "*" matches in objects only. Keys that hold a dot, and the empty key, are matched by "*" alone. "" is the whole
	// line. A path that leads to an object or array keeps it as JSON.
	Path string
	// Max is how many bytes are kept, of the decoded text of a string, else of the JSON; 0 means 4096. A longer string
	// keeps its first and its last Max/2 bytes; anything else that is longer is dropped whole and reported with an
	// empty Raw.
	Max int
}

// Shape is a set of wants, compiled. It does not change and may be shared.
type Shape struct {
	wants []want
	nodes []node // 0 is the node of what nobody wants, 1 that of the whole line
	depth int    // keys of the longest path
}

type want struct {
	keys  []string
	max   int
	stars []int // positions of "*" in keys, which are depths of containers
}

// node is a place in a line: a set of wants that the path so far agrees with.
type node struct {
	ends []int // the wants that the path satisfies
	max  int   // the largest Max of ends
	any  int   // the node of array elements, and of keys that keys does not hold
	keys map[string]int
}

// inner reports whether something may be wanted below the node.
func (n *node) inner() bool { return n.any != 0 || len(n.keys) > 0 }

// MustShape is Compile for wants that are known to be good; it panics if they are not.
func MustShape(wants ...Want) *Shape {
	s, err := Compile(wants...)
	if err != nil {
		panic(err)
	}
	return s
}

// Compile makes a shape. A want's index is how values name it. The error says which want is bad and why.
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

// build makes the node for the wants whose first depth keys agree with one path, and all nodes below it. It returns its
// index; 0 for no wants within a line.
func (s *Shape) build(wants []int, depth int) int {
	if len(wants) == 0 && depth > 0 || len(s.nodes) > maxNodes {
		return 0
	}
	at := len(s.nodes)
	s.nodes = append(s.nodes, node{})
	n := node{keys: map[string]int{}}
	on := map[string][]int{"*": nil} // the wants that go on, by the next key
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

// child gives the node below n at the key.
func (n *node) child(key []byte) int {
	if at, ok := n.keys[string(key)]; ok {
		return at
	}
	return n.any
}

// Kind says what a line is.
type Kind uint8

const (
	Broken Kind = iota // no JSON, or JSON that broke off
	Object             // a JSON object
	Other              // valid JSON that is no object
)

func (k Kind) String() string { return [...]string{"broken", "object", "other"}[k] }

// Line is one line of the stream. It and all its slices are valid only until the function that got it returns; strings
// may be kept.
type Line struct {
	Kind Kind
	// Bytes is the length of the line without its "\n" and without a byte order mark.
	Bytes int64
	// Values are the wanted ones in the order in which they begin in the line; of a broken line, those that were
	// complete before the break. A number, true, false or null is complete only when something follows it.
	Values []Value
	// Head is the beginning of the line, at most 4 KiB, without the line break ("\n" or "\r\n").
	Head []byte
	// Dropped counts the values that were left out because the line has more than a Reader keeps: 1,024 of each want
	// and 4 MiB in all. The last value of each want is kept in any case.
	Dropped int

	names *names
}

// Value is one value at a wanted path.
type Value struct {
	Want int      // index of the want
	Keys []string // what each "*" of the path matched, in order; elements are "0", "1", ...; a key over 1 KiB is cut
	Type byte     // 's' string, 'n' number, 'b' bool, '0' null, 'o' object, 'a' array
	Raw  []byte   // the decoded text of a string, else the JSON as it came
	// Cut is how many bytes are missing in Raw: from the middle of a string's text (never a part of a rune), or all of
	// any other value.
	Cut int64

	begin int64 // position in the line
}

// Last gives the last value of the want.
func (l *Line) Last(want int) (Value, bool) { return l.last(want, 0) }

// last gives the last value of the want if it has the type; 0 is any.
func (l *Line) last(want int, kind byte) (Value, bool) {
	for _, v := range slices.Backward(l.Values) {
		if v.Want == want {
			return v, kind == 0 || v.Type == kind
		}
	}
	return Value{}, false
}

// All gives the values of the want in order.
func (l *Line) All(want int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for _, v := range l.Values {
			if v.Want == want && !yield(v) {
				return
			}
		}
	}
}

// String gives the text of the want's last value; "" if there is none or it is no string.
func (l *Line) String(want int) string {
	if v, ok := l.last(want, 's'); ok {
		return l.names.text(v.Raw)
	}
	return ""
}

// Int gives the want's last value if it is a number that an int64 holds. A number written with a fraction or an
// exponent counts if it is a whole one of at most 2^53.
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

// Float gives the want's last value if it is a number that a float64 holds.
func (l *Line) Float(want int) (float64, bool) {
	v, ok := l.last(want, 'n')
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Raw), 64) // one that was too long is "", an error
	return f, err == nil
}

// Bool gives the want's last value if it is true or false.
func (l *Line) Bool(want int) (v, ok bool) {
	last, ok := l.last(want, 'b')
	return ok && string(last.Raw) == "true", ok
}

const (
	maxValues = 1024    // of a want, in a line
	maxKept   = 4 << 20 // bytes of values, in a line
)

// count is about the values of a want in a line.
type count struct {
	n    int
	last int // when there are too many: 1 + the index of the last one
}

// store keeps a complete value: a copy of head and tail, and what each "*" of the want's path matched. When there are
// too many, a value takes the place of the one that was stored so before.
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

// key is what a "*" matches in the open container at the depth.
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
	maxNameLen = 64  // bytes of each
)

// names holds strings that come again in line after line (kinds, keys, session ids), so that they cost no allocation.
// It holds at most maxNames of at most maxNameLen bytes and then starts afresh.
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

package jsonstream

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strconv"
)

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

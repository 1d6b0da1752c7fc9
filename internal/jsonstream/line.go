package jsonstream

import (
	"iter"
	"math"
	"strconv"
)

// Kind says what a line is.
type Kind uint8

const (
	Broken Kind = iota // no JSON, or JSON that broke off
	Object             // a JSON object
	Other              // valid JSON that is no object
)

func (k Kind) String() string {
	switch k {
	case Object:
		return "object"
	case Other:
		return "other"
	default:
		return "broken"
	}
}

// Line is one line of the stream. It and all its slices are valid only until
// the function that got it returns; strings may be kept.
type Line struct {
	Kind Kind
	// Bytes is the length of the line without its "\n" and without a byte order
	// mark.
	Bytes int64
	// Values are the wanted ones in the order in which they begin in the line;
	// of a broken line, those that were complete before the break. A number,
	// true, false or null is complete only when something follows it.
	Values []Value
	// Head is the beginning of the line, at most 4 KiB, without the line break
	// ("\n" or "\r\n").
	Head []byte
	// Dropped counts the values that were left out because the line has more
	// than a Reader keeps: 1,024 of each want and 4 MiB in all. The last value
	// of each want is kept in any case.
	Dropped int

	names *names
}

// Value is one value at a wanted path.
type Value struct {
	Want int      // index of the want
	Keys []string // what each "*" of the path matched, in order; elements are "0", "1", ...; a key over 1 KiB is cut
	Type byte     // 's' string, 'n' number, 'b' bool, '0' null, 'o' object, 'a' array
	Raw  []byte   // the decoded text of a string, else the JSON as it came
	// Cut is how many bytes are missing in Raw: from the middle of a string's
	// text (never a part of a rune), or all of any other value.
	Cut int64
}

// Last gives the last value of the want.
func (l *Line) Last(want int) (Value, bool) {
	for i := len(l.Values) - 1; i >= 0; i-- {
		if l.Values[i].Want == want {
			return l.Values[i], true
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

// String gives the text of the want's last value; "" if there is none or it is
// no string.
func (l *Line) String(want int) string {
	v, ok := l.Last(want)
	if !ok || v.Type != 's' {
		return ""
	}
	return l.names.text(v.Raw)
}

// Int gives the want's last value if it is a number that an int64 holds. A
// number written with a fraction or an exponent counts if it is a whole one of
// at most 2^53.
func (l *Line) Int(want int) (int64, bool) {
	v, ok := l.Last(want)
	if !ok || v.Type != 'n' || v.Cut > 0 {
		return 0, false
	}
	if n, err := strconv.ParseInt(string(v.Raw), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(v.Raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Float gives the want's last value if it is a number that a float64 holds.
func (l *Line) Float(want int) (float64, bool) {
	v, ok := l.Last(want)
	if !ok || v.Type != 'n' || v.Cut > 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Raw), 64)
	return f, err == nil
}

// Bool gives the want's last value if it is true or false.
func (l *Line) Bool(want int) (v, ok bool) {
	last, ok := l.Last(want)
	if !ok || last.Type != 'b' {
		return false, false
	}
	return string(last.Raw) == "true", true
}

const (
	maxNames   = 512 // strings in names
	maxNameLen = 64  // bytes of each
)

// names holds strings that come again in line after line (kinds, keys, session
// ids), so that they cost no allocation. It holds at most maxNames of at most
// maxNameLen bytes and then starts afresh.
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

package jsonstream

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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

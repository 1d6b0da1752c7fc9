// Package edit changes a configuration file as an operator would: it puts one value in, and every other byte, the comments
// and the layout, stays. It is pure.
package edit

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tailscale/hujson"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/schemas"
)

// Place says where among the values of an object or an array a new one goes.
type Place bool

// The places.
const (
	First Place = false
	Last  Place = true
)

// Insert puts a member (`"key": value`) or an element into the object or array at a JSON pointer. A text of several lines
// has the indentation that Indent returns. The result may be refused as a configuration: Insert looks at its syntax only.
// It fails if data cannot be read, or if there is neither an object nor an array.
func Insert(data []byte, pointer string, where Place, text string) ([]byte, error) {
	in, err := find(data, pointer)
	if err != nil {
		return nil, err
	}
	var out []byte
	switch {
	case len(in.kids) == 0:
		out = splice(data, in.open, text)
	case where == First:
		at := in.kids[0].begin
		out = splice(data, at, text+","+in.gap(" "))
	default:
		out = in.append(text)
	}
	if _, problems := schemas.Parse(schemas.Config, out); len(problems) > 0 {
		return nil, fmt.Errorf("putting it into %s: %s", pointer, problems[0])
	}
	return out, nil
}

// Set gives the member key of the object at a JSON pointer the value text. A new member comes last.
func Set(data []byte, pointer, key, text string) ([]byte, error) {
	in, err := find(data, pointer)
	if err != nil {
		return nil, err
	}
	at, ok := in.values[key]
	if !ok {
		name, _ := json.Marshal(key) // every string can be encoded as JSON
		return Insert(data, pointer, Last, string(name)+": "+text)
	}
	return append(append(bytes.Clone(data[:at.begin]), text...), data[at.end:]...), nil
}

// Indent returns the white space before the values of the object or array at a JSON pointer, if each has a line of its
// own, and the white space by which one level is deeper than the level around it. Both are "" for a container on one line.
func Indent(data []byte, pointer string) (before, level string) {
	in, err := find(data, pointer)
	if err != nil || len(in.kids) == 0 {
		return "", ""
	}
	line := in.gap("")
	if line == "" {
		return "", ""
	}
	before = line[1:]
	depth := len(schemas.Tokens(pointer)) + 1
	return before, before[:len(before)/depth]
}

// container is an object or an array in a file.
type container struct {
	data  []byte
	open  int // the byte behind its opening bracket
	close int // its closing bracket
	kids  []span
	comma bool // whether a comma stands behind the last value
	// values are the ranges of the values of an object, without their keys.
	values map[string]span
}

// span is the byte range of a value, with its key.
type span struct{ begin, end int }

func find(data []byte, pointer string) (container, error) {
	// The library has no bound of the depth, so that the strict reader comes first.
	if _, problems := schemas.Parse(schemas.Config, data); len(problems) > 0 {
		return container{}, fmt.Errorf("reading the configuration: %s", problems[0])
	}
	root, err := hujson.Parse(append(bytes.Clone(data), '\n')) // the library wants a new line behind a comment
	if err != nil {
		return container{}, fmt.Errorf("reading the configuration: %w", err)
	}
	v := root.Find(pointer)
	if v == nil {
		return container{}, fmt.Errorf("the configuration has no %s", pointer)
	}
	c := container{data: data, open: v.StartOffset + 1, close: v.EndOffset - 1, values: map[string]span{}}
	switch t := v.Value.(type) {
	case *hujson.Object:
		for _, m := range t.Members {
			c.kids = append(c.kids, span{m.Name.StartOffset, m.Value.EndOffset})
			c.comma = m.Value.AfterExtra != nil
			var key string
			if err := text.Decode(m.Name.Value.(hujson.Literal), &key); err != nil {
				return container{}, err
			}
			c.values[key] = span{m.Value.StartOffset, m.Value.EndOffset}
		}
	case *hujson.Array:
		for _, e := range t.Elements {
			c.kids = append(c.kids, span{e.StartOffset, e.EndOffset})
			c.comma = e.AfterExtra != nil
		}
	default:
		return container{}, fmt.Errorf("%s is neither an object nor an array", pointer)
	}
	return c, nil
}

// gap returns the new line and the white space before the last value, or none if it does not begin a line.
func (c container) gap(none string) string {
	at := c.kids[len(c.kids)-1].begin
	line := bytes.LastIndexByte(c.data[:at], '\n')
	if line < c.open || len(bytes.Trim(c.data[line:at], " \t\r\n")) > 0 {
		return none
	}
	return string(c.data[line:at])
}

// append puts text behind the last value and the comments that follow it.
func (c container) append(text string) []byte {
	end := c.kids[len(c.kids)-1].end
	rest := bytes.TrimRight(c.data[end:c.close], " \t\r\n")
	at := end + len(rest)
	between := c.gap(" ")
	if between == " " && bytes.IndexByte(c.data[end:c.close], '\n') >= 0 {
		between = "\n" // the last line may be a comment
	}
	if c.comma {
		return splice(c.data, at, between+text+",")
	}
	return splice(splice(c.data, at, between+text), end, ",")
}

func splice(data []byte, at int, text string) []byte {
	return append(append(bytes.Clone(data[:at]), text...), data[at:]...)
}

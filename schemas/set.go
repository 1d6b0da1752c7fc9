package schemas

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

//go:embed *.schema.json
var files embed.FS

const idPrefix = "https://superloop.dev/schemas/"

// Source is the text of the schema of kind k, as it is published; nil for an unknown kind.
func Source(k Kind) []byte {
	b, _ := files.ReadFile(k.file())
	return b
}

// set holds the schemas, each parsed and compiled on first use.
type set struct {
	compiled map[Kind]func() *jsonschema.Schema
	raw      map[Kind]func() map[string]any
}

// standard is the one set of the process; making it costs a few closures, and that only when a first file is read.
var standard = sync.OnceValue(func() *set {
	s := &set{compiled: map[Kind]func() *jsonschema.Schema{}, raw: map[Kind]func() map[string]any{}}
	for _, k := range Kinds() {
		s.compiled[k] = sync.OnceValue(func() *jsonschema.Schema { return compile(k) })
		s.raw[k] = sync.OnceValue(func() map[string]any { return parse(k) })
	}
	return s
})

// compile makes the schema of k. The schemas are part of the program: one that does not compile is a mistake in it, so
// it panics (and no test passes).
func compile(k Kind) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.ExtractAnnotations = true
	for name, f := range formats {
		c.Formats[name] = func(v any) bool {
			s, ok := v.(string)
			return !ok || f.is(s) // what is no string is the type's to judge
		}
	}
	// Nothing is ever fetched: a reference either names an embedded schema or is a mistake.
	c.LoadURL = func(id string) (io.ReadCloser, error) {
		name, ours := strings.CutPrefix(id, idPrefix)
		if !ours {
			return nil, fmt.Errorf("%s is not one of the embedded schemas", id)
		}
		return files.Open(name)
	}
	sch, err := c.Compile(k.ID())
	if err != nil {
		panic(fmt.Sprintf("schemas: %s: %#v", k.file(), err))
	}
	return sch
}

func parse(k Kind) map[string]any {
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(Source(k)))
	dec.UseNumber() // bounds are shown as they are written
	if err := dec.Decode(&m); err != nil {
		panic(fmt.Sprintf("schemas: %s: %v", k.file(), err))
	}
	return m
}

// maxDuration bounds every duration: nobody waits for more than a year.
const maxDuration = 366 * 24 * time.Hour

// formats are the words of a schema for texts, and what they allow.
var formats = map[string]struct {
	allowed string
	is      func(string) bool
}{
	"date-time": {"a time as in RFC 3339, such as 2026-01-23T05:36:33Z", func(s string) bool {
		_, err := time.Parse(time.RFC3339, s)
		return err == nil
	}},
	"regex": {"a regular expression in RE2 syntax (no lookahead, no backreference)", func(s string) bool {
		_, err := regexp.Compile(s)
		return err == nil
	}},
	"go-duration": {`seconds as a number, or text such as "90s", "30m", "8h", at most a year`, func(s string) bool {
		d, err := time.ParseDuration(s)
		return err == nil && d >= 0 && d <= maxDuration
	}},
	"web-url": {"a URL that starts with https:// or http://", func(s string) bool {
		u, err := url.Parse(s)
		return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Opaque == ""
	}},
}

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

// Source is the text of the schema of kind k, as it is published; nil for an
// unknown kind.
func Source(k Kind) []byte {
	b, err := files.ReadFile(k.file())
	if err != nil {
		return nil
	}
	return b
}

// set holds the schemas, each parsed and compiled on first use.
type set struct {
	compiled map[Kind]func() *jsonschema.Schema
	raw      map[Kind]func() map[string]any
}

// standard is the one set of the process; making it costs a few closures, and
// that only when a first file is read.
var standard = sync.OnceValue(func() *set {
	s := &set{compiled: map[Kind]func() *jsonschema.Schema{}, raw: map[Kind]func() map[string]any{}}
	for _, k := range Kinds() {
		s.compiled[k] = sync.OnceValue(func() *jsonschema.Schema { return compile(k) })
		s.raw[k] = sync.OnceValue(func() map[string]any { return parse(k) })
	}
	return s
})

// compile makes the schema of k. The schemas are part of the program: one that
// does not compile is a mistake in it, so it panics (and no test passes).
func compile(k Kind) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.ExtractAnnotations = true
	c.Formats["date-time"] = isTimestamp
	c.Formats["regex"] = isRegexp
	c.Formats["go-duration"] = isDuration
	c.Formats["web-url"] = isWebURL
	// Nothing is ever fetched: a reference either names an embedded schema or is
	// a mistake.
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

// The formats. Each passes what is not a string: that is the type's to judge.

func isTimestamp(v any) bool {
	s, ok := v.(string)
	if !ok {
		return true
	}
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

func isRegexp(v any) bool {
	s, ok := v.(string)
	if !ok {
		return true
	}
	_, err := regexp.Compile(s)
	return err == nil
}

// maxDuration bounds every duration: a year is no bound that anybody waits for.
const maxDuration = 366 * 24 * time.Hour

func isDuration(v any) bool {
	s, ok := v.(string)
	if !ok {
		return true
	}
	d, err := time.ParseDuration(s)
	return err == nil && d >= 0 && d <= maxDuration
}

func isWebURL(v any) bool {
	s, ok := v.(string)
	if !ok {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Opaque == ""
}

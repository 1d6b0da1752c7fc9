// Package schemas holds the file formats of superloop: one embedded JSON Schema (draft 2020-12) for each format, and
// the strict reader through which superloop reads every such file.
//
// Read is the strict reader. It refuses everything that two readers could understand differently: duplicate keys, keys
// that differ from a key of the schema only in case, empty keys, lone surrogates, invalid UTF-8, NUL, data after the
// end, numbers that do not fit, nesting deeper than MaxDepth, and files over the limits of their kind (bytes, values).
// Then Read validates the file against the schema. It returns all problems at once, in the order of the file, each with
// its place in the source.
//
// superloop gives these keywords of a schema a meaning of its own:
//
//	deprecated   superloop knows the key but ignores it (Document.Ignored)
//	writeOnly    the value is a secret and is never printed (Document.Secret)
//	x-allowed    a phrase for operators, shown instead of a pattern or a count
//	$comment     next to deprecated: the advice what to do instead
//
// The package compiles a schema when it is first needed, and each schema only once in a process.
package schemas

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
)

// Kind names a file format. Its schema is "<kind>.schema.json".
type Kind string

// The kinds, in the order in which Kinds returns them.
const (
	Config               Kind = "config"                // .superloop/config.json
	RepoState            Kind = "repo-state"            // .superloop/state.json
	Recovery             Kind = "recovery"              // loops/<id>/recovery.json, version 1
	Escalation           Kind = "escalation"            // loops/<id>/escalation.json
	Event                Kind = "event"                 // one line of loops/<id>/events.jsonl
	State                Kind = "state"                 // loops/<id>/state.json
	Usage                Kind = "usage"                 // one line of loops/<id>/usage.jsonl
	RunSummary           Kind = "run-summary"           // loops/<id>/run-summary.json
	Approval             Kind = "approval"              // loops/<id>/approval.json
	TestStatus           Kind = "test-status"           // loops/<id>/test-status.json
	Evidence             Kind = "evidence"              // loops/<id>/evidence.json
	RootCause            Kind = "root-cause"            // loops/<id>/root-cause.json
	Chain                Kind = "chain"                 // loops/<id>/chains/<chain-id>.json
	ChecklistStatus      Kind = "checklist-status"      // loops/<id>/checklist-status.json
	ValidationStatus     Kind = "validation-status"     // loops/<id>/validation-status.json
	PrerequisitesStatus  Kind = "prerequisites-status"  // loops/<id>/prerequisites-status.json
	PrerequisitesResults Kind = "prerequisites-results" // loops/<id>/prerequisites-results.json
	Scenario             Kind = "scenario"              // the scenario of a scripted agent
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// MaxDepth is the maximum nesting of arrays and objects in a file of any kind.
const MaxDepth = door.MaxDepth

// caps limits a file (or line) of a kind: its bytes and its values (0 means 4,000,000). Files that agents and operators
// write are small; files that superloop writes may grow in a long run. Without the limit of values, describing the
// problems of a mebibyte of wrong values would take seconds.
type caps struct {
	kind          Kind
	bytes, values int
}

var limits = []caps{
	{Config, mib, 50_000}, {RepoState, mib, 0}, {Recovery, 64 * kib, 50_000}, {Escalation, mib, 0}, {Event, mib, 0},
	{State, 256 * kib, 0}, {Usage, 256 * kib, 0}, {RunSummary, 64 * mib, 0}, {Approval, 256 * kib, 0}, {TestStatus, 64 * kib, 0},
	{Evidence, 16 * mib, 0}, {RootCause, mib, 0}, {Chain, 4 * mib, 0}, {ChecklistStatus, 64 * kib, 0}, {ValidationStatus, 64 * kib, 0},
	{PrerequisitesStatus, 64 * kib, 0}, {PrerequisitesResults, 4 * mib, 0}, {Scenario, 4 * mib, 200_000},
}

// Kinds returns all kinds.
func Kinds() []Kind {
	out := make([]Kind, len(limits))
	for i, l := range limits {
		out[i] = l.kind
	}
	return out
}

// Known reports whether k is one of Kinds.
func (k Kind) Known() bool { return slices.Contains(Kinds(), k) }

// caps returns the limits of kind k. For an unknown kind it returns the size limit of the configuration.
func (k Kind) caps() caps {
	if i := slices.IndexFunc(limits, func(c caps) bool { return c.kind == k }); i >= 0 {
		return limits[i]
	}
	return caps{bytes: mib}
}

// Limit returns the maximum size of a file (or line) of kind k, in bytes.
func (k Kind) Limit() int { return k.caps().bytes }

// ID returns the $id of the schema of kind k.
func (k Kind) ID() string { return idPrefix + k.file() }

func (k Kind) file() string { return string(k) + ".schema.json" }

//go:embed *.schema.json
var files embed.FS

const idPrefix = "https://superloop.dev/schemas/"

// Source returns the text of the schema of kind k as it is published, or nil for an unknown kind.
func Source(k Kind) []byte {
	b, _ := files.ReadFile(k.file())
	return b
}

// compiled and parsed return the schema of a kind. The first call makes it.
var compiled, parsed = atFirst(compile), atFirst(parse)

func atFirst[T any](of func(Kind) T) func(Kind) T {
	var made sync.Map // of Kind
	return func(k Kind) T {
		get, _ := made.LoadOrStore(k, sync.OnceValue(func() T { return of(k) }))
		return get.(func() T)()
	}
}

// compile compiles the schema of k. It panics if the schema does not compile, because that is a mistake in the program.
func compile(k Kind) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.ExtractAnnotations = true
	for name, f := range formats {
		c.Formats[name] = func(v any) bool {
			s, ok := v.(string)
			return !ok || f.is(s) // the keyword type reports a value that is no string
		}
	}
	// The compiler loads nothing from the network. A reference to anything but an embedded schema is a mistake.
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
	dec.UseNumber() // so that messages show bounds as the schema has them
	if err := text.Reason(dec.Decode(&m)); err != nil {
		panic(fmt.Sprintf("schemas: %s: %v", k.file(), err))
	}
	return m
}

// maxDuration bounds every duration in a file.
const maxDuration = 366 * 24 * time.Hour

// formats holds the string formats of the schemas, with the text for messages and the check.
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
	"web-url": {"a URL that starts with https:// or http://", func(s string) bool { return urlOf(s, "https", "http") }},
	"channel-url": {"a URL that starts with https:// or http://, or for smtp with smtps:// or smtp://", func(s string) bool {
		return urlOf(s, "https", "http", "smtps", "smtp")
	}},
}

// urlOf reports whether s is a URL with a host and one of these schemes.
func urlOf(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Host != "" && u.Opaque == ""
}

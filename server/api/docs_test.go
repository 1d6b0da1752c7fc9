package api

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

var update = flag.Bool("update", false, "write docs/api.md anew")

const docsFile = "../../docs/api.md"

type docOperation struct {
	Name       string   `json:"operationId"`
	Summary    string   `json:"summary"`
	Scope      string   `json:"x-scope"`
	Problems   []string `json:"x-problems"`
	Parameters []struct {
		Name        string     `json:"name"`
		In          string     `json:"in"`
		Required    bool       `json:"required"`
		Description string     `json:"description"`
		Schema      *docSchema `json:"schema"`
	} `json:"parameters"`
	RequestBody struct {
		Content map[string]struct{ Schema *docSchema } `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]struct{ Schema *docSchema } `json:"content"`
	} `json:"responses"`
}

type docSchema struct {
	Ref         string                `json:"$ref"`
	Type        any                   `json:"type"`
	Enum        []any                 `json:"enum"`
	Default     any                   `json:"default"`
	Description string                `json:"description"`
	Properties  map[string]*docSchema `json:"properties"`
	Required    []string              `json:"required"`
}

// docsOf is docs/api.md: what the description says, for people.
func docsOf(t *testing.T, text []byte) string {
	var doc struct {
		Paths      map[string]map[string]docOperation
		Components struct{ Schemas map[string]*docSchema }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }
	cell := func(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }
	say("# The routes of the daemon\n")
	say("What [the daemon](daemon.md#for-programs) answers to programs. A test made this page of the description that it serves at `/api/v1/openapi.json`, which has the forms of all")
	say("answers too: `go test ./server/api -run TestDocs -update`.\n")
	say("- Lists are cut by `limit`; `next_cursor` of a page is the `cursor` of the next one, and is missing on the last page.")
	say("- A problem (RFC 9457) has a `type` `urn:superloop:TYPE` with one of the types below, a `detail` for people, the `exit_code` of the verb that does the same, and often a `next`")
	say("  command to type. Of a request that does not have the described form (`invalid`) `errors` say where it is wrong.")
	say("- Every route may answer with: `%s`.", strings.Join(routes()[everywhere].problems, "`, `"))
	say("- A request that changes something may carry `Idempotency-Key` and `Superloop-Confirm` ([docs/daemon.md](daemon.md#for-programs)).")
	say("- The name of a route is its `operationId`, of which generators make the names of functions. A client in Go, from a daemon that runs:\n")
	say("  ```\n  curl --unix-socket ~/.local/state/superloop/daemon/sock http://x/api/v1/openapi.json >api.json")
	say("  go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -generate types,client -package api -o api.go api.json\n  ```\n")
	say("  The document is OpenAPI 3.1; `openapi-3.0.json` is the same for generators that read 3.0 only. [server/clienttest](../server/clienttest/routes/routes_test.go) is a whole program with such a client.")
	say("- What is not known is `null` or missing, never 0.\n")
	say("| route | name | scope | what for |\n|---|---|---|---|")
	type one struct {
		method, path string
		docOperation
	}
	var all []one
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method, op := range doc.Paths[path] {
			all = append(all, one{strings.ToUpper(method), path, op})
		}
	}
	slices.SortFunc(all, func(x, y one) int { return cmp.Or(cmp.Compare(x.path, y.path), cmp.Compare(x.method, y.method)) })
	for _, o := range all {
		if o.Scope == "" || o.Summary == "" {
			t.Errorf("%s %s has no line in routes.txt", o.method, o.path)
		}
		say("| `%s %s` | %s | %s | %s |", o.method, o.path, o.Name, o.Scope, cell(o.Summary))
	}
	for _, o := range all {
		say("\n## %s %s\n\n%s.", o.method, o.path, strings.TrimSuffix(o.Summary, "."))
		var rows []string
		row := func(name, in string, required bool, s *docSchema, about string) {
			facts := []string{in}
			if required && in != "path" {
				facts = append(facts, "required")
			}
			var values []string
			for _, v := range s.Enum {
				values = append(values, fmt.Sprint(v))
			}
			if len(values) > 0 {
				facts = append(facts, strings.Join(values, ", "))
			}
			if s.Default != nil {
				facts = append(facts, fmt.Sprintf("default %v", s.Default))
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", name, cell(strings.Join(facts, "; ")), cell(cmp.Or(about, s.Description))))
		}
		for _, p := range o.Parameters {
			if slices.ContainsFunc(ofChanges, func(every *huma.Param) bool { return every.Name == p.Name }) {
				continue
			}
			row(p.Name, p.In, p.Required, p.Schema, p.Description)
		}
		for _, c := range o.RequestBody.Content {
			s := c.Schema
			if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
				s = doc.Components.Schemas[name]
			}
			for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
				if p := s.Properties[name]; name != "$schema" {
					row(name, "body", slices.Contains(s.Required, name), p, "")
				}
			}
		}
		if len(rows) > 0 {
			say("\n| name | where | is |\n|---|---|---|\n%s", strings.Join(rows, "\n"))
		}
		if len(o.Problems) > 0 {
			say("\nProblems: `%s`.", strings.Join(o.Problems, "`, `"))
		}
	}
	return page.String()
}

// docs/api.md is what the description says, every route of it is in routes.txt, and nothing else.
func TestDocs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.TempDir())
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, httptest.NewRequest("GET", "/api/v1/openapi.json", nil))
	want := docsOf(t, rec.Body.Bytes())
	served := w.described(t)
	for r := range routes() {
		method, path, _ := strings.Cut(r, " ")
		if r != everywhere && !slices.Contains(served, [2]string{method, path}) {
			t.Errorf("routes.txt has %s, which is not served", r)
		}
	}
	if *update {
		if err := os.WriteFile(docsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(docsFile); err != nil || string(got) != want {
		t.Errorf("docs/api.md is not what the routes say (%v): go test ./server/api -run TestDocs -update", err)
	}
}

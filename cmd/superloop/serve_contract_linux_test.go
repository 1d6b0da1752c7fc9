package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// contract holds a daemon to its own description: what it answers has the described form, and a problem is one that the
// description names.
type contract struct {
	paths   map[string]map[string]operation
	general []string // the problems of every route
	schemas *jsonschema.Compiler
	mu      sync.Mutex
	met     map[string]bool // "GET /path 2"
}

type operation struct {
	Scope      string                  `json:"x-scope"`
	Problems   []string                `json:"x-problems"`
	Summary    string                  `json:"summary"`
	Parameters []struct{ Name string } `json:"parameters"`
	Responses  map[string]struct {
		Content map[string]struct{ Schema json.RawMessage } `json:"content"`
	} `json:"responses"`
}

// described returns a client that checks each answer against the description.
func (c client) described() client {
	c.n.t.Helper()
	text := c.ask("GET", "/api/v1/openapi.json", "", 200, nil)
	var doc struct {
		OpenAPI string                          `json:"openapi"`
		Paths   map[string]map[string]operation `json:"paths"`
		General []string                        `json:"x-problems"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		c.n.t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || len(doc.Paths) < 30 {
		c.n.t.Errorf("OpenAPI %s with %d paths", doc.OpenAPI, len(doc.Paths))
	}
	c.of = &contract{paths: doc.Paths, general: doc.General, schemas: jsonschema.NewCompiler(), met: map[string]bool{}}
	c.of.schemas.Draft = jsonschema.Draft2020
	if err := c.of.schemas.AddResource("api.json", strings.NewReader(text)); err != nil {
		c.n.t.Fatal(err)
	}
	for path, ops := range doc.Paths {
		for method, op := range ops {
			if op.Summary == "" || op.Scope == "" {
				c.n.t.Errorf("%s %s has no line in routes.txt", method, path)
			}
		}
	}
	return c
}

// template returns the described path that a path of a request is one of, "" if it is none.
func (c *contract) template(path string) string {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	best, literal := "", -1
	for t := range c.paths {
		of := strings.Split(t, "/")
		n := 0
		if len(of) != len(parts) || !slices.EqualFunc(of, parts, func(x, y string) bool {
			if x == y {
				n++
			}
			return x == y || strings.HasPrefix(x, "{") && y != "" && y != ".."
		}) {
			continue
		}
		if n > literal {
			best, literal = t, n
		}
	}
	return best
}

// check says what is wrong with an answer, "" if it is as described.
func (c *contract) check(method, path string, status int, header http.Header, body string) string {
	t := c.template(path)
	op, ok := c.paths[t][strings.ToLower(method)]
	if !ok {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.met[fmt.Sprintf("%s %s %d", method, t, status/100)] = true
	at, answer := fmt.Sprint(status), op.Responses[fmt.Sprint(status)]
	if _, known := op.Responses[at]; !known {
		at, answer = "default", op.Responses["default"]
	}
	if status == http.StatusNoContent {
		return ""
	}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if _, ok := answer.Content[kind]; !ok && len(answer.Content) > 0 {
		return fmt.Sprintf("the type %q is not described", kind)
	}
	if strings.HasPrefix(kind, "text/") || len(answer.Content) == 0 {
		return ""
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace
	schema, err := c.schemas.Compile("api.json#/paths/" + escape(t) + "/" + strings.ToLower(method) + "/responses/" + at + "/content/" + escape(kind) + "/schema")
	if err != nil {
		return err.Error()
	}
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return err.Error()
	}
	if err := schema.Validate(v); err != nil {
		return fmt.Sprintf("%#v", err)
	}
	if status < 400 {
		return ""
	}
	problem, _ := v.(map[string]any)
	urn, _ := problem["type"].(string)
	if name, ours := strings.CutPrefix(urn, "urn:superloop:"); !ours || !slices.Contains(op.Problems, name) && !slices.Contains(c.general, name) {
		return fmt.Sprintf("the problem %s is not among %v", urn, op.Problems)
	}
	return ""
}

// covered fails for each route that has not answered both well and with a problem.
func (c *contract) covered(t *testing.T) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(c.paths)) {
		for method, op := range c.paths[path] {
			method = strings.ToUpper(method)
			if !c.met[method+" "+path+" 2"] {
				t.Errorf("%s %s has never answered well", method, path)
			}
			if len(op.Problems) > 0 && !c.met[method+" "+path+" 4"] && !slices.Contains([]string{"/readyz", "/api/v1/queue", "/api/v1/escalations"}, path) {
				t.Errorf("%s %s has never refused", method, path)
			}
		}
	}
}

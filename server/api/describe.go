package api

import (
	"maps"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/access"
)

// describe completes the description of the interface, so that a client can be generated of it, and returns what each
// route that changes something does, by its pattern.
func describe(h huma.API) map[string]string {
	doc, known, does := h.OpenAPI(), routes(), map[string]string{}
	doc.Extensions = map[string]any{"x-problems": known[everywhere].problems}
	doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "over TCP a token or a session; over the socket the process itself is known"}}
	doc.Security = []map[string][]string{{"token": {}}, {}}
	problem := &huma.Response{Description: "a problem, RFC 9457", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problemSchema(doc.Components.Schemas)}}}
	for path, item := range doc.Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "DELETE": item.Delete, "PUT": item.Put} {
			if op == nil {
				continue
			}
			op.Responses["default"] = problem
			pattern := method + " " + path
			r, ok := known[pattern]
			if !ok {
				continue // TestDocs fails
			}
			op.OperationID, op.Summary = r.name, r.summary
			op.Extensions = map[string]any{"x-scope": r.scope, "x-problems": r.problems}
			if r.scope == "none" {
				op.Security = []map[string][]string{{}}
			}
			if method != http.MethodGet && scopeOf(pattern) != access.Read {
				op.Parameters = append(op.Parameters, ofChanges...)
				does[pattern] = r.summary
			}
		}
	}
	streams(doc)
	return does
}

// ofChanges are the parameters of every route that changes something. The guard reads them.
var ofChanges = []*huma.Param{
	{Name: "Idempotency-Key", In: "header", Description: "the same request with this key has no second effect for a day", Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[!-~]{1,255}$"}},
	{Name: "Superloop-Confirm", In: "header", Description: "the code of superloop confirm, after a problem of the type step-up-required", Schema: &huma.Schema{Type: huma.TypeString, MaxLength: new(100)}},
}

// problemSchema describes a problem as it is answered, in place of what the library would answer by itself.
func problemSchema(r huma.Registry) *huma.Schema {
	ref := r.Schema(reflect.TypeFor[Problem](), true, "")
	delete(r.Map(), "ErrorModel")
	s := r.SchemaFromRef(ref.Ref)
	s.Required = append(s.Required, "type", "title", "status")
	// A constant to compare with, and no URL to open.
	s.Properties["type"] = &huma.Schema{Type: huma.TypeString, Description: typePrefix + "TYPE; x-problems of the route and of the document list them", Examples: []any{typePrefix + "stale-digest"}}
	s.Properties["errors"].Nullable = false
	return ref
}

// streams describes what the streams send.
func streams(doc *huma.OpenAPI) {
	for path, of := range map[string]struct {
		prefix string
		types  map[string]any
	}{
		"/api/v1/loops/{id}/events/stream": {"LoopStream", map[string]any{"message": Event{}, "problem": Trouble{}}},
		"/api/v1/stream": {"Stream", map[string]any{"row": server.Row{}, "question": Question{}, "ready": Ready{}, "events": LoopEvents{}, "gap": Gap{}, "reset": Named{}, "gone": Named{},
			"problem": Trouble{}}},
	} {
		stream := doc.Paths[path].Get.Responses["200"].Content["text/event-stream"]
		stream.Schema = messageSchema(doc.Components.Schemas, of.prefix, of.types)
		stream.Extensions = map[string]any{"x-ogen-sse-event-shape": "full-array"} // OpenAPI 3.1 has no word for it; 3.2 has itemSchema
	}
}

// messageSchema describes server-sent events whose data is JSON: a schema for each event, named by it and prefix.
func messageSchema(r huma.Registry, prefix string, types map[string]any) *huma.Schema {
	oneOf := &huma.Schema{Discriminator: &huma.Discriminator{PropertyName: "event", Mapping: map[string]string{}}}
	for _, event := range slices.Sorted(maps.Keys(types)) {
		name := prefix + strings.ToUpper(event[:1]) + event[1:]
		r.Map()[name] = &huma.Schema{Type: huma.TypeObject, Description: "a message of the stream", Required: []string{"data", "event"}, Properties: map[string]*huma.Schema{
			"id":    {Type: huma.TypeString, Description: "continue behind it with Last-Event-ID; missing: this is no place to continue at"},
			"event": {Type: huma.TypeString, Enum: []any{event}},
			"data":  r.Schema(reflect.TypeOf(types[event]), true, name),
		}}
		ref := "#/components/schemas/" + name
		oneOf.OneOf = append(oneOf.OneOf, &huma.Schema{Ref: ref})
		oneOf.Discriminator.Mapping[event] = ref
	}
	return &huma.Schema{Type: huma.TypeArray, Description: "server-sent events", Items: oneOf}
}

// schemaName names the schema of a type. Types of other packages have the name of their package before their own, since
// two packages may each have a Recovery.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if t.Name() == "" { // the body of a request: startInBody
		name = strings.Replace(name, "InBody", "Request", 1)
	}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch at := path.Base(t.PkgPath()); at {
	case ".", "api", "server", "v2":
		return name
	default:
		return strings.ToUpper(at[:1]) + at[1:] + name
	}
}

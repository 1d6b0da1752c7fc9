package api

import (
	_ "embed"
	"path"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// routesText says what each route is for, which scope a token needs for it, and which types of problems it answers with.
// The head of the file describes its syntax.
//
//go:embed routes.txt
var routesText string

// route is what the description of the interface says of a route, besides its parameters.
type route struct {
	scope, summary string
	problems       []string
}

// everywhere is the line of the types of problems with which every route may answer.
const everywhere = "*"

// routes returns the routes of routes.txt, by method and path.
var routes = sync.OnceValue(func() map[string]route {
	out := map[string]route{}
	_, text, _ := strings.Cut(routesText, "\n\n")
	for line := range strings.Lines(text) {
		part := strings.Split(strings.TrimSpace(line), " | ")
		if len(part) == 4 {
			out[part[0]] = route{part[1], part[3], strings.Fields(strings.TrimPrefix(part[2], "-"))}
		}
	}
	return out
})

// describe completes the description of the interface.
func describe(doc *huma.OpenAPI) {
	known := routes()
	if doc.Extensions == nil {
		doc.Extensions = map[string]any{}
	}
	doc.Extensions["x-problems"] = known[everywhere].problems
	for path, item := range doc.Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "DELETE": item.Delete, "PUT": item.Put} {
			r, ok := known[method+" "+path]
			if op == nil || !ok {
				continue
			}
			op.Summary = r.summary
			if op.Extensions == nil {
				op.Extensions = map[string]any{}
			}
			op.Extensions["x-scope"], op.Extensions["x-problems"] = r.scope, r.problems
		}
	}
}

// schemaName names the schema of a type. Types of other packages have the name of their package before their own, since
// two packages may each have a Recovery.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
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

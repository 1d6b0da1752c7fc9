package catalog

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5" // files that editors check have no schemas.Kind; only this test compiles their schemas
	"github.com/superloop/superloop/schemas"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write what is made of the types and of the files anew")

// The schemas are made from the Go types and their comments, so that they cannot
// say anything else; this writes them (-update) and keeps them so.
func TestSchemasAreTheTypes(t *testing.T) {
	g := newSchemaMaker(t)
	for _, s := range []struct{ file, title, about, keys string }{
		{"handlers", "Handlers of the recovery catalog", "How failures of one method family or layer are recognised, and what remedies them.", "family layer handlers"},
		{"recipes", "Recipes of the recovery catalog", "How tools get onto a system, and how to see that they work.", "recipes"},
		{"projects", "Project recipes of the recovery catalog", "How the dependencies of a project are brought up, by its lock file.", "projects"},
		{"chains", "Chains of the recovery catalog", "In which order approaches to a category of failure are tried.", "chains"},
		{"packages", "Names of packages of the recovery catalog", "Which package brings a library, header or module, by distribution family.", "groups libs headers pkgconfigs cmakes sonames programs"},
		{"overlay", "A file that adds to the recovery catalog", "recovery/*.yaml in the directory of configuration or in .superloop: any of the entries.", "family layer handlers recipes projects chains packages names groups libs headers pkgconfigs cmakes sonames programs"},
	} {
		got := g.file(s.file, s.title, s.about, strings.Fields(s.keys))
		path := filepath.Join("..", "..", "schemas", "catalog-"+s.file+".schema.json")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the types say; run go test ./recovery/catalog -run TestSchemasAreTheTypes -update", path)
		}
	}
}

// Every embedded file is valid by the schema of its kind, and by that of
// overlays; a key that the types do not have is refused by both.
// Conforms: 000-3.3-shape, 000-4.1-shape, 000-7-thin, 000-11-optional, 000-13-file, 001-scope-format
func TestEmbeddedFilesByTheSchemas(t *testing.T) {
	t.Parallel()
	compiled := map[string]*jsonschema.Schema{}
	for _, s := range []string{"handlers", "recipes", "projects", "chains", "packages", "overlay"} {
		compiled[s] = compileSchema(t, s)
		if err := compiled[s].Validate(map[string]any{"surprise": 1}); err == nil {
			t.Errorf("%s: an unknown key passes", s)
		}
	}
	err := fs.WalkDir(data, "data", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		kind := strings.TrimSuffix(filepath.Base(path), ".yaml")
		switch {
		case kind == "categories" || kind == "managers":
			return nil
		case strings.HasPrefix(kind, "guards") || filepath.Base(filepath.Dir(path)) == "handlers":
			kind = "handlers"
		case filepath.Base(filepath.Dir(path)) == "recipes":
			kind = "recipes"
		}
		text, err := data.ReadFile(path)
		if err != nil {
			return err
		}
		value := asJSON(t, text)
		for _, s := range []string{kind, "overlay"} {
			if compiled[s] == nil {
				t.Errorf("%s: no schema %s", path, s)
			} else if err := compiled[s].Validate(value); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func compileSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	k := schemas.Kind("catalog-" + name)
	if err := c.AddResource(k.ID(), bytes.NewReader(schemas.Source(k))); err != nil {
		t.Fatal(err)
	}
	sch, err := c.Compile(k.ID())
	if err != nil {
		t.Fatal(err)
	}
	return sch
}

func asJSON(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

type schemaMaker struct {
	t        *testing.T
	comments map[string]string // "Option.dep" and "Option"
	defs     map[string]any
}

func newSchemaMaker(t *testing.T) *schemaMaker {
	g := &schemaMaker{t: t, comments: map[string]string{}}
	set := token.NewFileSet()
	for _, file := range []string{"entries.go"} {
		f, err := parser.ParseFile(set, file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				ts := spec.(*ast.TypeSpec)
				g.comments[ts.Name.Name] = oneLine(gen.Doc.Text())
				st, ok := ts.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range st.Fields.List {
					if field.Tag == nil {
						continue
					}
					tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("yaml")
					text := oneLine(field.Doc.Text())
					if text == "" {
						text = oneLine(field.Comment.Text())
					}
					g.comments[ts.Name.Name+"."+tag] = text
				}
			}
		}
	}
	return g
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return ""
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

func (g *schemaMaker) file(name, title, about string, keys []string) []byte {
	g.defs = map[string]any{}
	props := map[string]any{}
	for _, key := range keys {
		props[key] = g.top(key)
	}
	root := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": schemas.Kind("catalog-" + name).ID(),
		"title": title, "description": about, "type": "object", "properties": props, "additionalProperties": false,
		"minProperties": 1, "$defs": g.defs,
	}
	if len(g.defs) == 0 {
		delete(root, "$defs")
	}
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		g.t.Fatal(err)
	}
	return append(b, '\n')
}

func (g *schemaMaker) top(key string) map[string]any {
	list := func(v any, about string) map[string]any {
		return map[string]any{"type": "array", "description": about, "items": g.typ(reflect.TypeOf(v), "")}
	}
	switch key {
	case "family":
		return map[string]any{"type": "string", "description": "The method family of the handlers, such as npm, apt or cc.", "minLength": 1}
	case "layer":
		return map[string]any{"enum": []any{"infra", "bootstrap", "guard"}, "description": "The layer of the handlers, where they belong to no family."}
	case "handlers":
		return list(Handler{}, "Failures that are recognised.")
	case "recipes":
		return list(Recipe{}, "Tools.")
	case "projects":
		return list(ProjectRecipe{}, "Kinds of projects.")
	case "chains":
		return list(Chain{}, "Chains, one for a category.")
	case "packages", "names":
		s := g.typ(reflect.TypeOf(Names{}), "")
		s["description"] = "Names of packages."
		return s
	}
	f, ok := reflect.TypeOf(Names{}).FieldByNameFunc(func(n string) bool {
		f, _ := reflect.TypeOf(Names{}).FieldByName(n)
		return f.Tag.Get("yaml") == key
	})
	if !ok {
		g.t.Fatalf("no top-level key %s", key)
	}
	s := g.typ(f.Type, "")
	s["description"] = g.comment("Names", key)
	return s
}

func (g *schemaMaker) comment(typ, field string) string {
	if c := g.comments[typ+"."+field]; c != "" {
		return c
	}
	words := strings.ReplaceAll(field, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:] + "."
}

func (g *schemaMaker) typ(t reflect.Type, at string) map[string]any {
	if values := allowedValues(at); values != nil {
		return map[string]any{"enum": values}
	}
	switch t.Kind() {
	case reflect.String:
		if at == "Option.min_version" || strings.HasSuffix(at, "[]") {
			return map[string]any{"type": []any{"string", "number", "boolean"}} // taken as it is written
		}
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": g.typ(t.Elem(), at+"[]")}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.typ(t.Elem(), at)}
	case reflect.Pointer:
		return g.typ(t.Elem(), at)
	case reflect.Struct:
		g.define(t)
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	}
	g.t.Fatalf("no schema for %s", t)
	return nil
}

func (g *schemaMaker) define(t reflect.Type) {
	if g.defs[t.Name()] != nil {
		return
	}
	props := map[string]any{}
	def := map[string]any{"type": "object", "description": g.comments[t.Name()], "properties": props, "additionalProperties": false}
	g.defs[t.Name()] = def
	for i := range t.NumField() {
		name := t.Field(i).Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		p := g.typ(t.Field(i).Type, t.Name()+"."+name)
		p["description"] = g.comment(t.Name(), name)
		props[name] = p
	}
	if slices.Contains([]string{"Handler", "Recipe", "ProjectRecipe", "Chain", "Approach", "Option"}, t.Name()) {
		props[verbExtends] = map[string]any{"type": "string", "description": "The id of the entry to change: what is given here changes, the rest stays."}
		props[verbReplace] = map[string]any{"type": "boolean", "description": "Takes the place of the entry of the same id."}
		props[verbDisabled] = map[string]any{"type": "boolean", "description": "Takes the entry of this id away."}
	}
}

// allowedValues are the closed lists of values, by type and key.
func allowedValues(at string) []any {
	list := func(s []string) []any {
		out := make([]any, len(s))
		for i := range s {
			out[i] = s[i]
		}
		return out
	}
	switch at {
	case "Handler.category", "Chain.category":
		c, _ := Embedded() // another test says what is wrong with it
		var ids []string
		for _, cat := range c.Categories {
			ids = append(ids, cat.ID)
		}
		return list(ids)
	case "Handler.persistence":
		return list(persistences)
	case "Handler.guard":
		return list([]string{string(GuardStrong), string(GuardWeak)})
	case "Handler.probes[]":
		return list(sortedKeys(Probes()))
	case "Match.facts[]":
		return list([]string{string(FactTimedOut), string(FactOOM), string(FactNotStarted), string(FactNoOutput)})
	case "Match.streams[]":
		return list([]string{"stdout", "stderr"})
	case "Option.strategy", "Approach.covers[]":
		return list(strategies)
	case "Option.executor", "Approach.executor":
		return list(executors)
	case "Option.risk", "Recipe.risk":
		return list(risks)
	case "Option.requires[]", "RecipeNeeds.conditions[]":
		return list(Conditions[:])
	case "Option.project":
		return list(actions)
	case "Option.dynamic_packages":
		return list([]string{"lib", "header", "pkgconfig", "cmake", "soname", "tool"})
	case "Recipe.category":
		return list(recipeCategories)
	case "Verify.mode":
		return list([]string{ModeVersion, ModeOutput})
	}
	return nil
}

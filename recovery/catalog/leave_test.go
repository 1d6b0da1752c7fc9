package catalog

import (
	"path/filepath"
	"strings"
	"testing"
)

// A wrong entry does not take its file with it: the others of the file count, and the problem names file, line and id.
func TestAWrongEntryIsLeftOutAlone(t *testing.T) {
	t.Parallel()
	good := strings.SplitN(newHandler, "handlers:\n", 2)[1]
	bad := strings.NewReplacer("mytool_down", "mytool_bad", `\S+`, `(`).Replace(good)
	c, ps, _ := overlays(t, map[string]string{"own.yaml": "family: mytool\nhandlers:\n" + bad + good +
		"recipes:\n  - {id: tool-a, label: A, category: core, packages: {apt: [a]}}\n  - {id: tool-b, label: B, category: nowhere, packages: {apt: [b]}}\n" +
		"packages: {libs: {mylib: {debian: [libmylib-dev]}, badlib: {debian: ['-o']}}}\n"}, nil)
	for _, id := range []string{"mytool_down", "mytool_bad"} {
		if _, ok := c.Handler(id); ok != (id == "mytool_down") {
			t.Errorf("%s is there: %v", id, ok)
		}
	}
	for _, id := range []string{"tool-a", "tool-b"} {
		if _, ok := c.Recipe(id); ok != (id == "tool-a") {
			t.Errorf("%s is there: %v", id, ok)
		}
	}
	if _, ok := c.Names.Lookup(NameLib, "mylib", "debian"); !ok || c.Names.Libs["badlib"] != nil {
		t.Errorf("the names are %v", c.Names.Libs["badlib"])
	}
	want := map[string]int{"mytool_bad": 6, "tool-b": 27, "badlib": 28}
	for _, p := range ps.Errors() {
		if filepath.Base(p.File) != "own.yaml" || p.Line != want[p.ID] || !strings.Contains(p.Effect, `"`+p.ID+`" is left out`) {
			t.Errorf("%+v", p)
		}
		delete(want, p.ID)
	}
	if len(want) > 0 || c.Held != "" {
		t.Errorf("not reported: %v; the catalog is held: %s\n%v", want, c.Held, ps)
	}
	for _, h := range c.Handlers {
		if h.Origin.Held != "" {
			t.Fatalf("%s is held: %s", h.ID, h.Origin.Held)
		}
	}
}

// What a lost entry was to take away is not given back: the entry that it names is held, and if nobody can say which
// one that is, all are.
func TestALostEntryPermitsNothing(t *testing.T) {
	t.Parallel()
	guard := "layer: guard\nhandlers: [{id: g, label: G, category: code_bug, guard: strong, match: {any: ['(']}}]\n"
	manual := "layer: infra\nhandlers: [{id: ours, label: O, category: unknown, match: {any: ['(']}, options: [{id: ask, label: Ask, strategy: manual, recommended: true, instructions: A.}]}]\n"
	for name, tt := range map[string]struct {
		text string
		held string // the handler that is held; "*" means the whole catalog, "" nothing
	}{
		"disabled, not a truth value":  {"handlers: [{id: npm_eresolve, disabled: 'yes'}]", "npm_eresolve"},
		"disabled, the verb is wrong":  {"handlers: [{id: npm_eresolve, disable: true}]", "npm_eresolve"},
		"disabled, the id is wrong":    {"handlers: [{id: npm_eresolv, disabled: true}]", "*"},
		"a change with a wrong field":  {"handlers: [{extends: npm_eresolve, match: {nott: [x]}}]", "npm_eresolve"},
		"a change with a wrong value":  {"handlers: [{extends: npm_eresolve, match: {not: ['(']}}]", "npm_eresolve"},
		"a replacement that is broken": {"handlers: [{id: npm_eresolve, replace: true, label: L}]", "npm_eresolve"},
		"the same id twice":            {"handlers: [{id: npm_eresolve, disabled: false, extends: npm_eresolve}, {id: npm_eresolve, disabled: true}]", "npm_eresolve"},
		"a guard":                      {guard, "*"},
		"a handler for people":         {manual, "*"},
		"an entry that is none":        {"handlers: [npm_eresolve]", "*"},
		"no YAML":                      {"handlers: [", "*"},
		"an unknown key":               {"handlres: [{id: npm_eresolve, disabled: true}]", "*"},
		"an empty file":                {"# nothing\n", ""},
		"an addition":                  {strings.Replace(newHandler, `\S+`, `(`, 1), ""},
		"a change of a lost addition":  {strings.Replace(newHandler, `\S+`, `(`, 1) + "recipes: []\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, inRepo := range []bool{false, true} {
				user, repo := map[string]string{"own.yaml": tt.text}, map[string]string(nil)
				if inRepo {
					user, repo = nil, user
				}
				c, ps, _ := overlays(t, user, repo)
				if len(ps.Errors()) == 0 {
					t.Fatal("there is no problem")
				}
				if (c.Held != "") != (tt.held == "*") {
					t.Errorf("the catalog is held: %q\n%v", c.Held, ps)
				}
				for _, h := range c.Handlers {
					if held := h.Origin.Foreign() != ""; held != (tt.held == "*" || h.ID == tt.held) {
						t.Fatalf("%s: held %v %q", h.ID, held, h.Origin.Foreign())
					}
				}
				if _, ok := c.Handler("npm_eresolve"); !ok {
					t.Error("what is held recognises nothing any more")
				}
			}
		})
	}
}

// Recipes, project recipes, chains and names are held like handlers, with what they contain.
func TestWhatElseIsHeld(t *testing.T) {
	t.Parallel()
	c, ps, _ := overlays(t, map[string]string{"own.yaml": "recipes: [{extends: jq, label: }]\nprojects: [{extends: npm, lable: x}]\n" +
		"chains: [{extends: timeout, approaches: [{extends: reduce_scope, confidence: 7}]}]\npackages: {headers: {zlib.h: {debian: ['-x']}}}\n"}, nil)
	r, _ := c.Recipe("jq")
	other, _ := c.Recipe("curl")
	p, ok := find(c.Projects, func(p *ProjectRecipe) bool { return p.ID == "npm" })
	if !ok {
		t.Fatal("no project recipe npm")
	}
	for name, o := range map[string]Origin{"recipe": r.Origin, "project": p.Origin, "approach": c.Chains["timeout"].Approaches[0].Origin, "name": c.NameOrigin(NameHeader, "zlib.h")} {
		if !strings.Contains(o.Foreign(), "is held: ") || !strings.Contains(o.Foreign(), "own.yaml:") {
			t.Errorf("%s: %+v", name, o)
		}
	}
	for name, o := range map[string]Origin{"recipe": other.Origin, "approach": c.Chains["vcs"].Approaches[0].Origin, "name": c.NameOrigin(NameHeader, "png.h")} {
		if o.Foreign() != "" {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if len(ps.Errors()) != 4 || c.Held != "" {
		t.Errorf("%v, held %q", ps, c.Held)
	}
	if e, _ := Embedded(); e.NameOrigin(NameHeader, "zlib.h").Held != "" || e.Chains["timeout"].Approaches[0].Origin.Held != "" {
		t.Error("the embedded catalog has changed")
	}
	held, _, _ := overlays(t, map[string]string{"own.yaml": "handlers: ["}, nil)
	if r, _ := held.Recipe("jq"); r.Origin.Foreign() == "" || held.NameOrigin(NameHeader, "zlib.h").Foreign() == "" {
		t.Error("of a catalog that is held as a whole, recipes and names are not")
	}
}

package catalog

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzOverlay: no text of an overlay makes the loader fail, or changes the
// embedded catalog; a problem always has its file.
func FuzzOverlay(f *testing.F) {
	for _, s := range []string{newHandler, "handlers: [{id: x, disabled: true}]", "a: &a [*a, *a]", "? [x]: y", "packages: {libs: {x: {debian: [y]}}}", "\ufeffrecipes: []", "- 1\n- 2", "{", "%TAG ! x", "recipes: [{id: 1.20, label: ~}]"} {
		f.Add(s)
	}
	base, err := readCompiled(compiledForm)
	if err != nil {
		f.Fatal(err)
	}
	handlers := len(base.Handlers)
	f.Fuzz(func(t *testing.T, text string) {
		doc, ps := readDocument(Origin{Source: SourceRepository, File: "x.yaml"}, []byte(text))
		if doc == nil && len(ps) == 0 {
			t.Fatal("neither a document nor a problem")
		}
		if doc != nil && len(ps) == 0 {
			var b *builder
			b, ps = overlay(base, []*document{doc}, nil)
			b.clone().finish()
		}
		for _, p := range ps {
			if p.File != "x.yaml" || p.Message == "" {
				t.Fatalf("%+v", p)
			}
		}
		if len(base.Handlers) != handlers {
			t.Fatal("the embedded handlers have changed")
		}
	})
}

// A patch changes what it names and nothing else, whatever it names, and in
// whatever order the files come that change other things.
func TestPatchesProperty(t *testing.T) {
	t.Parallel()
	base, err := readCompiled(compiledForm)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, h := range base.Handlers {
		if h.Guard == GuardNone && !h.Dominates && len(h.Examples) > 0 {
			ids = append(ids, h.ID)
		}
	}
	if len(ids) == 0 {
		t.Fatal("no handlers")
	}
	before := base.clone().finish()
	rapid.Check(t, func(rt *rapid.T) {
		id := rapid.SampledFrom(ids).Draw(rt, "id")
		priority := rapid.IntRange(-5, 5).Draw(rt, "priority")
		text := "handlers:\n  - extends: " + id + "\n    priority: " + itoa(priority) + "\n"
		doc, ps := readDocument(Origin{Source: SourceUser, File: "x.yaml"}, []byte(text))
		if len(ps) > 0 {
			rt.Fatal(ps)
		}
		b, ps := overlay(base, []*document{doc}, nil)
		if len(ps.Errors()) > 0 {
			rt.Skip("an embedded handler is not clean by itself")
		}
		after := b.clone().finish()
		for i := range before.Handlers {
			h := &before.Handlers[i]
			g, ok := after.Handler(h.ID)
			if !ok || g.Label != h.Label || len(g.Options) != len(h.Options) || len(g.Match.Any) != len(h.Match.Any) {
				rt.Fatalf("%s has changed", h.ID)
			}
			if changed := g.Origin.Source == SourceUser; changed != (h.ID == id) || changed && g.Priority != priority {
				rt.Fatalf("%s: %+v", h.ID, g.Origin)
			}
		}
	})
}

func itoa(i int) string {
	if i < 0 {
		return "-" + nth(-i)
	}
	return nth(i)
}

// A directory of the largest size with the worst of contents costs seconds at
// most, and its problems are bounded.
func TestHostileDirectories(t *testing.T) {
	t.Parallel()
	pad := func(n int) string { return strings.Repeat("#", n) + "\n" }
	for name, file := range map[string]func(i int) string{
		"unknown keys": func(int) string {
			var b strings.Builder
			for i := range 5000 {
				b.WriteString("key" + nth(i) + ": 1\n")
			}
			return b.String()
		},
		"unknown ids": func(int) string {
			return "handlers:\n" + strings.Repeat("  - {extends: nobody_knows_this}\n", 1000)
		},
		"cascade": func(i int) string { // each builds on the one before, and the first is broken
			if i == 0 {
				return strings.Replace(strings.ReplaceAll(newHandler, "mytool_down", "h0"), `\S+`, "(", 1)
			}
			return strings.ReplaceAll(newHandler, "mytool_down", "h"+nth(i)) + "recipes:\n  - {id: r" + nth(i) + ", label: R, category: core, packages: {apt: [x]}, requires: {binaries: {'*': [r" + nth(i-1) + "]}}}\n"
		},
		"deep":    func(int) string { return "handlers: " + strings.Repeat("[", 5000) },
		"anchors": func(int) string { return "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n" },
		"large":   func(int) string { return pad(MaxFileSize - 100) },
		"patterns": func(i int) string {
			return strings.Replace(strings.ReplaceAll(newHandler, "mytool_down", "p"+nth(i)), `\S+`, "(a|b|c){1,90}", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i := range testkit.Sample(6, 20, 20) {
				if err := os.WriteFile(filepath.Join(dir, nth(100+i)+".yaml"), []byte(file(i)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, ps := Load(context.Background(), Options{UserDir: dir})
			if len(ps) == 0 || len(ps) > 20*(maxProblems+1) {
				t.Errorf("%d problems", len(ps))
			}
		})
	}
}

package catalog

import (
	"slices"
	"testing"
)

func loaded(t testing.TB) *Catalog {
	t.Helper()
	c, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The names that other designs use lead to the categories of the closed list.
// Conforms: 000-3.1-category, 002-plan-2, 003-c2-names
func TestCategoryAliases(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	for alias, want := range map[string]string{
		"dependency": "dependency", "MISSING_DEPENDENCY": "dependency", "FILE_NOT_FOUND": "file_not_found", "INVALID_PATH": "file_not_found",
		"PERMISSION_DENIED": "permission_denied", "BUILD_FAILURE": "build_failure", "NETWORK_ERROR": "network_error", "VALIDATION_ERROR": "invalid_arguments",
		"RUNTIME_ERROR": "code_bug", "API_RATE_LIMIT": "rate_limited", "TIMEOUT": "timeout",
		"permissions": "permission_denied", "network": "network_error", "disk": "disk_full", "compiler": "build_failure", "bootstrap": "environment",
		"install": "dependency", "compatibility": "environment", "configuration": "config", "resources": "resources", "package_manager": "package_manager",
		"binary_not_found": "command_not_found", "extraction_failed": "corrupted", "verify_failed": "environment", "download_failed": "network_error",
		"output_too_large": "resources", "environment_missing": "environment", "directory_not_found": "file_not_found", "Disk-Full": "disk_full", "unknown": "unknown",
	} {
		got, ok := c.Category(alias)
		if !ok || got.ID != want {
			t.Errorf("%s is %v, want %s", alias, got, want)
		}
		ch, ok := c.Chain(alias)
		if !ok || ch.Category != want {
			t.Errorf("the chain of %s is that of %q", alias, ch.Category)
		}
	}
	if got, ok := c.Category("weather"); ok {
		t.Errorf("weather is %v", got)
	}
	if len(c.Categories) != 23 {
		t.Errorf("%d categories", len(c.Categories))
	}
	seen := map[string]string{}
	for _, cat := range c.Categories {
		for _, name := range append(slices.Clone(cat.Aliases), cat.ID) {
			if other, twice := seen[name]; twice {
				t.Errorf("%s means %s and %s", name, other, cat.ID)
			}
			seen[name] = cat.ID
		}
	}
}

// A catalog that was put together by hand answers like a loaded one.
func TestLookupWithoutIndex(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	hand := &Catalog{Categories: c.Categories, Chains: c.Chains, Handlers: c.Handlers, Recipes: c.Recipes, Projects: c.Projects, Managers: c.Managers, Names: c.Names}
	for i := range c.Recipes {
		r := &c.Recipes[i]
		a, okA := c.Recipe(r.ID)
		b, okB := hand.Recipe(r.ID)
		if !okA || !okB || a != r || b != r {
			t.Errorf("recipe %s", r.ID)
		}
		if got, ok := hand.RecipeByCLI(r.CLI); !ok || got.CLI != r.CLI {
			t.Errorf("by program %s: %v", r.CLI, got)
		}
	}
	for i := range c.Handlers {
		h := &c.Handlers[i]
		if a, ok := c.Handler(h.ID); !ok || a != h {
			t.Errorf("handler %s", h.ID)
		}
	}
	if m, ok := hand.Manager("apt"); !ok || m.CLI != "apt-get" || !m.Native {
		t.Errorf("apt: %+v", m)
	}
}

// Handlers come in the order in which they are asked, and defaults are filled
// in.
// Conforms: 000-1-specific, 000-2-recipe, 000-2-order, 000-4.1-verify, 000-12-order, 001-problem-default
func TestOrderAndDefaults(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	for i := range c.Handlers {
		h := &c.Handlers[i]
		if i > 0 {
			p := &c.Handlers[i-1]
			if p.Layer.Rank() < h.Layer.Rank() || p.Layer == h.Layer && p.Priority < h.Priority {
				t.Errorf("%s stands before %s", p.ID, h.ID)
			}
		}
		if h.Origin.Source != SourceEmbedded || h.Origin.Line == 0 || h.Layer == "" || h.Layer == LayerMethod && h.Family == "" {
			t.Errorf("%s: %+v", h.ID, h.Origin)
		}
		for _, o := range h.Options {
			if o.Executor == "" || o.Risk == "" {
				t.Errorf("%s/%s has no defaults", h.ID, o.ID)
			}
		}
	}
	for _, r := range c.Recipes {
		if r.CLI == "" || r.Verify.Command == "" || r.Verify.Mode == "" || r.Verify.Origin != VerifyDefault && r.Verify.Origin != VerifyGenerated {
			t.Errorf("%s: %+v", r.ID, r.Verify)
		}
	}
	for _, ch := range c.Chains {
		for i, a := range ch.Approaches {
			if a.Option != nil && (a.Option.ID == "" || a.Option.Label == "" || a.Option.Executor == "") {
				t.Errorf("%s/%s: %+v", ch.Category, a.ID, a.Option)
			}
			if i > 0 && a.Priority <= ch.Approaches[i-1].Priority {
				t.Errorf("%s is not in order", ch.Category)
			}
		}
	}
}

func BenchmarkLint(b *testing.B) {
	c := loaded(b)
	for b.Loop() {
		Lint(c)
	}
}

package catalog

import (
	"slices"
	"strings"
	"testing"
)

// TestFewRecipesHaveHandlers: what methods and systems share is written down once, so that at least four of five
// recipes need no handler of their own, and none needs more than three.
// Conforms: 000-3.3-optional, 000-4.2-none, 000-10-few
func TestFewRecipesHaveHandlers(t *testing.T) {
	t.Parallel()
	c := loaded(t)
	without := 0
	for _, r := range c.Recipes {
		own := 0
		for i := range c.Handlers {
			if h := &c.Handlers[i]; h.Layer == LayerRecipe && h.Family == r.ID {
				own++
			}
		}
		if own == 0 {
			without++
		}
		if own > 3 {
			t.Errorf("%s has %d handlers", r.ID, own)
		}
	}
	if 5*without < 4*len(c.Recipes) {
		t.Errorf("%d of %d recipes have no handler of their own", without, len(c.Recipes))
	}
}

// TestFieldsAHandlerMustHave: a handler, or an option of it, that lacks a field which the published design requires is
// refused, and the problem names the field.
// Conforms: 000-3.1-id, 000-3.1-optid, 000-11-required, 000-11-optrequired
func TestFieldsAHandlerMustHave(t *testing.T) {
	t.Parallel()
	before, rest, _ := strings.Cut(newHandler, "    options:\n")
	_, after, _ := strings.Cut(rest, "    examples:\n")
	for name, c := range map[string]struct{ text, want string }{
		"match": {strings.Replace(newHandler, `    match: {any: ['mytool: cannot reach (?P<host>\S+)']}`+"\n", "", 1),
			"/handlers/0: says nothing that a failure must have"},
		"id":               {strings.Replace(newHandler, "id: mytool_down", "priority: 1", 1), "id"},
		"category":         {strings.Replace(newHandler, "category: network_error", "priority: 1", 1), "category"},
		"options":          {before + "    examples:\n" + after, "options"},
		"an id of its own": {strings.Replace(newHandler, "id: ask", "id: wait", 1), "wait"},
		"its id":           {strings.Replace(newHandler, "id: ask, ", "", 1), "/handlers/0/options/1: has no id"},
		"its label":        {strings.Replace(newHandler, "label: Ask, ", "", 1), "/handlers/0/options/1: has no label"},
		"its strategy":     {strings.Replace(newHandler, "strategy: manual, ", "", 1), "strategy"},
	} {
		if c.text == newHandler {
			t.Fatalf("%s: nothing was taken away from\n%s", name, newHandler)
		}
		_, ps, _ := overlays(t, map[string]string{"a.yaml": c.text}, nil)
		if !slices.ContainsFunc(ps.Errors(), func(p Problem) bool { return strings.Contains(p.String(), c.want) }) {
			t.Errorf("without %s: %v", name, ps)
		}
	}
}

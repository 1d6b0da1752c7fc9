package catalog

import "strings"

// index makes the look-ups quick. It is made once, when a catalog is finished.
type index struct {
	category map[string]int // by id and by folded alias
	recipe   map[string]int
	cli      map[string]int
	project  map[string]int
	manager  map[string]int
	handler  map[string]int
	family   map[string][]int
}

func newIndex(c *Catalog) *index {
	x := &index{
		category: map[string]int{}, recipe: map[string]int{}, cli: map[string]int{}, project: map[string]int{},
		manager: map[string]int{}, handler: map[string]int{}, family: map[string][]int{},
	}
	first := func(m map[string]int, key string, i int) {
		if _, ok := m[key]; !ok && key != "" {
			m[key] = i
		}
	}
	for i := range c.Categories {
		first(x.category, foldName(c.Categories[i].ID), i)
	}
	for i := range c.Categories {
		for _, a := range c.Categories[i].Aliases {
			first(x.category, foldName(a), i)
		}
	}
	for i := range c.Recipes {
		first(x.recipe, c.Recipes[i].ID, i)
		if c.Recipes[i].CLI == c.Recipes[i].ID { // the namesake comes before another that also brings the program
			x.cli[c.Recipes[i].CLI] = i
		}
	}
	for i := range c.Recipes {
		first(x.cli, c.Recipes[i].CLI, i)
	}
	for i := range c.Projects {
		first(x.project, c.Projects[i].ID, i)
	}
	for i := range c.Managers {
		first(x.manager, c.Managers[i].ID, i)
	}
	for i := range c.Handlers {
		h := &c.Handlers[i]
		first(x.handler, h.ID, i)
		if h.Layer == LayerMethod {
			x.family[h.Family] = append(x.family[h.Family], i)
		}
	}
	return x
}

// foldName lets the upper-case and hyphenated names of other designs count as
// the same name.
func foldName(s string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(s)), "-", "_")
}

// lookup is the index, made on the spot for a catalog that has none. That costs
// as much as a scan of the catalog, which is what a hand-made one is for.
func (c *Catalog) lookup() *index {
	if c.index != nil {
		return c.index
	}
	return newIndex(c)
}

func at[T any](list []T, m map[string]int, key string) (*T, bool) {
	i, ok := m[key]
	if !ok {
		return nil, false
	}
	return &list[i], true
}

// Category finds a category by its id or by one of its aliases, without regard
// to case.
func (c *Catalog) Category(idOrAlias string) (*Category, bool) {
	return at(c.Categories, c.lookup().category, foldName(idOrAlias))
}

// Chain is the chain of a category, which is given by id or alias. One without
// approaches means: ask a person.
func (c *Catalog) Chain(category string) (Chain, bool) {
	if cat, ok := c.Category(category); ok {
		category = cat.ID
	}
	ch, ok := c.Chains[category]
	return ch, ok
}

// Recipe finds a recipe by its id.
func (c *Catalog) Recipe(id string) (*Recipe, bool) { return at(c.Recipes, c.lookup().recipe, id) }

// RecipeByCLI finds the recipe that brings a program: the one of the same name
// if there is one, else the first that says so.
func (c *Catalog) RecipeByCLI(program string) (*Recipe, bool) {
	return at(c.Recipes, c.lookup().cli, program)
}

// Project finds a project recipe by its id.
func (c *Catalog) Project(id string) (*ProjectRecipe, bool) {
	return at(c.Projects, c.lookup().project, id)
}

// Manager finds a package manager by its id.
func (c *Catalog) Manager(id string) (*Manager, bool) { return at(c.Managers, c.lookup().manager, id) }

// Handler finds a handler of any layer by its id.
func (c *Catalog) Handler(id string) (*Handler, bool) { return at(c.Handlers, c.lookup().handler, id) }

// Family lists the handlers of a method family, in their order.
func (c *Catalog) Family(name string) []*Handler {
	var out []*Handler
	for _, i := range c.lookup().family[name] {
		out = append(out, &c.Handlers[i])
	}
	return out
}

// Families lists the method families that have handlers, in the order of the
// catalog.
func (c *Catalog) Families() []string {
	var out []string
	seen := map[string]bool{}
	for i := range c.Handlers {
		if h := &c.Handlers[i]; h.Layer == LayerMethod && !seen[h.Family] {
			seen[h.Family] = true
			out = append(out, h.Family)
		}
	}
	return out
}

// The kinds of Names, as Lookup and NameOrigin take them.
const (
	NameGroup     = "groups"
	NameLib       = "libs"
	NameHeader    = "headers"
	NamePkgConfig = "pkgconfigs"
	NameCMake     = "cmakes"
	NameSoname    = "sonames"
)

// Kind is the table of that kind, nil for an unknown one.
func (n *Names) Kind(kind string) map[string]map[string][]string {
	switch kind {
	case NameGroup:
		return n.Groups
	case NameLib:
		return n.Libs
	case NameHeader:
		return n.Headers
	case NamePkgConfig:
		return n.PkgConfigs
	case NameCMake:
		return n.CMakes
	case NameSoname:
		return n.Sonames
	}
	return nil
}

// Lookup gives the packages of a name of one kind for a distribution family.
func (n *Names) Lookup(kind, name, family string) ([]string, bool) {
	pkgs, ok := n.Kind(kind)[name][family]
	return pkgs, ok
}

// NameOrigin is where a name of one kind comes from. What the repository brought
// must not be installed by itself, as with every other entry.
func (c *Catalog) NameOrigin(kind, name string) Origin {
	if o, ok := c.Names.Origins[kind+"/"+name]; ok {
		return o
	}
	return Origin{Source: SourceEmbedded, File: embeddedPackages}
}

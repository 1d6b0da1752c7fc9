package catalog

import (
	"slices"
	"strings"
)

// foldName lets the upper-case and hyphenated names of other designs count as the same name.
func foldName(s string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(s)), "-", "_")
}

func find[T any](list []T, is func(*T) bool) (*T, bool) {
	for i := range list {
		if is(&list[i]) {
			return &list[i], true
		}
	}
	return nil, false
}

// Category finds a category by its id or by one of its aliases, without regard to case.
func (c *Catalog) Category(idOrAlias string) (*Category, bool) {
	name := foldName(idOrAlias)
	if cat, ok := find(c.Categories, func(cat *Category) bool { return cat.ID == name }); ok {
		return cat, true
	}
	return find(c.Categories, func(cat *Category) bool { return slices.Contains(cat.Aliases, name) })
}

// categoryID is the id of a category that is given by id or alias; of an unknown one it is what is given.
func (c *Catalog) categoryID(idOrAlias string) string {
	if cat, ok := c.Category(idOrAlias); ok {
		return cat.ID
	}
	return idOrAlias
}

// Chain is the chain of a category, which is given by id or alias. One without approaches means: ask an operator.
func (c *Catalog) Chain(category string) (Chain, bool) {
	ch, ok := c.Chains[c.categoryID(category)]
	return ch, ok
}

// Recipe finds a recipe by its id.
func (c *Catalog) Recipe(id string) (*Recipe, bool) {
	return find(c.Recipes, func(r *Recipe) bool { return r.ID == id })
}

// RecipeByCLI finds the recipe that brings a program: the one of the same name if there is one, else the first.
func (c *Catalog) RecipeByCLI(program string) (*Recipe, bool) {
	if r, ok := c.Recipe(program); ok && r.CLI == program {
		return r, true
	}
	return find(c.Recipes, func(r *Recipe) bool { return r.CLI == program && program != "" })
}

// Manager finds a package manager by its id.
func (c *Catalog) Manager(id string) (*Manager, bool) {
	return find(c.Managers, func(m *Manager) bool { return m.ID == id })
}

// Handler finds a handler of any layer by its id.
func (c *Catalog) Handler(id string) (*Handler, bool) {
	return find(c.Handlers, func(h *Handler) bool { return h.ID == id })
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

// table is the table of a kind, nil for an unknown kind.
func (n *Names) table(kind string) *map[string]map[string][]string {
	return map[string]*map[string]map[string][]string{
		NameGroup: &n.Groups, NameLib: &n.Libs, NameHeader: &n.Headers, NamePkgConfig: &n.PkgConfigs, NameCMake: &n.CMakes, NameSoname: &n.Sonames,
	}[kind]
}

// Lookup gives the packages of a name of one kind for a distribution family.
func (n *Names) Lookup(kind, name, family string) ([]string, bool) {
	table := n.table(kind)
	if table == nil {
		return nil, false
	}
	pkgs, ok := (*table)[name][family]
	return pkgs, ok
}

// NameOrigin is where a name of one kind comes from. What the repository brought must not be installed by itself.
func (c *Catalog) NameOrigin(kind, name string) Origin {
	if o, ok := c.Names.Origins[kind+"/"+name]; ok {
		return o
	}
	return Origin{Source: SourceEmbedded, File: embeddedPackages}
}

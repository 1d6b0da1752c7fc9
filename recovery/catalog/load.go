// Package catalog holds superloop's knowledge about failures: the closed list of categories, a chain of approaches for
// each category, the handlers that recognise a failure and list its remedies, the recipes that install a tool or a
// project's dependencies, the package managers, and the names of packages.
//
// The catalog is data. The program contains YAML files in a compiled form. Files of the operator and of the repository
// (overlays) extend or change the entries; the linter checks them. No entry can grant a permission: an entry only
// carries commands, and the policy judges each command before it runs.
package catalog

import (
	"cmp"
	"context"
	_ "embed" // for the compiled form
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The bounds on a directory of overlays. Sizes are in bytes.
const (
	MaxFileSize = 1 << 20
	MaxFiles    = 200
	MaxDirSize  = 4 << 20 // all files together
)

const repositoryDir = ".superloop/recovery" // the directory of a repository's overlays, below its root

// Options names the directories of the overlays. "" means no directory. A directory that does not exist counts as
// empty.
type Options struct {
	UserDir string // the directory of the operator's own files: $XDG_CONFIG_HOME/superloop/recovery
	RepoDir string // the root of the supervised repository; its files stand in .superloop/recovery below it
	// More are further files of the operator, read after those of UserDir. They need not be on the disk, so a file can be
	// tried before it is written.
	More []File
}

// File is a file of the catalog.
type File struct {
	Name string // for problems and origins
	Data []byte
}

// UserDir returns the directory of the operator's own overlays, or "" if neither XDG_CONFIG_HOME nor a home directory
// is known.
func UserDir() string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the XDG standard says to ignore a relative path
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "superloop", "recovery")
}

// Load returns the embedded catalog with the overlays of the user and then of the repository applied. In a directory it
// applies the files in the order of their names, and later entries win. Load leaves out an entry with an error and
// reports it; the other entries count. It leaves out a file whose entries it cannot tell apart. An operator decides
// about the commands of what a lost entry was to change, and about every command if nobody can say what that was: see
// Origin.Foreign. An entry from the repository has the Origin.Source "repository", and its commands must not run
// without an operator either.
//
// If the context is cancelled, Load leaves out the files that it has not read yet and reports that as a problem.
func Load(ctx context.Context, o Options) (*Catalog, Problems) { return Read(ctx, o).Load() }

// Load makes the catalog, as the function Load says. It reads no file.
func (s *Sources) Load() (*Catalog, Problems) {
	var problems Problems
	base, err := readCompiled(compiledForm)
	if err != nil {
		problems = Problems{{File: "data", Message: err.Error()}}
	}
	for _, dir := range s.dirs {
		var docs []*document
		unread := slices.Clone(dir.unread)
		for _, f := range dir.files {
			doc, ps := readDocument(Origin{Source: dir.source, File: f.Name}, f.Data)
			if unread = append(unread, ps...); doc != nil && len(ps) == 0 {
				docs = append(docs, doc)
			}
		}
		if len(docs)+len(unread) > 0 {
			next, ps := overlay(base, docs, unread)
			base, problems = next, append(problems, ps...)
		}
	}
	return base.finish(), problems
}

// compiledForm is the embedded catalog in compiled form: a builder as writeBinary writes it. People edit the YAML files
// under data. To read these takes 0.1 s and more, for which a loop would wait between a failure and its remedy. To read
// the compiled form takes some milliseconds. After an edit a test fails until go generate has made the form again.
//
//go:generate go test -run ^TestCompiledIsTheData$ -update .
//go:embed compiled.bin
var compiledForm string

const embeddedPackages = "data/packages.yaml"

// readCompiled reads a compiled form. After an error the builder is empty. The package does not keep the builder,
// because a loop runs for hours and needs the catalog for moments.
func readCompiled(form string) (*builder, error) {
	b := &builder{}
	if !readBinary(form, b) {
		return &builder{}, errors.New("reading the embedded catalog: its compiled form is not whole")
	}
	return b, nil
}

// Embedded returns the built-in catalog without overlays. An error means that superloop itself is defective; the
// catalog is then empty.
func Embedded() (*Catalog, error) {
	b, err := readCompiled(compiledForm)
	return b.finish(), err
}

// foldName returns the normal form of a category's name: lower case, with underscores instead of hyphens. So names such
// as "Disk-Full" lead to the same category.
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

// categoryID returns the id of a category that is given by id or alias. It returns an unknown name unchanged.
func (c *Catalog) categoryID(idOrAlias string) string {
	if cat, ok := c.Category(idOrAlias); ok {
		return cat.ID
	}
	return idOrAlias
}

// Chain returns the chain of a category, which is given by id or alias. A chain without approaches leaves only AskUser.
func (c *Catalog) Chain(category string) (Chain, bool) {
	ch, ok := c.Chains[c.categoryID(category)]
	return ch, ok
}

// Recipe finds a recipe by its id. A program of Names that no recipe installs is a recipe, too.
func (c *Catalog) Recipe(id string) (*Recipe, bool) {
	if r, ok := find(c.Recipes, func(r *Recipe) bool { return r.ID == id }); ok {
		return r, true
	}
	if _, ok := find(c.Recipes, func(r *Recipe) bool { return r.CLI == id }); ok {
		return nil, false
	}
	return c.program(id)
}

// RecipeByCLI finds the recipe that installs a program. It prefers a recipe whose id is the name of the program.
func (c *Catalog) RecipeByCLI(program string) (*Recipe, bool) {
	if r, ok := find(c.Recipes, func(r *Recipe) bool { return r.ID == program }); ok && r.CLI == program {
		return r, true
	}
	if r, ok := find(c.Recipes, func(r *Recipe) bool { return r.CLI == program && program != "" }); ok {
		return r, true
	}
	return c.program(program)
}

// ProgramMethods are the methods besides package managers by which a program of Names can be installed, with the
// command, to which the package's name is appended, and the recipe that the command needs.
var ProgramMethods = map[string]struct {
	Command []string
	Needs   string
	Sudo    bool
}{
	"pipx":  {[]string{"pipx", "install"}, "pipx", false},
	"npm":   {[]string{"npm", "install", "--global"}, "npm", true},
	"cargo": {[]string{"cargo", "install", "--locked"}, "cargo", false},
	"gem":   {[]string{"gem", "install"}, "gem", true},
	"go":    {[]string{"go", "install"}, "go", false},
}

// program makes a recipe of a program of Names.
func (c *Catalog) program(name string) (*Recipe, bool) {
	by, ok := c.Names.Programs[name]
	if !ok {
		return nil, false
	}
	r := &Recipe{ID: name, Label: name, CLI: name, Category: "program", Risk: RiskMedium, Packages: map[string][]string{}, Install: map[string][][]string{},
		NeedsSudo: map[string]bool{}, Requires: RecipeNeeds{Binaries: map[string][]string{}}, Origin: c.NameOrigin(NameProgram, name)}
	for i := range c.Managers {
		for _, family := range c.Managers[i].Families {
			if pkgs := by[family]; len(pkgs) > 0 && (family != "macos" || c.Managers[i].ID == "brew") {
				r.Packages[c.Managers[i].ID] = pkgs
			}
		}
	}
	for method, m := range ProgramMethods {
		for _, pkg := range by[method] {
			r.Install[method] = append(r.Install[method], append(slices.Clone(m.Command), pkg))
			r.Requires.Binaries[method], r.NeedsSudo[method] = []string{m.Needs}, m.Sudo
		}
	}
	return r, true
}

// Manager finds a package manager by its id.
func (c *Catalog) Manager(id string) (*Manager, bool) {
	return find(c.Managers, func(m *Manager) bool { return m.ID == id })
}

// Handler finds a handler of any layer by its id.
func (c *Catalog) Handler(id string) (*Handler, bool) {
	return find(c.Handlers, func(h *Handler) bool { return h.ID == id })
}

// The kinds of names in Names, for the argument kind of Lookup and NameOrigin.
const (
	NameGroup     = "groups"
	NameLib       = "libs"
	NameHeader    = "headers"
	NamePkgConfig = "pkgconfigs"
	NameCMake     = "cmakes"
	NameSoname    = "sonames"
	NameProgram   = "programs"
)

// table returns the table of a kind of names, or nil for an unknown kind.
func (n *Names) table(kind string) *map[string]map[string][]string {
	return map[string]*map[string]map[string][]string{
		NameGroup: &n.Groups, NameLib: &n.Libs, NameHeader: &n.Headers, NamePkgConfig: &n.PkgConfigs, NameCMake: &n.CMakes, NameSoname: &n.Sonames,
		NameProgram: &n.Programs,
	}[kind]
}

// Lookup returns the packages for a name of one kind in a distribution family.
func (n *Names) Lookup(kind, name, family string) ([]string, bool) {
	table := n.table(kind)
	if table == nil {
		return nil, false
	}
	pkgs, ok := (*table)[name][family]
	return pkgs, ok
}

// NameOrigin returns the origin of a name of one kind. Packages whose name is foreign (Origin.Foreign)
// must not be installed without an operator.
func (c *Catalog) NameOrigin(kind, name string) Origin {
	if o, ok := c.Names.Origins[kind+"/"+name]; ok {
		o.Held = cmp.Or(o.Held, c.Held)
		return o
	}
	return Origin{Source: SourceEmbedded, File: embeddedPackages, Held: c.Held}
}

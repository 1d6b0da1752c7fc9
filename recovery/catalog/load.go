// Package catalog is what superloop knows about failures of the environment: the closed list of categories, the chains
// of approaches for each, the handlers that recognise a failure and list its remedies, the recipes that install a tool
// or bring a project's dependencies up, the package managers and the names of packages.
//
// All of it is data: YAML, compiled, checked against a schema, and extended or overridden by an operator's own files. No
// entry can grant anything: an entry only carries commands, and the policy judges each of them before it runs.
package catalog

import (
	"context"
	_ "embed" // for the compiled form
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The bounds on what a directory of overlays may hold.
const (
	MaxFileSize = 1 << 20
	MaxFiles    = 200
	MaxDirSize  = 4 << 20 // of all files together
	maxRounds   = 8       // in which broken files take out those that build on them
)

const repositoryDir = ".superloop/recovery" // of the overlays of a repository

// Options says where overlays are looked for. An empty directory means none; one that does not exist holds none.
type Options struct {
	UserDir string // holds the operator's own files: $XDG_CONFIG_HOME/superloop/recovery
	RepoDir string // the root of the supervised repository; its files stand in .superloop/recovery below it
}

// UserDir is where an operator's own files stand, or "" if the system does not say where its configuration is.
func UserDir() string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the standard asks to ignore a relative one
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "superloop", "recovery")
}

// Load is the embedded catalog with the user's and the repository's files on top, each directory in the order of the
// file names, later ones winning. A file with an error is left out whole and its problems are reported; the others
// count. What a file of the repository carries has the Origin.Source "repository" and must never run by itself.
//
// A cancelled context leaves out the files that were not read yet, and says so.
func Load(ctx context.Context, o Options) (*Catalog, Problems) {
	var problems Problems
	own, err := readCompiled(compiledForm)
	if err != nil {
		problems = Problems{{File: "data", Message: err.Error()}}
	}
	base := own
	for _, dir := range []overlayDir{{SourceUser, o.UserDir, "."}, {SourceRepository, o.RepoDir, repositoryDir}} {
		docs, unread := dir.read(ctx)
		if problems = append(problems, unread...); len(docs) > 0 {
			next, ps := overlay(base, docs)
			base, problems = next, append(problems, ps...)
		}
	}
	c := base.finish()
	c.Overlaid = base != own
	return c, problems
}

// overlay applies the documents of one directory. Files may refer to each other's entries in any order, so they are
// judged together: those with errors are taken out and the rest is judged again, until it is clean.
func overlay(base *builder, docs []*document) (*builder, Problems) {
	var problems Problems
	for round := 1; ; round++ {
		if round > maxRounds {
			for _, doc := range docs {
				problems = append(problems, Problem{File: doc.origin.File, Line: 1, Column: 1, Message: "left out: too many files build on broken ones; correct those first"})
			}
			return base, problems.sorted()
		}
		b := base.clone()
		broken := map[string]bool{}
		for _, doc := range docs {
			next := b.clone()
			if ps := next.apply(doc); len(ps) > 0 {
				problems = append(problems, ps...)
				broken[doc.origin.File] = true
				continue
			}
			b = next
		}
		ps := lintDocuments(b.finish(), docs, broken)
		for _, p := range ps.Errors() {
			broken[p.File] = true
		}
		if len(broken) == 0 {
			return b, append(problems, ps...).sorted()
		}
		problems = append(problems, ps.Errors()...)
		docs = slices.DeleteFunc(docs, func(d *document) bool { return broken[d.origin.File] })
	}
}

type overlayDir struct {
	source string
	root   string // nothing outside of it is ever opened
	below  string
}

// read reads the files of a directory, those that are broken excepted.
func (o overlayDir) read(ctx context.Context) ([]*document, Problems) {
	if o.root == "" {
		return nil, nil
	}
	dir := filepath.Join(o.root, filepath.FromSlash(o.below))
	fail := func(err error) ([]*document, Problems) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, Problems{{File: dir, Message: "cannot be read: " + reason(err)}}
	}
	outer, err := os.OpenRoot(o.root)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = outer.Close() }()
	root, err := outer.OpenRoot(o.below)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), ".") // sorted
	if err != nil {
		return fail(err)
	}
	names, problems := overlayFiles(entries, dir)
	var docs []*document
	size := 0
	for _, name := range names {
		file := filepath.Join(dir, name)
		if err := ctx.Err(); err != nil {
			return docs, append(problems, Problem{File: file, Message: "was not read: " + err.Error()})
		}
		text, err := readCapped(root, name)
		if err != nil {
			problems = append(problems, Problem{File: file, Message: "cannot be read: " + reason(err)})
			continue
		}
		if size += len(text); size > MaxDirSize {
			return docs, append(problems, Problem{
				File: file, Message: fmt.Sprintf("was not read, nor the files after it: together they are larger than %d bytes", MaxDirSize),
			})
		}
		doc, ps := readDocument(Origin{Source: o.source, File: file}, text)
		problems = append(problems, ps...)
		if doc != nil && len(ps) == 0 {
			docs = append(docs, doc)
		}
	}
	return docs, problems
}

// overlayFiles are the names of the files to read, in the order of the entries. It warns of those that an operator may
// believe to be read.
func overlayFiles(entries []fs.DirEntry, dir string) (names []string, problems Problems) {
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "."), e.IsDir():
		case strings.HasSuffix(name, ".yaml"):
			names = append(names, name)
		case strings.HasSuffix(name, ".yml"), strings.HasSuffix(name, ".json"):
			problems = append(problems, Problem{File: filepath.Join(dir, name), Warning: true, Message: "is not read: only names that end in .yaml are"})
		}
	}
	if len(names) > MaxFiles {
		problems = append(problems, Problem{
			File: dir, Message: fmt.Sprintf("holds %d files, of which only the first %d are read: put several handlers into one file", len(names), MaxFiles),
		})
		names = names[:MaxFiles]
	}
	return names, problems.sorted()
}

func readCapped(root *os.Root, name string) ([]byte, error) {
	// Without waiting, because a named pipe has no end.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err == nil && len(text) > MaxFileSize {
		err = fmt.Errorf("larger than %d bytes: split it into several files", MaxFileSize)
	}
	return text, err
}

// reason is an error without the name of the system call and the path, which stand in the problem already.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if strings.Contains(err.Error(), "escapes") {
		return "it is a link out of its directory; copy the file instead"
	}
	return err.Error()
}

// People read and write the YAML files under data. A process needs 0.1 s and more to read them, and a supervisor would
// wait for that between a failure and its remedy. So the program contains a compiled form of them instead, which is
// read in some milliseconds: a builder as writeBinary writes it. A test fails until the form is made again after an
// edit.
//
//go:generate go test -run ^TestCompiledIsTheData$ -update .
//go:embed compiled.bin
var compiledForm string

const embeddedPackages = "data/packages.yaml"

// readCompiled reads a compiled form; after an error the builder is empty. It is not kept: a supervisor runs for hours
// and needs the catalog for moments.
func readCompiled(form string) (*builder, error) {
	b := &builder{}
	if !readBinary(form, b) {
		return &builder{}, errors.New("reading the embedded catalog: its compiled form is not whole")
	}
	return b, nil
}

// Embedded is the catalog that superloop brings, without anybody's files. An error is a mistake in superloop itself;
// the catalog is empty then.
func Embedded() (*Catalog, error) {
	b, err := readCompiled(compiledForm)
	return b.finish(), err
}

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

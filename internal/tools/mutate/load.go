package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is one file that mutants are made of.
type source struct {
	path string // absolute
	text []byte
	tree *ast.File
	own  bool // written by people: it may be mutated
}

// target is one package whose tests are judged.
type target struct {
	path, dir string
	goVersion string
	fset      *token.FileSet
	files     []*source
	info      *types.Info
	pkg       *types.Package
	imports   types.Importer
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export   string
	GoFiles, CgoFiles         []string
	TestGoFiles, XTestGoFiles []string
	DepOnly                   bool
	ImportMap                 map[string]string
	Module                    *struct{ GoVersion string }
	Error                     *struct{ Err string }
}

// load reads and checks the packages that the patterns name, from dir. What they
// import comes as export data, which go list compiles where it is missing.
func load(ctx context.Context, dir string, patterns []string) ([]*target, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-e", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,DepOnly,ImportMap,Module,Error", "--"}, patterns...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w\n%s", err, stderr.Bytes())
	}
	exports, renamed := map[string]string{}, map[string]string{}
	var wanted []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("listing packages: %w", err)
		}
		exports[p.ImportPath] = p.Export
		for from, to := range p.ImportMap {
			renamed[from] = to
		}
		if !p.DepOnly {
			wanted = append(wanted, p)
		}
	}
	var targets []*target
	for _, p := range wanted {
		switch {
		case p.Error != nil:
			return nil, fmt.Errorf("loading %s: %s", p.ImportPath, p.Error.Err)
		case len(p.CgoFiles) > 0:
			return nil, fmt.Errorf("loading %s: it uses cgo, which mutate does not read", p.ImportPath)
		case len(p.TestGoFiles)+len(p.XTestGoFiles) == 0:
			return nil, fmt.Errorf("loading %s: it has no tests, so it notices nothing", p.ImportPath)
		}
		t, err := parsed(p, exports, renamed)
		if err != nil {
			return nil, fmt.Errorf("loading %s: %w", p.ImportPath, err)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// parsed parses and type-checks one package.
func parsed(p listed, exports, renamed map[string]string) (*target, error) {
	t := &target{path: p.ImportPath, dir: p.Dir, fset: token.NewFileSet()}
	if p.Module != nil && p.Module.GoVersion != "" {
		t.goVersion = "go" + p.Module.GoVersion
	}
	t.imports = importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) {
		if to := renamed[path]; to != "" {
			path = to
		}
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	for _, name := range p.GoFiles {
		file := filepath.Join(p.Dir, name)
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(t.fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		t.files = append(t.files, &source{path: file, text: text, tree: tree, own: !ast.IsGenerated(tree) && !strings.HasSuffix(name, "_test.go")})
	}
	var err error
	t.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	t.pkg, err = t.typeCheck(nil, nil, t.info)
	return t, err
}

// typeCheck checks the package, with other text in the place of one file if
// there is any. What it accepts compiles, but for rare limits of the compiler.
func (t *target) typeCheck(of *source, text []byte, info *types.Info) (*types.Package, error) {
	var trees []*ast.File
	for _, f := range t.files {
		tree := f.tree
		if f == of {
			var err error
			if tree, err = parser.ParseFile(t.fset, f.path, text, parser.SkipObjectResolution); err != nil {
				return nil, err
			}
		}
		trees = append(trees, tree)
	}
	conf := types.Config{Importer: t.imports, GoVersion: t.goVersion}
	return conf.Check(t.path, t.fset, trees, info)
}

// candidates are all mutants of the file, in the order of their places.
func (t *target) candidates(f *source) []*mutant {
	if !f.own {
		return nil
	}
	m := &mutator{fset: t.fset, src: f, target: t}
	m.file()
	return m.found
}

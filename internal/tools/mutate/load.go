package main

import (
	"bytes"
	"cmp"
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
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
)

// source is one file that mutants are made of.
type source struct {
	path string // absolute
	text []byte
	tree *ast.File
}

// target is one package whose tests are judged.
type target struct {
	path, dir string
	fset      *token.FileSet
	files     []*source
	info      *types.Info
	imports   types.Importer
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export            string
	GoFiles, TestGoFiles, XTestGoFiles []string
	DepOnly                            bool
	Error                              *struct{ Err string }
}

// load reads and checks the packages that the patterns name, from dir. What they import comes as export data, which go
// list compiles where it is missing.
func load(ctx context.Context, dir string, patterns []string) (targets []*target, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-e", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,TestGoFiles,XTestGoFiles,DepOnly,Error", "--"}, patterns...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w\n%s", err, stderr.Bytes())
	}
	exports := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; { // a package comes after what it imports
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return targets, nil
		} else if err != nil {
			return nil, fmt.Errorf("listing packages: %w", err)
		}
		exports[p.ImportPath] = p.Export
		if p.DepOnly {
			continue
		}
		t, err := parsed(p, exports)
		if err != nil {
			return nil, fmt.Errorf("loading %s: %w", p.ImportPath, err)
		}
		targets = append(targets, t)
	}
}

// parsed parses and type-checks one package.
func parsed(p listed, exports map[string]string) (*target, error) {
	switch {
	case p.Error != nil:
		return nil, errors.New(p.Error.Err)
	case len(p.TestGoFiles)+len(p.XTestGoFiles) == 0:
		return nil, errors.New("it has no tests, so it notices nothing")
	}
	t := &target{path: p.ImportPath, dir: p.Dir, fset: token.NewFileSet()}
	t.imports = importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) {
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
		t.files = append(t.files, &source{path: file, text: text, tree: tree})
	}
	t.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	_, err := t.typeCheck(nil, nil, t.info)
	return t, err
}

// typeCheck checks the package, with other text in the place of one file if there is any. What it accepts compiles, but
// for rare limits of the compiler.
func (t *target) typeCheck(of *source, text []byte, info *types.Info) (*types.Package, error) {
	trees := make([]*ast.File, len(t.files))
	for i, f := range t.files {
		trees[i] = f.tree
		if f == of {
			var err error
			if trees[i], err = parser.ParseFile(t.fset, f.path, text, parser.SkipObjectResolution); err != nil {
				return nil, err
			}
		}
	}
	return (&types.Config{Importer: t.imports}).Check(t.path, t.fset, trees, info)
}

// draw hands out mutants at random, to each file as many as its share of all candidates. It may be used from several
// goroutines.
type draw struct {
	mu    sync.Mutex
	files []*share // that have candidates left
	drawn int
}

// share is what one file has to give; size is its part of all candidates.
type share struct {
	left  []*mutant
	size  float64
	drawn int
}

// newDraw shuffles the candidates of each file. The seed and the sources decide all.
func newDraw(targets []*target, seed uint64) *draw {
	d, total := &draw{}, 0.0
	random := rand.New(rand.NewPCG(seed, 0))
	for _, t := range targets {
		for _, f := range t.files {
			if left := t.candidates(f); len(left) > 0 {
				random.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
				d.files = append(d.files, &share{left: left, size: float64(len(left))})
				total += float64(len(left))
			}
		}
	}
	for _, s := range d.files {
		s.size /= total
	}
	// A file too small for a whole mutant has its chance all the same.
	random.Shuffle(len(d.files), func(i, j int) { d.files[i], d.files[j] = d.files[j], d.files[i] })
	return d
}

// next gives a mutant that the type checker accepts, of the file that lacks the most to its share; nil when there is
// none left.
func (d *draw) next() *mutant {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.files) > 0 {
		lack := func(s *share) float64 { return s.size*float64(d.drawn+1) - float64(s.drawn) }
		s := slices.MaxFunc(d.files, func(a, b *share) int { return cmp.Compare(lack(a), lack(b)) })
		for len(s.left) > 0 {
			m := s.left[0]
			s.left = s.left[1:]
			if _, err := m.target.typeCheck(m.src, m.text(), nil); err == nil {
				s.drawn++
				d.drawn++
				return m
			}
		}
		d.files = slices.DeleteFunc(d.files, func(s *share) bool { return len(s.left) == 0 })
	}
	return nil
}

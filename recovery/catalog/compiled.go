package catalog

import (
	"bytes"
	_ "embed" // for the compiled form
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"slices"
	"sync"
)

// The files under data are what a person reads and writes. To read them takes a process
// 0.1 s and more, and a supervisor does it between a failure and its cure: this
// is the same in a form that is read in some milliseconds. The examples, more than half of
// the text, which few need, stand in a form of their own.
//
//go:generate go test -run ^TestCompiledIsTheData$ -update .
var (
	//go:embed compiled.gob
	compiledForm []byte
	//go:embed examples.gob
	examplesForm []byte
)

// compiled is a builder as encoding/gob takes it.
type compiled struct {
	Sum uint64 // of the files that it was made of

	Categories []Category
	Chains     []Chain
	Handlers   []Handler
	Recipes    []Recipe
	Projects   []ProjectRecipe
	Managers   []Manager
	Names      Names
}

// examples are those of the handlers, in their order, and then of the handlers of the
// recipes.
type examples struct {
	Sum uint64
	All []exampleLists
}

type exampleLists struct{ Examples, CounterExamples []Example }

// sumOf tells one state of the files from another. It guards against an edit after
// which nobody made the compiled form again, not against an enemy: both are part of
// the program.
func sumOf(files []embeddedFile) uint64 {
	table := crc32.MakeTable(crc32.Castagnoli) // of which processors have an instruction
	var sum uint32
	size := 0
	for _, f := range files {
		sum = crc32.Update(crc32.Update(sum, table, []byte(f.path+"\x00")), table, f.text)
		size += len(f.text)
	}
	return uint64(sum)<<32 | uint64(uint32(size))
}

// compile gives the compiled form of a builder that files were read into, and that of
// the examples.
func (b *builder) compile(files []embeddedFile) (form, ofExamples []byte, err error) {
	c := compiled{
		Sum: sumOf(files), Categories: b.categories, Chains: b.chains, Handlers: slices.Clone(b.handlers), Recipes: slices.Clone(b.recipes),
		Projects: b.projects, Managers: b.managers, Names: b.names,
	}
	x := examples{Sum: c.Sum}
	for i := range c.Recipes {
		c.Recipes[i].OnFailure = slices.Clone(c.Recipes[i].OnFailure)
	}
	for h := range allHandlers(c.Handlers, c.Recipes) {
		x.All = append(x.All, exampleLists{h.Examples, h.CounterExamples})
		h.Examples, h.CounterExamples = nil, nil
	}
	var out, also bytes.Buffer
	if err := errors.Join(gob.NewEncoder(&out).Encode(c), gob.NewEncoder(&also).Encode(x)); err != nil {
		return nil, nil, fmt.Errorf("compiling the catalog: %w", err)
	}
	return out.Bytes(), also.Bytes(), nil
}

// allHandlers are those of a catalog, and then those of its recipes.
func allHandlers(handlers []Handler, recipes []Recipe) iter.Seq[*Handler] {
	return func(yield func(*Handler) bool) {
		for i := range handlers {
			if !yield(&handlers[i]) {
				return
			}
		}
		for i := range recipes {
			for j := range recipes[i].OnFailure {
				if !yield(&recipes[i].OnFailure[j]) {
					return
				}
			}
		}
	}
}

// remember gives the handlers of a builder that a compiled form gave their examples; it
// reports whether the form of these is one of the same files.
func (b *builder) remember(form []byte, files []embeddedFile) bool {
	var x examples
	if err := gob.NewDecoder(bytes.NewReader(form)).Decode(&x); err != nil || x.Sum != sumOf(files) {
		return false
	}
	for h := range allHandlers(b.handlers, b.recipes) {
		if len(x.All) == 0 {
			return false
		}
		h.Examples, h.CounterExamples = x.All[0].Examples, x.All[0].CounterExamples
		x.All = x.All[1:]
	}
	return len(x.All) == 0
}

// readCompiled gives the builder of a compiled form, nil if it is not one of
// these files.
func readCompiled(form []byte, files []embeddedFile) *builder {
	var c compiled
	if err := gob.NewDecoder(bytes.NewReader(form)).Decode(&c); err != nil || c.Sum != sumOf(files) {
		return nil
	}
	return &builder{
		categories: c.Categories, chains: c.Chains, handlers: c.Handlers, recipes: c.Recipes,
		projects: c.Projects, managers: c.Managers, names: c.Names,
	}
}

// briefOnce is the embedded catalog without its examples.
var briefOnce = sync.OnceValue(func() parsed {
	files, err := embeddedFiles(data)
	if err == nil {
		if b := readCompiled(compiledForm, files); b != nil {
			return parsed{b, b.finish(), nil}
		}
	}
	return wholeOnce()
})

// wholeOnce is the embedded catalog with its examples.
var wholeOnce = sync.OnceValue(func() parsed {
	files, err := embeddedFiles(data)
	if err == nil {
		if b := readCompiled(compiledForm, files); b != nil && b.remember(examplesForm, files) {
			return parsed{b, b.finish(), nil}
		}
	}
	base, ps := parseEmbedded(data) // somebody has edited the files
	return parsed{base, base.finish(), ps}
})

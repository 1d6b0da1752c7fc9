package catalog

import (
	"bytes"
	_ "embed" // for the compiled form
	"encoding/gob"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
)

// The files under data are what a person reads and writes. To read them takes a process
// 0.1 s and more, and a supervisor does it between a failure and its cure: this
// is the same in a form that is read in some milliseconds. The examples, more than half of
// the text, are left out.
//
//go:generate go test -run ^TestCompiledIsTheData$ -update .
//go:embed compiled.gob
var compiledForm []byte

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

// compile gives the compiled form of a builder that files were read into.
func (b *builder) compile(files []embeddedFile) ([]byte, error) {
	c := compiled{
		Sum: sumOf(files), Categories: b.categories, Chains: b.chains, Handlers: slices.Clone(b.handlers), Recipes: slices.Clone(b.recipes),
		Projects: b.projects, Managers: b.managers, Names: b.names,
	}
	forgetExamples(c.Handlers)
	for i := range c.Recipes {
		c.Recipes[i].OnFailure = slices.Clone(c.Recipes[i].OnFailure)
		forgetExamples(c.Recipes[i].OnFailure)
	}
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(c); err != nil {
		return nil, fmt.Errorf("compiling the catalog: %w", err)
	}
	return out.Bytes(), nil
}

func forgetExamples(handlers []Handler) {
	for i := range handlers {
		handlers[i].Examples, handlers[i].CounterExamples = nil, nil
	}
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
	return embeddedOnce()
})

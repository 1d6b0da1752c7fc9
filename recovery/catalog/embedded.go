package catalog

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

//go:embed data
var data embed.FS

const embeddedPackages = "data/packages.yaml"

// parsed is the embedded catalog before overlays. It is read once in the life of
// a process, and never written to.
type parsed struct {
	base     *builder
	catalog  *Catalog
	problems Problems
}

var embeddedOnce = sync.OnceValue(func() parsed {
	base, ps := parseEmbedded(data)
	return parsed{base, base.finish(), ps}
})

// Embedded is the catalog that superloop brings, without anybody's files. It is
// read on the first call, which takes some 0.1 s of processor time. An error is
// a mistake in superloop itself; the catalog then holds the entries that could
// be read.
func Embedded() (*Catalog, error) {
	p := embeddedOnce()
	if err := p.problems.Err(); err != nil {
		return p.catalog, fmt.Errorf("reading the embedded catalog:\n%w", err)
	}
	return p.catalog, nil
}

// parseEmbedded reads every YAML file of fsys in the order of the paths.
func parseEmbedded(fsys fs.FS) (*builder, Problems) {
	var problems Problems
	var paths []string
	err := fs.WalkDir(fsys, ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, ".yaml") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		problems = append(problems, Problem{File: "data", Message: err.Error()})
	}
	slices.Sort(paths)
	docs := make([]*document, len(paths))
	found := make([]Problems, len(paths))
	var wg sync.WaitGroup // one core reads YAML at some 10 MB a second: use them all
	for i, path := range paths {
		wg.Go(func() {
			text, err := fs.ReadFile(fsys, path)
			if err != nil {
				found[i] = Problems{{File: path, Message: err.Error()}}
				return
			}
			docs[i], found[i] = readDocument(Origin{Source: SourceEmbedded, File: path}, text)
		})
	}
	wg.Wait()
	b := &builder{}
	for i := range docs {
		problems = append(problems, found[i]...)
		if docs[i] != nil {
			problems = append(problems, b.apply(docs[i])...)
		}
	}
	return b, problems.sorted()
}

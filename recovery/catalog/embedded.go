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

// Embedded is the catalog that superloop brings, without anybody's files and with the
// examples. It is read on the first call. An error is
// a mistake in superloop itself; the catalog then holds the entries that could
// be read.
func Embedded() (*Catalog, error) {
	p := wholeOnce()
	if err := p.problems.Err(); err != nil {
		return p.catalog, fmt.Errorf("reading the embedded catalog:\n%w", err)
	}
	return p.catalog, nil
}

// embeddedFile is one YAML file of the embedded catalog.
type embeddedFile struct {
	path string
	text []byte
}

// embeddedFiles reads every YAML file of fsys, in the order of the paths.
func embeddedFiles(fsys fs.FS) ([]embeddedFile, error) {
	var files []embeddedFile
	err := fs.WalkDir(fsys, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		text, err := fs.ReadFile(fsys, path)
		files = append(files, embeddedFile{path, text})
		return err
	})
	slices.SortFunc(files, func(a, b embeddedFile) int { return strings.Compare(a.path, b.path) })
	return files, err
}

// parseEmbedded reads the files of fsys one after the other into a builder.
func parseEmbedded(fsys fs.FS) (*builder, Problems) {
	var problems Problems
	files, err := embeddedFiles(fsys)
	if err != nil {
		problems = append(problems, Problem{File: "data", Message: err.Error()})
	}
	docs := make([]*document, len(files))
	found := make([]Problems, len(files))
	var wg sync.WaitGroup // one core reads YAML at some 10 MB a second: use them all
	for i, f := range files {
		wg.Go(func() { docs[i], found[i] = readDocument(Origin{Source: SourceEmbedded, File: f.path}, f.text) })
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

package catalog

import (
	"embed"
	"hash/crc32"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

// data are the files that the compiled form is made of.
//
//go:embed data
var data embed.FS

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
	var wg sync.WaitGroup
	for i, f := range files {
		wg.Go(func() { docs[i], found[i] = readDocument(Origin{Source: SourceEmbedded, File: f.path}, f.text) })
	}
	wg.Wait()
	b := &builder{Sum: sumOf(files)}
	for i := range docs {
		problems = append(problems, found[i]...)
		if docs[i] != nil {
			problems = append(problems, b.apply(docs[i])...)
		}
	}
	return b, problems.sorted()
}

// sumOf tells one state of the files from another, so that an edit is noticed after which nobody made the compiled form
// again.
func sumOf(files []embeddedFile) uint64 {
	table := crc32.MakeTable(crc32.Castagnoli)
	var sum uint32
	size := 0
	for _, f := range files {
		sum = crc32.Update(crc32.Update(sum, table, []byte(f.path+"\x00")), table, f.text)
		size += len(f.text)
	}
	return uint64(sum)<<32 | uint64(uint32(size))
}

// compile gives the compiled form of a builder that files were read into.
func (b *builder) compile() string { return writeBinary(b) }

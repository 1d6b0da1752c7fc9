// Package catalog is what superloop knows about failures of the environment: the closed list of categories, the
// chains of approaches for each, the handlers that recognise a failure and say what cures it, the recipes that
// install a tool or bring a project's dependencies up, the package managers and the names of packages.
//
// All of it is data: YAML, embedded, checked against a schema, and extended or overridden by a person's own files. No
// entry can grant anything: an entry only carries commands, and each of them goes through the one gate before it
// runs.
package catalog

import (
	"bytes"
	_ "embed" // for the compiled form
	"encoding/gob"
	"fmt"
	"sync"
)

// People read and write the YAML files under data. A process needs 0.1 s and more to read them, and a supervisor
// would wait for that between a failure and its remedy. So the program contains a compiled form of them instead,
// which is read in some milliseconds: a builder as encoding/gob writes it. A test fails until the form is made again
// after an edit.
//
//go:generate go test -run ^TestCompiledIsTheData$ -update .
//go:embed compiled.gob
var compiledForm []byte

const embeddedPackages = "data/packages.yaml"

// embeddedOnce reads the embedded catalog once in the life of a process.
var embeddedOnce = sync.OnceValues(func() (embedded, error) { return readCompiled(compiledForm) })

// embedded is the embedded catalog, and the builder that overlays are applied to. Neither is ever written to.
type embedded struct {
	base    *builder
	catalog *Catalog
}

// readCompiled reads a compiled form. After an error the catalog is empty.
func readCompiled(form []byte) (embedded, error) {
	b := &builder{}
	err := gob.NewDecoder(bytes.NewReader(form)).Decode(b)
	if err != nil {
		b, err = &builder{}, fmt.Errorf("reading the embedded catalog: %w", err)
	}
	return embedded{b, b.finish()}, err
}

// Embedded is the catalog that superloop brings, without anybody's files. It is read on the first call. An error is a
// mistake in superloop itself; the catalog is empty then.
func Embedded() (*Catalog, error) {
	e, err := embeddedOnce()
	return e.catalog, err
}

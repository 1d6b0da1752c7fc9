package local

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/superloop/superloop/internal/door"
)

// maxSpec bounds a spec of which a checklist is made, in bytes.
const maxSpec = 8 << 20

// checklist copies the spec to where agents tick its boxes, if that is one of the checklists of the loop and it is not there.
func (d *driver) checklist() error {
	if !slices.Contains(d.loop.Checklists, d.paths.Rel(d.paths.Checklist())) || exists(d.paths.Checklist()) {
		return nil
	}
	spec, err := door.ReadOwn(filepath.Join(d.paths.Repo, d.loop.SpecFile), maxSpec)
	if err != nil {
		return fmt.Errorf("making the checklist of the spec: %w", err)
	}
	return d.host.Write(filepath.Base(d.paths.Checklist()), spec)
}

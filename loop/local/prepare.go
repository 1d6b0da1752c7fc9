package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/cage"
	"github.com/superloop/superloop/recovery/undo"
)

// preparation is what a recovery needs before it may begin: its log, a directory
// for temporary files, and what the command will overwrite, kept.
type preparation struct {
	spec       cage.Spec
	policy     string // digest of the policy whose cage it is
	log        *durable.File
	path       string
	remove     func() error // the directory for temporary files
	kept, note string
}

// prepare makes the preparation of an attempt that may run.
func (d *driver) prepare(r *loop.RecoveryState, j judged, timeout time.Duration) (*preparation, error) {
	p := &preparation{policy: j.policy.Digest}
	name := fmt.Sprintf("recovery-%d", r.N)
	if r.Tries > 0 {
		name += fmt.Sprintf(".try-%d", r.Tries+1)
	}
	p.path = filepath.Join(d.paths.Logs(d.state.Iteration), name+".log")
	var err error
	if p.log, err = d.host.File("log", p.path); err != nil {
		return nil, err
	}
	var tmp string
	if tmp, p.remove, err = cage.NewTmp(os.TempDir()); err != nil {
		return nil, errors.Join(d.host.Full(err), p.log.Close())
	}
	p.spec = d.cageSpec(r, j, tmp, p.log, timeout)
	p.kept, p.note = keepForUndo(d.undoStore(), undo.Label{Loop: d.o.LoopID, Run: d.state.RunID, Recovery: r.N, Command: r.Attempt.Command}, r.Attempt, d.host.Now(d.state))
	return p, nil
}

// undo takes a preparation back that comes to nothing.
func (d *driver) unprepare(p *preparation) error {
	err := errors.Join(p.log.Close(), p.remove(), d.o.Disk.Unlink("log", p.path))
	if p.kept != "" {
		err = errors.Join(err, d.undoStore().Drop(context.Background(), p.kept))
	}
	return d.host.Full(err)
}

package local

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
)

// viewInterval is the least time between two writes of state.json while a loop runs; at every pause and end it is
// written at once.
const viewInterval = 100 * time.Millisecond

// ReadView reads state.json, or, when that is gone, damaged or older than the journal's end, the journal that it is a
// view of. A loop that never ran has neither: fs.ErrNotExist.
func ReadView(p layout.Paths) (loop.View, error) {
	var v loop.View
	data, err := os.ReadFile(p.File("state.json"))
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if !exists(p.Events()) {
		return v, err
	}
	if err == nil {
		// A supervisor that was killed left the view as it was up to viewInterval before.
		last, terr := journal.Tail(p.Events(), 1)
		if terr != nil || len(last) == 0 || last[0].Seq <= v.Seq {
			return v, nil
		}
	}
	fold, jerr := Fold(p.Events())
	if jerr != nil || fold.State.Version == 0 {
		return v, errors.Join(err, jerr)
	}
	return loop.ViewOf(fold.State, fold.Events, v.PID), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (d *driver) putViews() {
	if d.state.Version == 0 {
		return
	}
	pid := os.Getpid()
	if d.state.Status.Ended() || d.state.Status == loop.Paused {
		pid = 0
	}
	// What is written later is of now: the next step makes a state of its own.
	s, seq := d.state, d.journal.LastSeq()
	index := slices.IndexFunc(d.o.Config.Loops, func(l config.Loop) bool { return l.ID == d.o.LoopID })
	d.view.Put(func() ([]byte, error) { return encodeView(loop.ViewOf(s, seq, pid)) })
	d.super.Put(func() ([]byte, error) { return encodeView(d.repoView(s, index)) })
}

func encodeView(v any) ([]byte, error) {
	data, err := loop.EncodeIndent(v, "  ")
	return append(data, '\n'), err
}

func (d *driver) repoView(s loop.State, index int) loop.RepoView {
	var v loop.RepoView
	if data, err := os.ReadFile(filepath.Join(d.paths.Super, "state.json")); err == nil {
		_ = json.Unmarshal(data, &v) // a view that cannot be read is made anew
	}
	if v.Loops == nil {
		v.Loops = map[string]loop.Status{}
	}
	v.Version, v.LoopIndex, v.Active = 1, max(0, index), !s.Status.Ended() && s.Status != loop.Paused
	v.Iteration, v.CurrentLoopID, v.Status, v.UpdatedAt = s.Iteration, d.o.LoopID, s.Status, s.UpdatedAt
	v.Loops[d.o.LoopID] = s.Status
	return v
}

// flushViews writes the views now. A view that cannot be written is no loss: the journal holds the truth, so it is said
// and not an error, but for a full disk, which an operator must hear of.
func (d *driver) flushViews() error {
	err := errors.Join(d.view.Flush(), d.super.Flush())
	d.host.Warn("state.json could not be written; the journal is whole", err)
	if durable.IsFull(err) {
		return d.host.Full(err)
	}
	return nil
}

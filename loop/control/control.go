// Package control carries what a human wants of a loop from the process that was
// told to the supervisor of the loop: a file per wish in the loop's private
// directory, durable, with an id that stands in the event which carries it out.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/loop/layout"

	"github.com/superloop/superloop/internal/durable"
)

// Intent is what a person wants of a loop, put down by one process and taken in
// by the supervisor, whichever and whenever that is. It is a file in the
// private directory, so that a decision given while no supervisor is alive is
// kept; its id stands in the event that carries it out, so that it is carried
// out once.
type Intent struct {
	ID   string    `json:"id"`
	Kind string    `json:"kind"` // approve, reject, cancel, kick
	By   string    `json:"by"`
	Note string    `json:"note,omitempty"`
	At   time.Time `json:"at"`
	// RunID and Iteration bind an answer to the question that was asked.
	RunID     string `json:"run_id,omitempty"`
	Iteration int    `json:"iteration,omitempty"`
}

// Kinds of intents.
const (
	IntentApprove = "approve"
	IntentReject  = "reject"
	IntentCancel  = "cancel"
	IntentKick    = "kick" // do not wait any longer; what was asked for is mended
)

// ErrDecided: another answer was first.
var ErrDecided = errors.New("already decided")

// DecidedError says who was first.
type DecidedError struct{ First Intent }

func (e *DecidedError) Error() string {
	return fmt.Sprintf("already decided: %s by %s at %s", e.First.Kind, e.First.By, e.First.At.Format(time.RFC3339))
}

// Is makes errors.Is(err, ErrDecided) work.
func (e *DecidedError) Is(target error) bool { return target == ErrDecided }

// Submit puts an intent down, durably. Of several answers to one question the
// first wins; the others get a DecidedError.
func Submit(ctx context.Context, d durable.Disk, p layout.Paths, in Intent) error {
	if err := d.MkdirAll("control:mkdir", p.Control(), 0o700); err != nil {
		return err
	}
	lock, err := lockSoon(ctx, d, filepath.Join(p.Control(), ".lock"))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // it dies with the process at the latest
	name := in.ID + ".json"
	if in.Kind == IntentApprove || in.Kind == IntentReject {
		name = fmt.Sprintf("approval-%s-%d.json", in.RunID, in.Iteration)
		if first, err := readIntent(filepath.Join(p.Control(), name)); err == nil {
			return &DecidedError{first}
		}
	}
	data, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return d.WriteFile("control", filepath.Join(p.Control(), name), append(data, '\n'), 0o600)
}

// lockSoon waits for a lock that is only ever held for a moment.
func lockSoon(ctx context.Context, d durable.Disk, path string) (*durable.Lock, error) {
	for {
		lock, err := d.Lock(path, nil)
		var held *durable.LockedError
		if !errors.As(err, &held) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func readIntent(path string) (Intent, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Intent{}, err
	}
	var in Intent
	if err := json.Unmarshal(data, &in); err != nil {
		return Intent{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return in, nil
}

// Submitted lists the intents that wait to be taken in, oldest first, with the
// paths of their files. A file that cannot be read is reported in the error
// and does not hide the others.
func Submitted(p layout.Paths) ([]Intent, []string, error) {
	entries, err := os.ReadDir(p.Control())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	type found struct {
		in   Intent
		path string
	}
	var all []found
	var errs error
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(p.Control(), e.Name())
		in, err := readIntent(path)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		all = append(all, found{in, path})
	}
	slices.SortStableFunc(all, func(a, b found) int { return a.in.At.Compare(b.in.At) })
	var ins []Intent
	var paths []string
	for _, f := range all {
		ins, paths = append(ins, f.in), append(paths, f.path)
	}
	return ins, paths, errs
}

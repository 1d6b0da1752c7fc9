// Package control carries what a human wants of a loop from the process that was told to the supervisor of the loop: a
// file per wish in the loop's private directory, durable, with an id that stands in the event which carries it out.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/layout"
)

// Intent is what an operator wants of a loop, put down by one process and taken in by the supervisor, whichever and
// whenever that is. It is a file in the private directory, so that a decision given while no supervisor is alive is
// kept; its id stands in the event that carries it out, so that it is carried out once.
type Intent struct {
	ID    string    `json:"id"`
	Kind  string    `json:"kind"` // cancel, kick
	By    string    `json:"by"`
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at"`
	RunID string    `json:"run_id,omitempty"` // the run that it is about
	File  string    `json:"-"`                // the path of its file, once it is submitted
}

// Kinds of intents.
const (
	IntentCancel = "cancel"
	IntentKick   = "kick" // do not wait any longer; what was asked for is mended
)

// Submit puts an intent down, durably.
func Submit(d durable.Disk, p layout.Paths, in Intent) error {
	if err := d.MkdirAll("control:mkdir", p.Control(), 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return d.WriteFile("control", filepath.Join(p.Control(), in.ID+".json"), append(data, '\n'), 0o600)
}

func readIntent(path string) (Intent, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Intent{}, err
	}
	in := Intent{File: path}
	if err := json.Unmarshal(data, &in); err != nil {
		return Intent{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return in, nil
}

// Submitted lists the intents that wait to be taken in, oldest first. A file that cannot be read is reported in the error
// and does not hide the others.
func Submitted(p layout.Paths) (all []Intent, errs error) {
	entries, err := os.ReadDir(p.Control())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		in, err := readIntent(filepath.Join(p.Control(), e.Name()))
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		all = append(all, in)
	}
	slices.SortStableFunc(all, func(a, b Intent) int { return a.At.Compare(b.At) })
	return all, errs
}

// Ignored is the event of an intent that nothing waited for.
type Ignored struct {
	Kind     string `json:"kind"`
	By       string `json:"by"`
	IntentID string `json:"intent_id"`
	Reason   string `json:"reason"`
}

// Event is its name in the journal.
func (Ignored) Event() string { return "intent_ignored" }

// Package control carries an operator's intents (cancel, kick, pause, note) from the process that took the command to the supervisor
// of the loop. Each intent is a file in the loop's private directory. The file is durable, and the event that carries
// the intent out holds its id.
package control

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/layout"
)

// Intent is what an operator wants of a loop. One process writes it as a file in the private directory, and the present
// or a later supervisor takes it in. So an intent is kept while no supervisor runs. The event that carries the intent
// out holds its id, so the intent is carried out once.
type Intent struct {
	ID    string    `json:"id"`
	Kind  string    `json:"kind"` // cancel, kick, pause, note
	By    string    `json:"by"`
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at"`
	RunID string    `json:"run_id,omitempty"` // the run that the intent is about
	File  string    `json:"-"`                // the path of its file, set by Submitted
}

// Kinds of intents.
const (
	IntentCancel = "cancel"
	IntentKick   = "kick"  // wait no longer: the operator has repaired the cause
	IntentPause  = "pause" // leave the loop when what runs now has ended
	IntentNote   = "note"  // tell the roles Intent.Note
)

// New makes an intent about a run, now.
func New(kind, by, note, runID string) Intent {
	var b [8]byte
	_, _ = rand.Read(b[:]) // does not fail on any system that Go runs on
	return Intent{ID: hex.EncodeToString(b[:]), Kind: kind, By: by, Note: note, At: time.Now().UTC(), RunID: runID}
}

// Submit writes an intent to the control directory and flushes it to the disk.
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
	in := Intent{File: path}
	if err := door.ReadState(path, door.MaxParsed, "a kick or a cancellation", "it is not carried out", &in); err != nil {
		return Intent{}, err
	}
	return in, nil
}

// Submitted returns the intents in the control directory, oldest first. If a file cannot be read, the error says so,
// and the other intents are returned all the same.
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

// Ignored is the event that says that nothing waited for an intent.
type Ignored struct {
	Kind     string `json:"kind"`
	By       string `json:"by"`
	IntentID string `json:"intent_id"`
	Reason   string `json:"reason"`
}

// Event returns the name of the event in the journal.
func (Ignored) Event() string { return "intent_ignored" }

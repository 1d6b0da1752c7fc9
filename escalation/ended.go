package escalation

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
)

// Ended is how a loop has ended, kept for the inbox until the loop runs again. It is a view: the journal holds the
// truth.
type Ended struct {
	Loop      string    `json:"loop_id"`
	Repo      string    `json:"repo"`
	Run       string    `json:"run_id"`
	Iteration int       `json:"iteration"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason"` // one sentence for an operator
	Next      string    `json:"next,omitempty"`
	At        time.Time `json:"ended_at"`
}

// EndedFile is the file of an Ended in the private directory of a loop. seenFile, in the directory of the private state
// of all repositories, holds when the operator last looked at the inbox.
const (
	EndedFile = "ended.json"
	seenFile  = "inbox.json"
)

// Keep writes how a loop has ended into its private directory.
func (e Ended) Keep(d durable.Disk, private string) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return d.WriteFile("inbox-end", filepath.Join(private, EndedFile), append(data, '\n'), 0o600)
}

// Forget removes what Keep has written, because the loop runs again.
func Forget(d durable.Disk, private string) error {
	err := d.Remove("inbox-end", filepath.Join(private, EndedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// AllEnded returns the loops below the directory of the private state that have ended and have not run since, the newest
// first. An unreadable file does not hide the others; the error joins one error for each.
func AllEnded(stateRoot string) (out []Ended, errs error) {
	dirs, errs := privates(stateRoot)
	for _, dir := range dirs {
		var e Ended
		switch err := door.ReadState(filepath.Join(dir, EndedFile), 64<<10, "how a loop has ended", "the inbox does not show it", &e); {
		case errors.Is(err, fs.ErrNotExist): // it has not ended
		case err != nil:
			errs = errors.Join(errs, err)
		default:
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b Ended) int { return b.At.Compare(a.At) })
	return out, errs
}

type seen struct {
	At time.Time `json:"at"`
}

// Seen returns when the operator last looked at the inbox, or the zero time.
func Seen(stateRoot string) time.Time {
	var s seen
	_ = door.ReadState(filepath.Join(stateRoot, seenFile), 4<<10, "when the inbox was last looked at", "the inbox shows all", &s)
	return s.At
}

// See notes that the operator looks at the inbox now.
func See(d durable.Disk, stateRoot string, now time.Time) error {
	if err := d.MkdirAll("inbox-seen", stateRoot, 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(seen{now.UTC()})
	if err != nil {
		return err
	}
	return d.WriteFile("inbox-seen", filepath.Join(stateRoot, seenFile), append(data, '\n'), 0o600)
}

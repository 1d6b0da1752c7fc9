package notify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
)

// State is the state of one message on one channel.
type State string

const (
	Pending    State = "pending"
	Delivered  State = "delivered"  // the receiver has taken the message, and the Outbox has recorded it
	Failed     State = "failed"     // the Outbox has given the message up; see Item.Reason
	Withdrawn  State = "withdrawn"  // Outbox.Withdraw has removed it before it was delivered
	Unreadable State = "unreadable" // a file in the outbox that is damaged or not an entry; the Outbox does not touch it
)

// Item is one message on one channel, without its text, for status pages.
type Item struct {
	ID         string    `json:"id"`
	Escalation string    `json:"escalation_id,omitempty"`
	Kind       Kind      `json:"event"`
	Loop       string    `json:"loop_id,omitempty"`
	Channel    string    `json:"notifier"`
	State      State     `json:"state"`
	Attempts   int       `json:"attempts"`
	Enqueued   time.Time `json:"enqueued"`
	LastTry    time.Time `json:"last_try,omitzero"`
	NextTry    time.Time `json:"next_try,omitzero"` // set while pending
	Reason     string    `json:"reason,omitempty"`  // of the last failure; holds no URL and no secret
}

const (
	entryVersion = 1
	entrySuffix  = ".json"
	maxEntry     = 2 << 20 // bytes of a file; a Message has at most about 1 MB when every byte is escaped
)

// stored is the content of an entry's file.
type stored struct {
	Version int    `json:"version"`
	Seq     uint64 `json:"seq"` // the number of the Enqueue; it keeps the order even if the clock is set back
	Item
	Message *Message `json:"message,omitempty"` // set while pending or failed
	Tried   bool     `json:"tried,omitempty"`   // whether it may have arrived
	Receipt string   `json:"receipt,omitempty"` // what Delivery.Keep got
}

// entryName returns the file name of one message on one channel. It is a digest, because channel and id may hold any
// characters.
func entryName(channel, id string) string {
	sum := sha256.Sum256([]byte(channel + "\x00" + id))
	return hex.EncodeToString(sum[:16]) + entrySuffix
}

func save(disk durable.Disk, op, dir string, s stored) error {
	s.Version = entryVersion
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("writing message %q: %w", s.ID, err)
	}
	return disk.WriteFile(op, filepath.Join(dir, entryName(s.Channel, s.ID)), append(data, '\n'), 0o600)
}

func read(path string) (stored, error) {
	data, err := door.Read(path, maxEntry)
	if err != nil {
		return stored{}, err
	}
	var s stored
	switch err := text.Decode(data, &s); {
	case err != nil:
		return stored{}, fmt.Errorf("it is no message of an outbox: %w", err)
	case s.Version != entryVersion:
		return stored{}, fmt.Errorf("it has version %d, and this superloop knows %d", s.Version, entryVersion)
	case entryName(s.Channel, s.ID) != filepath.Base(path):
		return stored{}, errors.New("it holds another message than its name says")
	case s.State == Pending && s.Message == nil:
		return stored{}, errors.New("it is pending and has no text")
	}
	return s, nil
}

// readAll reads the entries of an outbox, the oldest first. Files that it cannot read come back as items of State
// Unreadable.
func readAll(dir string) (all []stored, broken []Item, err error) {
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("reading the outbox: %w", err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name.Name(), entrySuffix) {
			continue
		}
		switch s, err := read(filepath.Join(dir, name.Name())); {
		case err == nil:
			all = append(all, s)
		case !errors.Is(err, os.ErrNotExist): // else the process that owns the outbox has removed it
			broken = append(broken, Item{ID: name.Name(), State: Unreadable, Reason: OneLine(err.Error(), maxReason)})
		}
	}
	slices.SortStableFunc(all, func(a, b stored) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, broken, nil
}

// List returns the messages of the outbox in dir, the oldest first, and then its unreadable files. Another process may
// use the outbox meanwhile. A missing directory counts as an empty outbox.
func List(dir string) ([]Item, error) {
	all, broken, err := readAll(dir)
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, s := range all {
		items = append(items, s.Item)
	}
	return append(items, broken...), nil
}

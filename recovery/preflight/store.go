package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
)

// maxStore bounds the file of a Store, in bytes.
const maxStore = 4 << 20

// Store keeps a value in a private file, as JSON. Supervisors that share the file take turns.
type Store[T any] struct {
	Disk durable.Disk
	Path string
}

// Load reads the value. Without a file it returns the zero value. An error is a *door.StateError. Load needs no lock: a reader gets the old value or
// the new one.
func (s Store[T]) Load() (T, error) {
	var v T
	err := door.ReadState(s.Path, maxStore, "what superloop has learned of runners and of this environment", "it is learned anew", &v)
	if err != nil {
		var zero T
		v = zero
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return v, err
}

// Update changes the value under the lock of the file; ctx bounds the wait for the lock. If change returns false,
// Update writes nothing.
func (s Store[T]) Update(ctx context.Context, change func(*T) bool) (T, error) {
	var zero T
	lock, err := s.lock(ctx)
	if err != nil {
		return zero, fmt.Errorf("updating %s: %w", s.Path, err)
	}
	defer func() { _ = lock.Unlock() }() // the lock ends with the process anyway
	v, err := s.Load()
	if err != nil {
		return zero, err
	}
	if !change(&v) {
		return v, nil
	}
	data, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		err = s.Disk.WriteProjection("respond", s.Path, append(data, '\n'), 0o600)
	}
	if err != nil {
		return zero, fmt.Errorf("updating %s: %w", s.Path, err)
	}
	return v, nil
}

func (s Store[T]) lock(ctx context.Context) (*durable.Lock, error) {
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for {
		lock, err := s.Disk.Lock(s.Path+".lock", nil)
		var held *durable.LockedError
		if !errors.As(err, &held) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-again.C:
		}
	}
}

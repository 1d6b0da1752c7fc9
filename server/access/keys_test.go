package access

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

func keys(t *testing.T, state string) *Keys {
	t.Helper()
	k, err := OpenKeys(durable.OS(), state)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Of equal requests at the same moment one is carried out, and all get its answer; also after a restart.
func TestKeysOnce(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	k := keys(t, state)
	var effects atomic.Int32
	var running sync.WaitGroup
	for range 50 {
		running.Go(func() {
			old, end, err := k.Begin(t.Context(), "ada", "k", "POST /x")
			switch {
			case err != nil:
				t.Error(err)
			case old != nil:
				if old.Status != 202 || string(old.Body) != "one" {
					t.Errorf("%+v", old)
				}
			default:
				effects.Add(1)
				if err := end(&Answer{Status: 202, Type: "text/plain", Body: []byte("one")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if n := effects.Load(); n != 1 {
		t.Errorf("it was carried out %d times", n)
	}
	k = keys(t, state)
	if old, _, err := k.Begin(t.Context(), "ada", "k", "POST /x"); err != nil || old == nil || old.Type != "text/plain" {
		t.Error(old, err)
	}
	if _, _, err := k.Begin(t.Context(), "ada", "k", "POST /y"); !errors.Is(err, ErrOtherWish) {
		t.Error(err)
	}
	if old, end, err := k.Begin(t.Context(), "eve", "k", "POST /y"); err != nil || old != nil {
		t.Error("the key of another one:", old, err)
	} else if err := end(nil); err != nil {
		t.Error(err)
	}
}

func TestKeysOfWhatWasInterrupted(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	k := keys(t, state)
	_, end, err := k.Begin(t.Context(), "ada", "k", "r")
	if err != nil {
		t.Fatal(err)
	}
	// The daemon dies here: the next one does not know what came of it.
	if _, _, err := keys(t, state).Begin(t.Context(), "ada", "k", "r"); !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := k.Begin(ctx, "ada", "k", "r"); !errors.Is(err, context.Canceled) {
		t.Error("a client that leaves while it waits:", err)
	}
	if err := end(nil); err != nil {
		t.Error(err)
	}
	if old, end, err := k.Begin(t.Context(), "ada", "k", "r"); err != nil || old != nil {
		t.Error("a key that was freed:", old, err)
	} else if err := end(&Answer{Status: 200, Body: make([]byte, maxAnswer+1)}); err != nil {
		t.Error(err)
	}
	if old, _, err := k.Begin(t.Context(), "ada", "k", "r"); err != nil || !old.Withheld || old.Body != nil {
		t.Error("a long answer:", err)
	}
}

// What is a day old is forgotten, and so is the oldest of too many. A request that cannot be written down is not carried out.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	dir := filepath.Join(state, "daemon", "idempotency")
	k := keys(t, state)
	_, end, err := k.Begin(t.Context(), "ada", "k", "r")
	if err := errors.Join(err, end(&Answer{Status: 200})); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var v kept
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	v.At = v.At.Add(-KeyLife)
	if err := k.write(files[0], v); err != nil {
		t.Fatal(err)
	}
	if old, _, err := k.Begin(t.Context(), "ada", "k", "r"); err != nil || old != nil {
		t.Error("a day later:", old, err)
	}
	for i := range maxKeys + 10 {
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("f", 1+i%7)+time.Duration(i).String()+".json"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-KeyLife)
	if err := os.Chtimes(files[0], long, long); err != nil {
		t.Fatal(err)
	}
	k = keys(t, state)
	left, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	if _, err := os.Stat(files[0]); len(left) != maxKeys || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%d files, %v", len(left), err)
	}
	k.disk = durable.OS().WithFault(func(string) error { return errors.New("broken") })
	if old, end, err := k.Begin(t.Context(), "ada", "new", "r"); err == nil || old != nil || end != nil {
		t.Error("a key that cannot be kept:", err)
	}
}

// FuzzKept: what is kept for a key is read as it was written, or refused.
func FuzzKept(f *testing.F) {
	good, err := json.Marshal(kept{At: time.Unix(1e9, 0).UTC(), Request: hashOf("x"), Answer: &Answer{Status: 200, Type: "application/json", Body: []byte("{}")}})
	if err != nil {
		f.Fatal(err)
	}
	testkit.Seed(f, good, bytes.Replace(good, []byte("200"), []byte("999"), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[kept]{Decode: decodeKept, Encode: func(v kept) ([]byte, error) { return json.Marshal(v) }}.Check(t, data)
	})
}

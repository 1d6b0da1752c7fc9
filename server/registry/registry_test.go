package registry

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/testkit"
)

func newStore(t *testing.T) (s Store, repo string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repo = filepath.Join(top, "repo")
	if err := os.Mkdir(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	return Store{Disk: durable.OS(), State: filepath.Join(top, "state", "superloop")}, repo
}

func TestEntries(t *testing.T) {
	t.Parallel()
	s, repo := newStore(t)
	if _, err := s.Get(repo, "l"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before the first entry: %v", err)
	}
	e := Entry{Repo: repo, Loop: "l", Wanted: Running, By: "ada", Since: time.Unix(1, 0).UTC(), Labels: []string{"x"}, After: 7}
	other := Entry{Repo: repo, Loop: "k", Wanted: Paused}
	for _, e := range []Entry{e, other} {
		if err := s.Put(e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Get(repo, "l")
	if err != nil || got.After != 7 || got.By != "ada" || !got.Since.Equal(e.Since) || got.Labels[0] != "x" {
		t.Errorf("%+v, %v", got, err)
	}
	all, errs := s.All()
	if len(all) != 2 || len(errs) != 0 || all[0].Loop != "k" || all[1].Loop != "l" {
		t.Errorf("%+v, %v", all, errs)
	}
	if err := s.Drop(other); err != nil {
		t.Error(err)
	}
	// A repository that has vanished keeps its entry, which can be changed and dropped.
	if err := os.RemoveAll(repo); err != nil {
		t.Fatal(err)
	}
	if all, errs = s.All(); len(all) != 1 || len(errs) != 0 {
		t.Fatalf("%+v, %v", all, errs)
	}
	all[0].Wanted = Stopped
	if err := s.Put(all[0]); err != nil {
		t.Error(err)
	}
	if all, _ = s.All(); all[0].Wanted != Stopped {
		t.Errorf("%+v", all[0])
	}
	if err := errors.Join(s.Drop(all[0]), s.Drop(all[0])); err != nil {
		t.Error(err)
	}
}

// A damaged file costs its own entry, and the error says where it is and what to do.
func TestDamagedEntries(t *testing.T) {
	t.Parallel()
	s, repo := newStore(t)
	if err := s.Put(Entry{Repo: repo, Loop: "l", Wanted: Running}); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"a.json": "", "b.json": `{"repo":"/x","loop":"l","wanted":"flying"}`, "c.json": `{"repo":"/x","wanted":"running"}`, "d.json": "[", "note.txt": "no entry"} {
		if err := os.WriteFile(filepath.Join(s.Dir(), name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, errs := s.All()
	if len(all) != 1 || len(errs) != 4 {
		t.Fatalf("%+v, %v", all, errs)
	}
	for _, err := range errs {
		if state, ok := errors.AsType[*door.StateError](err); !ok || !strings.Contains(state.Error(), s.Dir()) {
			t.Errorf("%v", err)
		}
	}
}

// FuzzEntry: a file of the registry is an entry, or an error that names it.
func FuzzEntry(f *testing.F) {
	testkit.Seed(f, []byte(`{"repo":"/r","loop":"l","wanted":"running","priority":3,"labels":["a"],"by":"ada","since":"2026-01-02T03:04:05Z","after":4}`))
	write := testkit.File(f, "a.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		testkit.Decoder[Entry]{
			Decode: func(data []byte) (Entry, error) { e, err := Store{}.read(write(data)); e.file = ""; return e, err },
			Encode: func(e Entry) ([]byte, error) { return json.Marshal(e) },
		}.Check(t, data)
	})
}

package walk

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/plan"
	"github.com/superloop/superloop/schemas"
)

func write(t *testing.T, s Store, id string, data []byte) {
	t.Helper()
	if err := os.WriteFile(s.path(id), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Conforms: 000-5.6-load, 000-5.6-form
func TestStore(t *testing.T) {
	t.Parallel()
	s := Store{Dir: filepath.Join(t.TempDir(), "a", "chains")}
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	if _, err := s.Load("c-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	c := deep()
	if err := s.Save(c); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.path("c-1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range schemas.Validate(schemas.Chain, data) {
		t.Error(p)
	}
	got, err := s.Load("c-1")
	want := strings.ReplaceAll(encode(t, c), `\u0000`, "\ufffd")
	if err != nil || encode(t, got) != want {
		t.Errorf("%v\n%s\n%s", err, encode(t, got), want)
	}
	got.Levels = nil
	if err := s.Save(got); err == nil {
		t.Error("what could not be read back was saved")
	}
}

// A file that was cut anywhere is an error with its place, and kept.
func TestCutFiles(t *testing.T) {
	t.Parallel()
	s := Store{Dir: t.TempDir()}
	c := newChain(option("a"))
	if err := s.Save(c); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.path("c-1"))
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(data)-2; n += 1 + n/40 {
		write(t, s, "c-1", data[:n])
		if all, err := s.List(); err != nil || len(all) != 1 || all[0].Err == nil || all[0].Chain.ID != "c-1" {
			t.Fatalf("cut at %d: %+v %v", n, all, err)
		}
		_, err := s.Load("c-1")
		var broken *BrokenError
		if !errors.As(err, &broken) || broken.Kept == "" || !strings.Contains(err.Error(), s.path("c-1")) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if n > 0 && broken.Line == 0 {
			t.Errorf("cut at %d: no place: %v", n, err)
		}
		if kept, err := os.ReadFile(broken.Kept); err != nil || !bytes.Equal(kept, data[:n]) {
			t.Fatalf("cut at %d: what is kept is not what was there: %v", n, err)
		}
		if _, err := s.Load("c-1"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("cut at %d: it is still there: %v", n, err)
		}
	}
}

func TestForeignFiles(t *testing.T) {
	t.Parallel()
	s := Store{Dir: t.TempDir()}
	c := newChain(option("a"))
	view, err := plan.Response(c)
	if err != nil {
		t.Fatal(err)
	}
	full, err := plan.Record(c)
	if err != nil {
		t.Fatal(err)
	}
	swap := func(old, with string) []byte {
		if !bytes.Contains(full, []byte(old)) {
			t.Fatalf("no %s in %s", old, full)
		}
		return bytes.ReplaceAll(full, []byte(old), []byte(with))
	}
	for name, f := range map[string]struct {
		data []byte
		why  string
	}{
		"an array":           {[]byte("[1]"), "object"},
		"another kind":       {[]byte(`{"version":1,"loop_id":"a"}`), "chain_id"},
		"not text":           {[]byte("\x00\xff\xfe"), ":1:1"},
		"a view only":        {view, "no state"},
		"another's id":       {swap(`"c-1"`, `"c-2"`), "c-2"},
		"no levels":          {swap(`"levels":[`, `"levels":[],"no":[`), "no"},
		"a level too deep":   {swap(`"levels":[{"depth":1,`, `"levels":[{"depth":7,`), "level 7"},
		"a status of nobody": {swap(`"status":"open"`, `"status":"asleep"`), "asleep"},
		"a key twice":        {swap(`"state":{`, `"state":{"chain_id":"c-9",`), "chain_id"},
	} {
		write(t, s, "c-1", f.data)
		_, err := s.Load("c-1")
		var broken *BrokenError
		if !errors.As(err, &broken) || broken.Kept == "" || !strings.Contains(err.Error(), f.why) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if kept, err := os.ReadFile(broken.Kept); err != nil || !bytes.Equal(kept, f.data) {
			t.Errorf("%s: %v", name, err)
		}
	}
	write(t, s, "c-1", swap(`{"version":1,`, `{"version":2,"soon":true,`))
	if _, err := s.Load("c-1"); err == nil || !strings.Contains(err.Error(), "newer superloop") {
		t.Error(err)
	}
	if _, err := os.Stat(s.path("c-1")); err != nil {
		t.Error("the file of a newer superloop was moved away")
	}
	if err := os.Symlink(s.path("c-1"), s.path("c-3")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load("c-3"); err == nil {
		t.Error("a link was followed")
	}
}

// The oldest that have ended go when a new one comes; those that have not, stay.
func TestOldChainsGo(t *testing.T) {
	t.Parallel()
	s := Store{Dir: t.TempDir()}
	now := start
	save := func(status plan.Status) string {
		now = now.Add(time.Second)
		c := plan.New(NewID(now), plan.Goal{Command: "make", Key: "cmd/g"}, failure("x"), nil, 0, 0, now)
		if status != plan.Open {
			c.Status, c.Why = status, "over"
		}
		if err := s.Save(c); err != nil {
			t.Fatal(err)
		}
		return c.ID
	}
	open := save(plan.Open)
	var ended []string
	for range maxEnded + 3 {
		ended = append(ended, save(plan.Done))
	}
	write(t, s, "broken", []byte("{"))
	d := newScripted(t)
	d.s = s
	c := plan.New(NewID(now.Add(time.Second)), plan.Goal{Command: "make", Key: "cmd/g"}, failure("x"), nil, 0, 0, now)
	if err := d.walk(&c); err != nil {
		t.Fatal(err)
	}
	all, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		got = append(got, e.Chain.ID)
	}
	want := append(append([]string{open}, ended[3:]...), c.ID, "broken")
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// What a killed save has left behind is tidied away by the next writer.
func TestTempsGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if killed, _ := run(t, dir, 2, ""); !killed {
		t.Fatal("it was not killed")
	}
	s := Store{Dir: filepath.Join(dir, "chains")}
	count := func() int {
		files, err := os.ReadDir(s.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	if n := count(); n != 3 { // the chain, the lock and what was being written
		t.Fatalf("%d files", n)
	}
	if _, err := s.Change("real", func(c *plan.Chain) error { c.Cancel("ann", start); return nil }); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 2 {
		t.Errorf("%d files", n)
	}
}

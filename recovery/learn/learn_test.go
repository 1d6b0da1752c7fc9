package learn

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/durable"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Conforms: 002-future-1
func TestScoreAndSuggest(t *testing.T) {
	t.Parallel()
	var m Memory
	for i, o := range []Outcome{
		{Signature: "s", Option: "a", Command: "npm ci", Result: Verified, ByPerson: true},
		{Signature: "s", Option: "a", Command: "npm ci", Result: Verified, ByPerson: true},
		{Signature: "s", Option: "b", Command: "npm install", Result: Ineffective},
		{Signature: "other", Option: "c", Command: "rm -rf dist", Result: Verified},
		{Signature: "other", Option: "c", Command: "rm -rf dist", Result: Verified},
		{Signature: "other", Option: "c", Command: "rm -rf dist", Result: Harmful},
		{Signature: "s", Command: "make fix", Result: Verified},
		{Signature: "s", Command: "make fix", Result: Failed},
		{Signature: "s", Command: "make fix", Result: Verified},
	} {
		o.At = start.Add(time.Duration(i) * time.Hour)
		m.Add(o)
	}
	a, b, none := m.Past("s", "a").Score(), m.Past("s", "b").Score(), m.Past("s", "never").Score()
	if !(a > none && none > b && none == 0) || a != 0.5 {
		t.Errorf("scores %v %v %v", a, b, none)
	}
	if far := m.Past("unseen", "a").Score(); far <= 0 || far >= a {
		t.Errorf("against another failure it is %v, %v against this one", far, a)
	}
	got := m.Suggest(func(c string) bool { return c == "listed" })
	if len(got) != 2 || got[0].Command != "npm ci" || got[0].Approved != 2 || got[1].Command != "make fix" {
		t.Errorf("%+v", got)
	}
	if got := m.Suggest(func(c string) bool { return c == "npm ci" }); len(got) != 1 {
		t.Errorf("what is listed is suggested: %+v", got)
	}
}

// A score stays in its bounds, and one more success never lowers it.
func TestScoreProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var m Memory
		n := rapid.IntRange(0, 30).Draw(t, "outcomes")
		for i := range n {
			m.Add(Outcome{Signature: rapid.SampledFrom([]string{"", "s", "t"}).Draw(t, "signature"), Option: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "option"),
				Result: rapid.SampledFrom([]string{Verified, Ineffective, Harmful, Failed}).Draw(t, "result"), At: start.Add(time.Duration(i) * time.Minute)})
		}
		before := m.Past("s", "a").Score()
		if before < -1 || before > 1 {
			t.Fatalf("%v", before)
		}
		tried := false
		for _, e := range m.Entries {
			tried = tried || e.Signature == "s" && e.Option == "a"
		}
		m.Add(Outcome{Signature: "s", Option: "a", Result: Verified, At: start.Add(time.Hour)})
		if after := m.Past("s", "a").Score(); tried && after < before {
			t.Fatalf("%v became %v by a success", before, after)
		}
	})
}

func TestBounds(t *testing.T) {
	t.Parallel()
	var m Memory
	for i := range maxEntries + 50 {
		m.Add(Outcome{Command: fmt.Sprint(i), Result: Verified, At: start.Add(time.Duration(i) * time.Second)})
	}
	if len(m.Entries) != maxEntries || m.Entries[0].Command != "50" {
		t.Fatalf("%d entries, the oldest is %s", len(m.Entries), m.Entries[0].Command)
	}
	m.Add(Outcome{Command: "new", Result: Verified, At: start.Add(maxAge + 24*time.Hour)})
	if len(m.Entries) != 1 {
		t.Fatalf("%d entries after a season", len(m.Entries))
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	s := Store{Disk: durable.OS(), Path: filepath.Join(t.TempDir(), "learned.json")}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := s.Record(t.Context(), Outcome{Option: "a", Command: "x", Result: Verified, At: start.Add(time.Duration(i) * time.Second)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	m, err := s.Load()
	if err != nil || len(m.Entries) != 1 || m.Entries[0].Helped != 20 {
		t.Fatalf("%+v (%v)", m, err)
	}
	whole, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); err == nil || !strings.Contains(err.Error(), "learned.json is damaged") {
		t.Fatalf("cut in half: %v", err)
	}
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Load(); err != nil || len(m.Entries) != 0 {
		t.Fatalf("%+v (%v)", m, err)
	}
}

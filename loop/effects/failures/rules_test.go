package failures

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/catalog"
)

// The rule book has the embedded rules, the operator's and the repository's; what is
// wrong with them is said once.
func TestReadsTheRuleBook(t *testing.T) {
	w := newFailuresWorld(t)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(w.Paths.Repo, "config"))
	w.write(filepath.Join(w.Paths.Repo, "config", "superloop", "recovery", "own.yaml"), ownRules)
	for i := range 21 {
		w.write(filepath.Join(w.Paths.Repo, ".superloop", "recovery", "bad"+string(rune('a'+i))+".yaml"), "layer: moon\n")
	}
	r := NewRules(t.Context(), w.Paths.Repo, redact.Values([]string{"hidden-word"}))
	w.recordErr = errTest
	if b, err := r.load(w); b != nil || !errors.Is(err, errTest) {
		t.Fatalf("%v %v", b, err)
	}
	w.recordErr = nil
	b, err := r.load(w)
	if err != nil {
		t.Fatal(err)
	}
	w.said("config_warning")
	problems, _ := w.lines[0].fields["problems"].([]any)
	first, _ := problems[0].(map[string]any)
	if len(problems) != 20 || !strings.Contains(first["message"].(string), "bada.yaml") {
		t.Errorf("%v", problems)
	}
	if again, err := r.load(w); again.cat != b.cat || err != nil {
		t.Errorf("read again: %v", err)
	}
	w.said("config_warning")
	if _, ok := b.cat.Recipe("mytool"); !ok {
		t.Error("the operator's recipe is missing")
	}
	if b.profile.OS == "" {
		t.Errorf("%+v", b.profile)
	}
	w.Rules = r
	w.printed("./check", "", "mytool: the index hidden-word is stale\n", "")
	if c := did[loop.Classified](w, diagnoseTests); c.Handler != "stale_index" || strings.Contains(strings.Join(c.Evidence, ""), "hidden-word") {
		t.Errorf("%+v", c)
	}
}

func TestOneWrongFileIsSaidOnce(t *testing.T) {
	w := newFailuresWorld(t)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	w.write(filepath.Join(w.Paths.Repo, ".superloop", "recovery", "bad.yaml"), "layer: moon\n")
	r := NewRules(t.Context(), w.Paths.Repo, nil)
	for range 2 {
		if b, err := r.load(w); err != nil || len(b.wrong) != 1 {
			t.Fatalf("%+v %v", b, err)
		}
	}
	w.said("config_warning")
}

// Each loop keeps its secrets to itself. A loop that begins after a file has changed has what the file says then, and one
// that has begun keeps what it has read.
func TestLoopsOfAProcess(t *testing.T) {
	w := newFailuresWorld(t)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(w.Paths.Repo, "config"))
	file := filepath.Join(w.Paths.Repo, "config", "superloop", "recovery", "own.yaml")
	w.write(file, ownRules)
	evidence := func(r *Rules) string {
		t.Helper()
		w.Rules = r
		w.printed("./check", "", "mytool: the index one-word other-word is stale\n", "")
		return strings.Join(did[loop.Classified](w, diagnoseTests).Evidence, "")
	}
	one := NewRules(t.Context(), t.TempDir(), redact.Values([]string{"one-word"}))
	other := NewRules(t.Context(), t.TempDir(), redact.Values([]string{"other-word"}))
	if said := evidence(one); strings.Contains(said, "one-word") || !strings.Contains(said, "other-word") {
		t.Errorf("%q", said)
	}
	if said := evidence(other); !strings.Contains(said, "one-word") || strings.Contains(said, "other-word") {
		t.Errorf("%q", said)
	}
	w.write(file, strings.ReplaceAll(ownRules, "stale_index", "old_index"))
	for r, want := range map[*Rules]bool{one: true, NewRules(t.Context(), t.TempDir(), nil): false} {
		if _, had := r.read().cat.Handler("stale_index"); had != want {
			t.Errorf("the handler is there: %v, want %v", had, want)
		}
	}
}

// Loops with the same files share a rule book. It leaves when nobody has used it for a second.
func TestSharedRuleBook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := func(text string) *catalog.Sources {
			return catalog.Read(t.Context(), catalog.Options{More: []catalog.File{{Name: "own.yaml", Data: []byte(text)}}})
		}
		var s books
		first := s.of(files(ownRules)).cat
		if s.of(files(ownRules)).cat != first {
			t.Error("the same files make two books")
		}
		if s.of(files(ownRules+"# other\n")).cat == first || s.of(catalog.Read(t.Context(), catalog.Options{})).cat == first {
			t.Error("other files share the book")
		}
		for range 3 { // used again and again, it stays
			<-time.After(keptFor - 1)
			if s.of(files(ownRules)).cat != first {
				t.Fatal("a book that is in use has left")
			}
		}
		<-time.After(keptFor + 1)
		synctest.Wait()
		if len(s.all) > 0 {
			t.Errorf("%d books stay", len(s.all))
		}
	})
}

// Nothing is read before somebody needs it.
func TestARuleBookThatNobodyNeeds(t *testing.T) {
	w := newFailuresWorld(t)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	bad := filepath.Join(w.Paths.Repo, ".superloop", "recovery", "bad.yaml")
	w.write(bad, "layer: moon\n")
	r := NewRules(t.Context(), w.Paths.Repo, nil)
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	if b, err := r.load(w); err != nil || len(b.wrong) != 0 {
		t.Errorf("%+v %v", b, err)
	}
	w.said()
}

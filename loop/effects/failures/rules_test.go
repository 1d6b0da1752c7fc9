package failures

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/loop"
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
	if again, err := r.load(w); again != b || err != nil {
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

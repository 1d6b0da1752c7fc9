package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/action"
)

// An operator leaves options out, one after the other; what is left out is not tried again, unless it is picked.
func TestSkip(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	choice := func(id string, by bool) Choice {
		return Choice{Key: "h/" + id, ID: id, Label: id, Availability: "ready", ByItself: by, Draft: action.Draft{Command: "run " + id}}
	}
	c := New("c1", Goal{Command: "x", Key: "cmd/x"}, Failure{}, []Choice{choice("a", true), choice("b", false), choice("c", true)}, 0, 0, now)
	next := func(want string) Move {
		t.Helper()
		m, _ := c.Advance(now)
		if m.ID != want {
			t.Fatalf("%s %q, want %q", m.Kind, m.ID, want)
		}
		return m
	}
	skip := func(name, want string) {
		t.Helper()
		err := c.Skip(0, name, now)
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.Contains(got, want) {
				t.Fatalf("%q, want %q", got, want)
			}
		} else if want != "" {
			t.Fatalf("no error, want %q", want)
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
	}
	c.Begin(next("a"), now)
	skip("", "is running")
	c.Failed("exit code 1", Failure{}, nil, now)
	skip("b", "")
	skip("b", "no option \"b\" that could be left out")
	next("c") // chosen, not begun
	skip("", "")
	next("")
	if c.Status != Exhausted {
		t.Fatal(c.Status)
	}
	if err := c.Retry(0, now); err != nil { // a has failed and is fresh again; b and c are not
		t.Fatal(err)
	}
	next("a")
	skip("a", "")
	next("")
	skip("", "level 1 has no option left")
	if err := c.Skip(2, "", now); err == nil {
		t.Error("there is no level 2")
	}
	text := Describe(c, 80)
	if n := strings.Count(text, "[skipped]"); n != 3 {
		t.Errorf("%d are skipped:\n%s", n, text)
	}
	data, err := Response(c)
	if err != nil || strings.Count(string(data), `"tried":"skipped"`) < 3 {
		t.Errorf("%v %s", err, data)
	}
	if err := c.Pick(0, "b", now); err != nil {
		t.Fatal(err)
	}
	c.Begin(next("b"), now)
	c.Succeeded(now)
	if c.Status != Open || !c.Verifying {
		t.Errorf("%s", c.Status)
	}
}

// What reaches the goal another way ends the chain: the goal's own command would still fail.
func TestAnotherWay(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	c := New("c1", Goal{Command: "pip install x", Key: "cmd/x"}, Failure{}, []Choice{{Key: "h/a", ID: "a", Label: "Take pipx", Availability: "locked",
		ByItself: true, Reaches: true, Draft: action.Draft{Command: "pipx install x"}, Needs: []Need{{Goal: "tool/pipx", Label: "install pipx",
			Options: []Choice{{Key: "n", ID: "n", Availability: "ready", ByItself: true, Draft: action.Draft{Command: "get pipx"}}}}}}}, 0, 0, now)
	for _, want := range []string{"get pipx", "pipx install x"} {
		m, _ := c.Advance(now)
		if m.Command != want {
			t.Fatalf("%q, want %q", m.Command, want)
		}
		c.Begin(m, now)
		c.Succeeded(now)
	}
	if m, _ := c.Advance(now); c.Status != Done || m.Kind != Stop || !strings.Contains(Describe(c, 80), "its goal is reached another way: Take pipx") {
		t.Errorf("%s %s\n%s", c.Status, m.Kind, Describe(c, 80))
	}
}

// The answer has four options at most; the others, and the impossible ones, are in more.
func TestFoldedOptions(t *testing.T) {
	t.Parallel()
	var all []Shown
	for _, id := range strings.Split("aBcdefG", "") {
		o := Shown{ID: id, Availability: "ready"}
		if id == "B" || id == "G" {
			o.Availability = impossible
		}
		all = append(all, o)
	}
	names := func(list []Shown) (s string) {
		for _, o := range list {
			s += o.ID
		}
		return s
	}
	if first, more := folded(all); names(first) != "acde" || names(more) != "BfG" {
		t.Errorf("%s and %s", names(first), names(more))
	}
	if first, more := folded(nil); first == nil || len(first)+len(more) > 0 {
		t.Errorf("%v %v", first, more)
	}
}

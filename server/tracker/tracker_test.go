package tracker

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/server/forge"
)

func TestSpecIsBoundedAndPlain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		it := Item{ID: "ENG-12", Title: rapid.String().Draw(t, "title"), Body: rapid.String().Draw(t, "body") + strings.Repeat("ü\x1b", rapid.SampledFrom([]int{0, 5, 700_000}).Draw(t, "n")), URL: rapid.String().Draw(t, "url")}
		spec := string(it.Spec())
		if len(spec) > maxSpec || !strings.HasPrefix(spec, "# ") || !strings.Contains(spec, "\nItem ENG-12") {
			t.Fatalf("%d bytes, %.100q", len(spec), spec)
		}
		if i := strings.IndexFunc(spec, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' || unicode.Is(unicode.Cf, c) }); i >= 0 {
			t.Fatalf("%q", spec[i:])
		}
		if title, _, _ := strings.Cut(spec, "\n"); strings.TrimSpace(strings.TrimPrefix(title, "#")) == "" {
			t.Fatal("no title")
		}
	})
}

func TestValidID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{"17": true, "ENG-12": true, "bd-a1b2": true, "bd-a1b2.1": true, "": false, "-x": false, "x-": false, "a..b": false, "a/b": false, "a.lock": false, ".a": false,
		"a b": false, "ü": false, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "a\n": false} {
		if ValidID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}

// Whatever an item is called, no argument of gh or glab begins with a dash that superloop did not put there.
func TestAnIDIsNoFlag(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringOf(rapid.SampledFrom([]rune("-a1/.:{%\n"))).Draw(t, "id")
		n, err := number(id)
		if err == nil && (n < 1 || strings.Trim(id, "0123456789") != "") {
			t.Fatalf("%q is %d", id, n)
		}
		if ValidID(id) && strings.ContainsAny(id, "/:{%\n") {
			t.Fatalf("%q", id)
		}
		call := forge.Call{Method: "GET", Path: forge.Forge{Program: forge.GH, Path: "a/b"}.Root() + "/issues/" + id}
		argv := forge.Tool{Forge: forge.Forge{Program: forge.GH, Host: "h", Path: "a/b"}}.Argv(call)
		if last := argv[len(argv)-1]; !strings.HasPrefix(last, "repos/a/b") {
			t.Fatalf("%q", argv)
		}
	})
}

// What a comment says is bounded, and what was told once is known by its marker.
func TestReport(t *testing.T) {
	t.Parallel()
	long := Report{State: Failed, Text: strings.Repeat("ü", 100_000), URL: "https://example.com"}
	if n := len(long.comment()); n > maxComment+500 {
		t.Errorf("%d bytes", n)
	}
	other, same := long, long
	other.State = Delivered
	if m := long.marker("1"); m == long.marker("2") || m == other.marker("1") || m != same.marker("1") {
		t.Error(m)
	}
}

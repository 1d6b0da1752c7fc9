package take

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestForgeOfAnAddress(t *testing.T) {
	t.Parallel()
	env := func(name string) string {
		return map[string]string{"GH_HOST": "code.example.com", "GITLAB_HOST": "https://git.example.org"}[name]
	}
	for address, want := range map[string]string{
		"https://github.com/ann/project.git":               "gh github.com ann/project",
		"https://ann:secret@github.com/ann/project":        "gh github.com ann/project",
		"git@github.com:ann/project.git":                   "gh github.com ann/project",
		"ssh://git@GitHub.com:22/ann/project.git":          "gh github.com ann/project",
		"https://gitlab.com/group/sub/project.git":         "glab gitlab.com group/sub/project",
		"git@gitlab.example.com:group/project.git":         "glab gitlab.example.com group/project",
		"https://code.example.com/ann/project":             "gh code.example.com ann/project",
		"https://git.example.org/ann/project":              "glab git.example.org ann/project",
		"https://other.example.org/ann/project":            "",
		"https://github.com/ann":                           "",
		"https://github.com/a/b/c":                         "",
		"https://github.com/../project":                    "",
		"http://github.com/ann/project":                    "",
		"ext::sh -c touch% pwned github.com/ann/project":   "",
		"/srv/git/project.git":                             "",
		"../project.git":                                   "",
		"--upload-pack=touch pwned":                        "",
		"https://github.com/ann/project?x=https://y/--web": "gh github.com ann/project",
		"": "",
	} {
		f, ok := ForgeOf(address, env)
		got := ""
		if ok {
			got = f.Program + " " + f.Host + " " + f.Path
		}
		if got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

// Whatever a remote is called, no argument of a program begins with a dash that superloop did not put there.
func TestAnAddressIsNoFlag(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.SampledFrom([]string{"", "https://github.com/", "git@gitlab.com:", "https://"}).Draw(t, "start") + rapid.StringOf(rapid.SampledFrom([]rune("-a/.:@% \n'"))).Draw(t, "address")
		f, ok := ForgeOf(address, func(string) string { return "" })
		if !ok {
			return
		}
		if strings.HasPrefix(f.Host, "-") || strings.ContainsAny(f.Host+f.Path, " \n'%?#") {
			t.Fatalf("%q: %+v", address, f)
		}
		for _, c := range []Call{f.Find("b"), f.Create("b", "", "t", "body", true), f.Update(1, "body")} {
			i := slices.IndexFunc(c.Args, func(a string) bool { return strings.Contains(a, f.Path) })
			if i >= 0 && strings.HasPrefix(c.Args[i], "-") {
				t.Fatalf("%q: %q", address, c.Args)
			}
		}
	})
}

func TestColouredShowsNoControlCharacter(t *testing.T) {
	t.Parallel()
	patch := "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n same\n--- no head\n+evil\x1b]0;title\x07\x1b[2J\u202e\n"
	want := "\x1b[1mdiff --git a/f b/f\x1b[m\n\x1b[1m--- a/f\x1b[m\n\x1b[1m+++ b/f\x1b[m\n\x1b[36m@@ -1,2 +1,2 @@\x1b[m\n same\n\x1b[31m--- no head\x1b[m\n\x1b[32m+evil"
	got := string(Coloured([]byte(patch)))
	if !strings.HasPrefix(got, want) || strings.Count(got, "\x1b") != 12 || strings.ContainsAny(got, "\a\u202e") {
		t.Errorf("%q", got)
	}
}

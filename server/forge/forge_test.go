package forge

import (
	"net/url"
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
		"https://gitlab.example.com:8443/group/project":    "glab gitlab.example.com:8443 group/project",
		"https://github.com:443/ann/project":               "gh github.com ann/project",
		"https://github.com:x/ann/project":                 "",
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
		f, ok := Of(address, env)
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
		f, ok := Of(address, func(string) string { return "" })
		if !ok {
			return
		}
		if strings.HasPrefix(f.Host, "-") || strings.ContainsAny(f.Host+f.Path, " \n'%?#{") {
			t.Fatalf("%q: %+v", address, f)
		}
		for _, c := range []Call{f.FindCall("b"), f.CreateCall(Request{Branch: "b"}), {Method: "GET", Path: f.Root()}} {
			argv := Tool{Forge: f}.Argv(c)
			for i, a := range argv {
				if strings.Contains(a, f.Host) && strings.HasPrefix(a, "-") || i == len(argv)-1 && (strings.HasPrefix(a, "-") || strings.ContainsAny(a, ":{ ")) {
					t.Fatalf("%q: %q", address, argv)
				}
			}
		}
	})
}

// Whatever a branch is called, it stays in its place of the address: gh puts a name for {owner} and :branch.
func TestABranchIsNoFlag(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		branch := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"{owner}", "branch", "--web", "a&state=all", "a%00#"})).Draw(t, "branch")
		for _, program := range []string{GH, Glab} {
			f := Forge{Program: program, Host: "h", Path: "a/b"}
			path := f.FindCall(branch).Path
			u, err := url.Parse(path)
			if err != nil || strings.ContainsAny(path, ":{} #") || !strings.HasPrefix(path, f.Root()+"/") {
				t.Fatalf("%q: %q", branch, path)
			}
			q := u.Query()
			if got := q.Get("source_branch"); program == Glab && got != branch {
				t.Fatalf("%q: %q", branch, got)
			}
			if got := q.Get("head"); program == GH && got != "a:"+branch {
				t.Fatalf("%q: %q", branch, got)
			}
		}
	})
}

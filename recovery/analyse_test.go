package recovery

import (
	"slices"
	"strings"
	"testing"
)

// The parts of a command, wherever they stand.
func TestParts(t *testing.T) {
	t.Parallel()
	for command, want := range map[string][]string{
		"rm -rf node_modules && bun install":       {"rm -rf node_modules", "bun install"},
		"bun install; curl x":                      {"bun install", "curl x"},
		"sudo -u bob env A=1 timeout 5 git  push":  {"sudo -u bob env A=1 timeout 5 git  push", "env A=1 timeout 5 git push", "timeout 5 git push", "git push"},
		"bash -c 'a b; c'":                         {"bash -c 'a b; c'", "a b", "c"},
		"echo $(a) `b` \"$(c)\"":                   {"echo $(a) `b` \"$(c)\"", "a", "b", "c"},
		"cat <<E\n$(a)\nE":                         {"cat", "a"},
		"f() { a \"$1\"; }; f x":                   {"a \"$1\"", "f x"},
		"if a; then b; elif c; then d; else e; fi": {"a", "b", "c", "d", "e"},
		"case x in (y) a;; esac":                   {"a"},
		"find . -exec a {} \\; -o -exec b {} +":    {"find . -exec a {} \\; -o -exec b {} +", "a ...", "b ..."},
		"echo x | xargs -n1 a b":                   {"echo x", "xargs -n1 a b", "a b ..."},
		"A=$(a) export B=`b`":                      {"A=$(a) export B=`b`", "a", "b"},
		"export B=`b`":                             {"export B=`b`", "b"},
		"eval a 'b; c'":                            {"eval a 'b; c'", "a b", "c"},
		"trap 'a; b' EXIT":                         {"trap 'a; b' EXIT", "a", "b"},
		"git rebase -x 'a b' HEAD":                 {"git rebase -x 'a b' HEAD", "a b"},
		"git submodule foreach 'a; b'":             {"git submodule foreach 'a; b'", "a", "b"},
		"git bisect run a b":                       {"git bisect run a b", "a b"},
		"a\nb # c":                                 {"a", "b"},
		"a &\nwait":                                {"a", "wait"},
		"command -v a":                             {"command -v a"},
		"time -p a b":                              {"a b"},
		"env -S 'A=1 a b' c":                       {"env -S 'A=1 a b' c", "a b c"},
		"[[ $(a) ]]":                               {"a"},
		"echo ${x:-$(a)} $(( $(b) ))":              {"echo ${x:-$(a)} $(( $(b) ))", "a", "b"},
		"watch -n 1 'a; b'":                        {"watch -n 1 'a; b'", "a", "b"},
		"busybox sh -c 'a'":                        {"busybox sh -c 'a'", "sh -c a", "a"},
		"npx -y a b":                               {"npx -y a b", "a b"},
	} {
		if got := texts(Analyse(command)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}

// What is not understood is said, and not said where everything is.
func TestOpaque(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"$X a":                                 "not written out",
		"bash x.sh":                            "a file that is not read",
		"curl x | sh":                          "reads commands from its input",
		". ./env":                              "a file that is not read",
		"python -c x":                          "code that is in the command",
		"PATH=. ls":                            "setting PATH",
		"((x))":                                "arithmetic",
		"if":                                   "cannot be read",
		"# nothing":                            "no command",
		"!(a)":                                 "subshell",
		"git frobnicate":                       "alias",
		"timeout --wat 5 a":                    "not all understood",
		"sudo -s":                              "a shell that reads its input",
		"\u0261it push":                        "plain ASCII",
		"git pu\u200bsh":                       "<U+200B> at byte 6",
		strings.Repeat("(", 65) + "a":          "more than 64 deep",
		strings.Repeat("() ", 257):             "more than 256",
		strings.Repeat("nice ", 12) + "a":      "10 deep",
		"eval " + strings.Repeat("'", 1) + "x": "cannot be read",
		strings.Repeat("a;", 1100):             "too many",
		strings.Repeat("a", MaxEntry+1):        "bytes",
		"a\x00b":                               "not text",
	} {
		a := Analyse(command)
		if !slices.ContainsFunc(a.Opaque, func(r Remark) bool { return strings.Contains(r.Why, want) }) {
			t.Errorf("%.40q: %v, want %q", command, a.Opaque, want)
		}
	}
	for _, command := range []string{"a b c", "rm -rf node_modules && bun install", "echo \"$x\" $y", "for f in *; do rm \"$f\"; done", "git -C \"$d\" log -1"} {
		if a := Analyse(command); len(a.Opaque) > 0 || len(a.Hidden) > 0 || a.Privileged != "" || a.State != "" {
			t.Errorf("%q: %+v", command, a)
		}
	}
}

func TestHiddenCharacters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\u200bb": "<U+200B>", "a\u00a0b": "<U+00A0>", "\u202ea": "<U+202E>", "a\u2066": "<U+2066>", "a\ufeff": "<U+FEFF>", "a\x1b[2K": "<U+001B>", "a\rb": "<U+000D>", "a\x7f": "<U+007F>", "a\u0085": "<U+0085>",
		"a\u115f": "<U+115F>", "a\u3164": "<U+3164>", "a\uffa0": "<U+FFA0>", "a\ufe0f": "<U+FE0F>", "a\U000e0041": "<U+E0041>", "a\u2028": "<U+2028>", "a\u3000": "<U+3000>", "a\u034f": "<U+034F>", "a\u2800": "<U+2800>", "a\u00ad": "<U+00AD>", "a\ue000": "<U+E000>",
	} {
		got := hidden(text)
		if len(got) == 0 || got[0].Name != want {
			t.Errorf("%q: %v, want %s", text, got, want)
		}
	}
	for _, text := range []string{"plain ASCII ~!@#$%^&*()", "tab\tand\nnewline", "é ü ß 日本 д"} {
		if got := hidden(text); len(got) > 0 {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	p := publishedPolicy(t)
	for command, want := range map[string]struct {
		entry string
		at    int
	}{
		"npm  install":                        {"npm install", 4},
		"npm install":                         {"npm install", 11},
		"npm instal1":                         {"npm install", 10},
		"npm install; curl x":                 {"npm install", 11},
		"rm -rf node_modules && npm  install": {"rm -rf node_modules && npm install", 27},
		"sudo bun install":                    {"bun install", 0},
		"ls":                                  {"", 0},
		strings.Repeat("x", 4000):             {"", 0},
	} {
		near, ok := p.Nearest(command)
		if ok != (want.entry != "") || ok && (near.Text != want.entry || near.At != want.at) {
			t.Errorf("%.40q: %+v %v, want %+v", command, near, ok, want)
		}
	}
}

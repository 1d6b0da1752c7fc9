package provides

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The answers are those of the real programs.
func TestProviders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		manager, program string
		answers          map[string]string // by the first words of the question
		want             []string
	}{
		"command-not-found": {"apt", "hugo", map[string]string{"/usr/lib/command-not-found": "Command 'hugo' not found, but can be installed with:\nsudo apt install hugo\n"}, []string{"hugo"}},
		"several": {"apt", "nc", map[string]string{"/usr/lib/command-not-found": "Command 'nc' not found, but can be installed with:\nsudo apt install netcat-openbsd      # version 1.226, or\nsudo apt install netcat-traditional  # version 1.10\n"},
			[]string{"netcat-openbsd", "netcat-traditional"}},
		"another program":       {"apt", "hugoo", map[string]string{"/usr/lib/command-not-found": "Command 'hugoo' not found, did you mean:\n  command 'hugo' from deb hugo (0.1)\nTry: sudo apt install <deb name>\n"}, nil},
		"apt-file":              {"apt", "rspec", map[string]string{"apt-file search": "ruby-rspec-core: /usr/bin/rspec\nfoo: /usr/lib/foo/bin/rspec\n"}, []string{"ruby-rspec-core"}},
		"the one of that name":  {"apt", "x", map[string]string{"apt-file search": "a: /usr/bin/x\nlongx: /bin/x\nx: /usr/games/x\n"}, []string{"x", "a", "longx"}},
		"dnf":                   {"dnf", "clang", map[string]string{"dnf --quiet": "clang\nclang\n"}, []string{"clang"}},
		"apk":                   {"apk", "rg", map[string]string{"apk search": "ripgrep\n"}, []string{"ripgrep"}},
		"pacman":                {"pacman", "rg", map[string]string{"pacman -F": "extra\x00ripgrep\x0014.1.1-1\x00usr/bin/rg\n"}, []string{"ripgrep"}},
		"zypper":                {"zypper", "rg", map[string]string{"zypper --non-interactive": "\nS | Name    | Summary | Type\n--+---------+---------+--------\n  | ripgrep | A tool  | package\n"}, []string{"ripgrep"}},
		"nobody knows":          {"apt", "frobnicate", nil, nil},
		"an unknown manager":    {"port", "rg", nil, nil},
		"an option":             {"apt", "--help", map[string]string{"apt-file search": "a: /usr/bin/--help"}, nil},
		"a regular expression":  {"apt", "a|b", map[string]string{"apt-file search": "a: /usr/bin/a|b"}, nil},
		"a package of bad name": {"dnf", "x", map[string]string{"dnf --quiet": "--evil\n;rm\nfine\n"}, []string{"fine"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := New([]string{c.manager})
			asked := 0
			x.ask = func(_ context.Context, argv ...string) ([]byte, error) {
				asked++
				for head, answer := range c.answers {
					if strings.HasPrefix(strings.Join(argv, " "), head) {
						return []byte(answer), nil
					}
				}
				return nil, errors.New("it is not there")
			}
			if got := x.Providers(c.program); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			n := asked
			if x.Providers(c.program); asked != n {
				t.Error("it asks twice")
			}
		})
	}
}

// The real index of this machine, where it has one.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("apt-cache"); err != nil {
		t.Skip("this machine has no apt")
	}
	x := New([]string{"apt"})
	if x.Package("no-such-package-anywhere") || x.Package("-o") || x.Package("a b") {
		t.Error("what does not exist is there")
	}
	if got := x.Providers("no-such-program-anywhere"); got != nil {
		t.Errorf("%q", got)
	}
	t.Logf("rspec is in %q; is bash a package: %t", x.Providers("rspec"), x.Package("bash"))
}

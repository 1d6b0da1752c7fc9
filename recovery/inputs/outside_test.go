package inputs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/places"
)

// TestOutside: what an agent can write below the home directory, and what runs or steers the command.
func TestOutside(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command, file, text, want string
	}{
		"npm":                    {"npm install", ".npmrc", "script-shell=./evil", "appeared ~/.npmrc"},
		"another tool's":         {"go build", ".npmrc", "script-shell=./evil", ""},
		"pip":                    {"pip install x", ".config/pip/pip.conf", "[global]\nindex-url = https://evil\n", "appeared ~/.config/pip/pip.conf"},
		"pip of a version":       {"pip3.12 install x", ".config/pip/pip.conf", "[global]\n", "appeared ~/.config/pip/pip.conf"},
		"cargo":                  {"cargo build", ".cargo/config.toml", "[build]\nrustc-wrapper = 'evil'\n", "appeared ~/.cargo/config.toml"},
		"go":                     {"go mod download", ".config/go/env", "GOFLAGS=-toolexec=evil\n", "appeared ~/.config/go/env"},
		"gradle":                 {"gradle build", ".gradle/init.d/a.gradle", "evil", "appeared ~/.gradle/init.d/a.gradle"},
		"git":                    {"git fetch", ".gitconfig", "[core]\nsshCommand = evil\n", "appeared ~/.gitconfig"},
		"git of npm":             {"npm ci", ".gitconfig", "[core]\nsshCommand = evil\n", "appeared ~/.gitconfig"},
		"in a script":            {"sh fix.sh", ".bundle/config", "BUNDLE_PATH: evil\n", "appeared ~/.bundle/config"},
		"a program first":        {"npm install", "bin/npm", "evil", "appeared ~/bin/npm"},
		"a program last":         {"npm install", "sbin/npm", "evil", "changed ~/sbin/npm"},
		"a program of a script":  {"sh fix.sh", "bin/bundle", "evil", "appeared ~/bin/bundle"},
		"by its path":            {"~/tool x", "tool", "evil", "changed ~/tool"},
		"that nobody named":      {"npm install", "bin/other", "evil", ""},
		"a directory of nothing": {"npm install", ".npmrc/x", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := box{t: t, dir: t.TempDir()}
			b.put("fix.sh", "bundle install\n")
			home := b
			home.dir = t.TempDir()
			home.put("sbin/npm", "good")
			home.put("tool", "good")
			q := query(c.command)
			q.Outside = Outside{Home: home.dir, Path: strings.Join([]string{filepath.Join(home.dir, "bin"), "/usr/bin", filepath.Join(home.dir, "sbin"), "rel"}, ":")}
			base, err := decode(b.take(q).encode())
			if err != nil {
				t.Fatal(err)
			}
			if got := names(b.check(base, q)); got != "" {
				t.Errorf("unchanged, but %s", got)
			}
			home.put(c.file, c.text)
			changes := b.check(base, q)
			if got := names(changes); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if c.want != "" && !strings.Contains(Diff(changes), "+"+strings.Split(c.text, "\n")[0]) {
				t.Errorf("the operator is not shown it: %s", Diff(changes))
			}
		})
	}
}

// TestOutsideOdd: links, what cannot be read, what is large, and a directory "~" of the repository.
func TestOutsideOdd(t *testing.T) {
	t.Parallel()
	b := box{t: t, dir: t.TempDir()}
	b.put("~/.npmrc", "of the repository")
	home := b
	home.dir = t.TempDir()
	q := query("npm install")
	q.Outside = Outside{Home: home.dir, Path: filepath.Join(home.dir, "bin")}
	base := b.take(q)
	want := func(when, want string) {
		t.Helper()
		if got := names(b.check(base, q)); got != want {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
	want("nothing", "")
	b.put("~/.npmrc", "changed")
	want("of the repository", "")
	home.put("real", "x")
	home.link("real", ".npmrc")
	want("a link inside", "appeared ~/.npmrc")
	base = b.take(q)
	home.put("real", "y")
	want("behind the link", "changed ~/.npmrc")
	home.rm(".npmrc")
	home.link("/etc/hostname", ".npmrc")
	base = b.take(q)
	want("a link out", "")
	home.rm(".npmrc")
	home.link("/etc/passwd", ".npmrc")
	want("another link out", "changed ~/.npmrc")
	home.rm(".npmrc")
	base = b.take(q)
	home.link("/proc/self/nowhere", ".npmrc")
	want("a name that is kept free", "")
	home.rm(".npmrc")
	home.link("/proc/self/nowhere", ".config")
	want("a directory that is kept free", "")
	home.put("bin/npm", strings.Repeat("x", maxRead+1))
	base = b.take(q)
	want("large", "")
	home.put("bin/npm", strings.Repeat("y", maxRead+1))
	want("large, changed", "changed ~/bin/npm")
	home.rm("bin")
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "npm"), []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	home.link(outside, "bin")
	want("a directory that is a link out", "changed ~/bin/npm")
	q.Outside.Home = filepath.Join(home.dir, "none")
	base = b.take(q)
	want("no home", "")
}

// TestSteeringNamesPrograms: each program of the list is in the table of programs.
func TestSteeringNamesPrograms(t *testing.T) {
	t.Parallel()
	for name, files := range places.ByProgram() {
		if _, ok := table()[name]; !ok && name != "" {
			t.Errorf("%s is no program of the table", name)
		}
		for _, file := range files {
			if !filepath.IsLocal(file) || strings.Contains(strings.TrimSuffix(file, "/*"), "*") {
				t.Errorf("%s: %s", name, file)
			}
		}
	}
}

package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repo, bin := base+"/repo", base+"/bin"
	for _, dir := range []string{repo + "/node_modules/.bin", bin, base + "/repo-tools"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link(t, repo+"/node_modules/.bin", base+"/way-in")
	operator := []string{
		"HOME=/home/me", "USER=me", "LOGNAME=me", "LANG=de_DE.UTF-8", "LC_ALL=C", "TZ=UTC", "LC_TIME=C", "TERM=xterm", "CI=0", "SHELL=/bin/zsh", "TMPDIR=/elsewhere",
		"PATH=" + strings.Join([]string{"bin", "", ".", "./x", bin, repo, repo + "/node_modules/.bin", base + "/way-in", base + "/repo/../repo/node_modules", base + "/missing",
			base + "/repo-tools", bin}, ":"),
		"NODE_OPTIONS=--require=x", "BASH_ENV=x", "BASH_FUNC_ls%%=() { x; }", "LD_PRELOAD=x", "GIT_DIR=x", "GIT_TERMINAL_PROMPT=1", "npm_config_registry=x", "SSH_AUTH_SOCK=x", "HTTP_PROXY=p",
		"MY_ONE=1", "MY_TWO=2", "OTHER=3", "LC_CTYPE=ja_JP.SJIS", "=odd", "odd", "IFS=x", "NUL=a\x00b",
	}
	shell, err := findBash(shellPath)
	if err != nil {
		t.Fatal(err)
	}
	fixed := []string{"CI=1", "GIT_TERMINAL_PROMPT=0", "HOME=/home/me", "LANG=de_DE.UTF-8", "LC_ALL=C", "LOGNAME=me", "PATH=" + bin + ":" + base + "/repo-tools", "SHELL=" + shell,
		"TERM=dumb", "TMPDIR=/private", "TZ=UTC", "USER=me"}
	for _, c := range []struct{ pass, more []string }{
		{nil, nil},
		{[]string{"HTTP_PROXY", "ABSENT", "LC_CTYPE"}, []string{"HTTP_PROXY=p"}},
		{[]string{"MY_*"}, []string{"MY_ONE=1", "MY_TWO=2"}},
		{[]string{"*", ""}, nil},
		// By its whole name an operator may pass on what steers programs, but never what bends bash.
		{[]string{"NODE_OPTIONS", "LD_*", "G*", "BASH_ENV", "BASH_*", "IFS", "I*", "NUL"}, []string{"NODE_OPTIONS=--require=x"}},
		{[]string{"PATH", "TERM", "GIT_TERMINAL_PROMPT", "TMPDIR"}, nil},
	} {
		want := slices.Sorted(slices.Values(append(slices.Clone(fixed), c.more...)))
		if got := Environment(operator, c.pass, repo, "/private"); !slices.Equal(got, want) {
			t.Errorf("pass %q\ngot  %q\nwant %q", c.pass, got, want)
		}
	}
	if got := Environment(nil, nil, repo, ""); !slices.Equal(got, []string{"CI=1", "GIT_TERMINAL_PROMPT=0", "PATH=" + fallbackPath, "SHELL=" + shell, "TERM=dumb"}) {
		t.Errorf("of nothing: %q", got)
	}
}

// Whatever the operator has, what bends bash never comes through, and each name
// comes once.
func TestEnvironmentProperty(t *testing.T) {
	t.Parallel()
	names := rapid.OneOf(rapid.StringMatching(`[A-Z_]{1,12}`), rapid.SampledFrom([]string{"BASH_ENV", "ENV", "SHELLOPTS", "BASH_FUNC_a%%", "IFS", "PS4", "PATH", "HOME"}))
	rapid.Check(t, func(t *rapid.T) {
		var base []string
		for _, n := range rapid.SliceOf(names).Draw(t, "names") {
			base = append(base, n+"="+rapid.StringMatching(`[a-z/:.]{0,9}`).Draw(t, "value"))
		}
		seen := map[string]bool{}
		for _, e := range Environment(base, rapid.SliceOf(names).Draw(t, "pass"), "/repo", "/tmp") {
			name, value, _ := strings.Cut(e, "=")
			if seen[name] || bends(name) {
				t.Fatalf("%q from %q", e, base)
			}
			seen[name] = true
			if name == "PATH" {
				for _, dir := range filepath.SplitList(value) {
					if !filepath.IsAbs(dir) || under(filepath.Clean(dir), "/repo") {
						t.Fatalf("PATH %q", value)
					}
				}
			}
		}
	})
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	r := Secrets([]string{
		"GH_TOKEN=ghp-aaaaaaaaaa", "AWS_SECRET_ACCESS_KEY=bbbbbbbbbbbb", "DB=postgres://me:cccccccccc@host/db", "my_password=dddddddddd", "SSH_AUTH_SOCK=/run/agent.sock",
		"SIGNING_KEY=/home/me/key.pem", "PWD=/home/me/repo", "EDITOR=vimvimvim", "SHORT_TOKEN=abc", "SENTRY_DSN=eeeeeeeeee", "KEYBOARD=qwertzuiop", "SLACK_WEBHOOK_URL=ffffffffff",
	})
	for in, want := range map[string]string{
		"ghp-aaaaaaaaaa": redact.Mark, "bbbbbbbbbbbb": redact.Mark, "postgres://me:cccccccccc@host": "postgres://me:" + redact.Mark + "@host", "dddddddddd": redact.Mark,
		"eeeeeeeeee": redact.Mark, "ffffffffff": redact.Mark,
		"/run/agent.sock /home/me/key.pem /home/me/repo vimvimvim abc qwertzuiop": "/run/agent.sock /home/me/key.pem /home/me/repo vimvimvim abc qwertzuiop",
	} {
		if got := r.String(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
	if Secrets(nil).String("as it is") != "as it is" {
		t.Error("nothing is changed to something")
	}
}

func TestSpecIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid(), "")
	ok := w.job(t, "echo ran").spec()
	for want, change := range map[string]func(*Spec){
		"no command":           func(s *Spec) { s.Command = " \n\t" },
		"NUL":                  func(s *Spec) { s.Command = "echo a\x00b" },
		"bytes":                func(s *Spec) { s.Command = strings.Repeat("x", MaxCommand+1) },
		"not resolved":         func(s *Spec) { s.Place = Place{Repo: s.Place.Repo} },
		"network \"half\"":     func(s *Spec) { s.Network = "half" },
		"no sandbox level":     func(s *Spec) { s.Required = "landlok" },
		"not an absolute path": func(s *Spec) { s.Writable = []string{"here"} },
		"protected or hidden":  func(s *Spec) { s.Hidden = []string{filepath.Dir(w.repo)} },
		"is to be writable":    func(s *Spec) { s.Writable = []string{w.repo + "/.superloop/tmp"} },
		"variable \"A\"":       func(s *Spec) { s.Env = []string{"A=\x00"} },
	} {
		spec := ok
		change(&spec)
		res, err := Run(context.Background(), w.spawner, spec)
		if err == nil || !strings.Contains(err.Error(), want) || res.Ended != proc.NotStarted || res.Output.Bytes != 0 {
			t.Errorf("%s: %v %v", want, err, outcomeOf(res, nil))
		}
	}
}

func TestNoBash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/sh", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := findBash(dir); !errors.Is(err, ErrNoBash) || !strings.Contains(err.Error(), "sh is not enough") {
		t.Errorf("%q %v", path, err)
	}
	if path, err := findBash(shellPath); err != nil || filepath.Base(path) != "bash" {
		t.Errorf("%q %v", path, err)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                     "said nothing",
		"{":                    "unexpected EOF",
		"nonsense":             "invalid character",
		`{"level":"landlock"}`: "",
		`{"level":"none"}{"level":"landlock","failure":"setup","text":"exec"}`: "",
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, in); err != nil {
			t.Fatal(err)
		}
		w.Close()
		rep, err := readReport(r)
		r.Close()
		if want == "" && (err != nil || rep.Level != Landlock || strings.Contains(in, "failure") != (rep.Failure != "")) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %+v %v", in, rep, err)
		}
	}
	var rep report
	for range 2 * maxNotes {
		rep.note("%s", strings.Repeat("x", 2*maxNote))
	}
	if len(rep.Notes) != maxNotes || len(rep.Notes[0]) > maxNote+3 || maxNotes*(maxNote+10) > maxReport {
		t.Errorf("%d notes of %d bytes", len(rep.Notes), len(rep.Notes[0]))
	}
}

// The shim is nothing to be started by hand.
func TestShimByHand(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = proc.Tool{}.Run(context.Background(), exe, ShimArg)
	failed, ok := errors.AsType[*proc.ToolError](err)
	if !ok || failed.Code != 2 || !strings.Contains(failed.Stderr, "not by hand") {
		t.Errorf("%v", err)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	home, bin := t.TempDir(), t.TempDir()
	if err := os.WriteFile(bin+"/npm", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(home+"/.cache/pip", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(home+"/.cargo/registry", 0o755); err != nil {
		t.Fatal(err)
	}
	if got, want := Caches(home, bin), []string{home + "/.npm", home + "/.cache/pip", home + "/.cargo/registry"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Caches("", bin); got != nil {
		t.Errorf("without a home: %q", got)
	}
	tmp, remove, err := NewTmp(home)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(tmp)
	if err != nil || info.Mode().Perm() != 0o700 || filepath.Dir(tmp) != home {
		t.Errorf("%v %v", info, err)
	}
	outside := home + "/.cache/pip"
	link(t, outside, tmp+"/link")
	if err := os.MkdirAll(tmp+"/a/b", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := remove(); err != nil || exists(tmp) || !exists(outside) {
		t.Errorf("%v", err)
	}
}

func TestUnder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path, dir string
		want      bool
	}{
		{"/a", "/a", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/", "/a", false}, {"/a", "/", true}, {"/a/..b", "/a", true}, {"/b/a", "/a", false},
	} {
		if under(c.path, c.dir) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

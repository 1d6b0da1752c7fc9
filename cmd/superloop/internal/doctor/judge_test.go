package doctor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

func TestJudgeGit(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]Status{
		"git version 2.30.0": OK, "git version 2.39.2 (Apple Git-143)": OK, "git version 3.0.rc1": OK,
		"git version 2.29.9": Fail, "git version 1.99.1": Fail, "gut version 2.40": Warn, "": Warn,
	} {
		if got := judgeGit(said, "/bin/git", "fix"); got.Status != want {
			t.Errorf("%q: %+v, want %s", said, got, want)
		}
	}
}

func TestJudgeRoom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		free, inodes, freeInodes uint64
		want                     Status
	}{
		{2 << 30, 1 << 20, 1 << 19, OK}, {1 << 30, 0, 0, OK}, {1<<30 - 1, 0, 0, Warn}, {50 << 20, 0, 0, Warn},
		{50<<20 - 1, 0, 0, Fail}, {0, 0, 0, Fail}, {2 << 30, 1 << 20, 999, Warn}, {2 << 30, 1 << 20, 0, Fail},
	} {
		if got, line := judgeRoom("/x", c.free, c.inodes, c.freeInodes); got != c.want {
			t.Errorf("%+v: %s (%s)", c, got, line)
		}
	}
}

// What each level means is part of what a user relies on.
func TestJudgeContainment(t *testing.T) {
	t.Parallel()
	for level, want := range map[proc.Level]struct {
		status Status
		says   string
	}{
		proc.PIDNamespace: {OK, "the kernel ends all of them when superloop dies"},
		proc.Cgroup:       {Warn, "the next start ends what is left"},
		proc.Subreaper:    {Warn, "ended one by one"},
		proc.ProcessGroup: {Warn, "a process that made a session of its own stays"},
	} {
		got := judgeContainment(level, []string{"because of that"})
		if got.Status != want.status || !strings.HasPrefix(got.Detail, string(level)+": ") ||
			!strings.Contains(got.Detail, want.says) || !strings.HasSuffix(got.Detail, " (because of that)") {
			t.Errorf("%s: %+v", level, got)
		}
	}
}

func TestInotify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		instances, watches string
		want               Status
		fix                string
	}{
		{"128\n", "65536\n", OK, ""},
		{"8\n", "65536\n", Warn, "sudo sysctl fs.inotify.max_user_instances=512"},
		{"128\n", "100\n", Warn, "sudo sysctl fs.inotify.max_user_watches=8192"},
		{"many\n", "100\n", Warn, "sysctl fs.inotify"},
		{"", "", Warn, "sysctl fs.inotify"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"max_user_instances": c.instances, "max_user_watches": c.watches} {
			if text == "" {
				continue // not there
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := inotify(dir); got.Status != c.want || got.Fix != c.fix {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	if exists(filepath.Join(t.TempDir(), "none")) {
		t.Error("limits are known where there are none")
	}
}

func TestExamine(t *testing.T) {
	t.Parallel()
	is := func(name string, s Status) Check {
		return Check{name, func(context.Context) Result { return Result{Status: s, Detail: "a\x1b[2J\nb", Fix: "type this"} }}
	}
	for _, c := range []struct {
		checks  []Check
		healthy bool
	}{
		{nil, true}, {[]Check{is("a", OK), is("b", Warn)}, true}, {[]Check{is("a", Fail), is("b", OK)}, false},
	} {
		if got, err := Examine(context.Background(), c.checks, func(Result) {}); got != c.healthy || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}

	var out bytes.Buffer
	checks := []Check{is("a", OK), is("longer", Fail)}
	if _, err := Examine(context.Background(), checks, Writer(&out)); err != nil {
		t.Fatal(err)
	}
	const want = "ok   a                    a[2J b\n     fix: type this\nfail longer               a[2J b\n     fix: type this\n"
	if out.String() != want {
		t.Errorf("got\n%q, want\n%q", out.String(), want)
	}

	ctx, cancel := context.WithCancel(context.Background())
	ending := Check{"ends", func(context.Context) Result { cancel(); return Result{Status: OK} }}
	told := 0
	if _, err := Examine(ctx, []Check{ending, is("never", OK)}, func(Result) { told++ }); !errors.Is(err, context.Canceled) || told != 0 {
		t.Errorf("after the context ended: %v, %d results told", err, told)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"/a/b-c.d_e": "/a/b-c.d_e", "/a b": "'/a b'", "/it's": `'/it'\''s'`, "": "''", "/a;rm": "'/a;rm'", "~x": "'~x'",
	} {
		if got := text.Paste(in); got != want {
			t.Errorf("text.Paste(%q) = %s, want %s", in, got, want)
		}
	}
}

//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
)

// guardedHere is a world of this process, and a protected spawner in it.
func guardedHere(t testing.TB) (*shielded, Spawner) {
	t.Helper()
	s := shieldedWorld(t, os.Getuid(), "")
	g, rep := Protect(context.Background(), s.spawner, s.protection())
	if rep.Level != ProtectMount {
		if s.refused(outcome{Report: rep}) {
			t.Skipf("no protection is to be had here: %q", rep.Notes)
		}
		t.Fatalf("%+v", rep)
	}
	return s, g
}

// What a command is given, and how it ends, is the same with protection and
// without.
func TestProtectionChangesNothingElse(t *testing.T) {
	t.Parallel()
	s, g := guardedHere(t)
	other, err := proc.Start(proc.Options{}) // so that both run at the same time
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s.write(t, s.repo+"/prompt", "a prompt\n")
	s.write(t, s.repo+"/data", "x")
	s.write(t, s.repo+"/noshebang", "\x01")
	s.write(t, s.repo+"/badshebang", "#!/nowhere/sh\n")
	s.write(t, s.repo+"/script", "#!/bin/sh\necho script \"$0\" \"$@\"\n")
	for _, name := range []string{"noshebang", "badshebang", "script"} {
		if err := os.Chmod(s.repo+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sh := func(script string) []string { return []string{"sh", "-c", script} }
	env := []string{"PATH=/usr/bin:/bin", "ODD=\xff\xfe", "EMPTY=", "GOGC=50", "MARK=1"}
	closed := make(chan struct{})
	close(closed)
	ended := func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx, cancel
	}
	for _, c := range []struct {
		name string
		spec proc.Spec
		kill bool
	}{
		{name: "what it is given", spec: proc.Spec{Argv: sh(`env | sort; pwd; umask; ulimit -a; id; ls /proc/self/fd | wc -l; cat /proc/self/oom_score_adj; ps -o sid=,pid= -p $$ | awk '{print $1==$2}'; nice; grep -E "^(Sig|Seccomp)" /proc/self/status | grep -v SigQ; cat`), Stdin: s.repo + "/prompt"}},
		{name: "arguments", spec: proc.Spec{Argv: []string{"printf", "%s|", "", "a b", "\xff", strings.Repeat("x", 100<<10), "--", "-n"}}},
		{name: "argv0 with a slash", spec: proc.Spec{Argv: []string{"./script", "one", ""}}},
		{name: "argv0 below the directory", spec: proc.Spec{Argv: []string{"../repo/script"}}},
		{name: "code", spec: proc.Spec{Argv: sh("exit 37")}},
		{name: "code of a signal", spec: proc.Spec{Argv: sh("exit 143")}},
		{name: "signal", spec: proc.Spec{Argv: sh("kill -SEGV $$")}},
		{name: "streams", spec: proc.Spec{Argv: sh("echo out; echo err >&2; head -c 300000 /dev/zero | tr '\\0' y"), HeadTail: 1000}},
		{name: "background", spec: proc.Spec{Argv: sh("sleep 100 & sleep 100 & exit 3")}},
		{name: "timeout", spec: proc.Spec{Argv: sh("trap 'echo term; exit 9' TERM; echo up; while :; do :; done"), Timeout: 1200 * time.Millisecond}},
		{name: "timeout, deaf", spec: proc.Spec{Argv: sh("trap '' TERM; echo up; exec sleep 1000"), Timeout: 1200 * time.Millisecond, Grace: 50 * time.Millisecond}},
		{name: "timeout, hurry", spec: proc.Spec{Argv: sh("trap '' TERM; exec sleep 1000"), Timeout: 1200 * time.Millisecond, Grace: time.Minute, Hurry: closed}},
		{name: "inactivity", spec: proc.Spec{Argv: sh("echo up; exec sleep 100"), Inactivity: 1200 * time.Millisecond}},
		{name: "killed before", kill: true, spec: proc.Spec{Argv: sh("echo up")}},
		{name: "marker", spec: proc.Spec{Argv: sh("echo $MARK"), Marker: "MARK=1"}},
		{name: "marker that is missing", spec: proc.Spec{Argv: sh("echo $MARK"), Marker: "MARK=2"}},
		{name: "no command", spec: proc.Spec{}},
		{name: "not there", spec: proc.Spec{Argv: []string{"no-such-agent"}}},
		{name: "not there, path", spec: proc.Spec{Argv: []string{"/no/such/agent"}}},
		{name: "not executable", spec: proc.Spec{Argv: []string{"./data"}}},
		{name: "a directory", spec: proc.Spec{Argv: []string{"./sub"}}},
		{name: "no program", spec: proc.Spec{Argv: []string{"./noshebang"}}},
		{name: "no interpreter", spec: proc.Spec{Argv: []string{"./badshebang"}}},
		{name: "too long", spec: proc.Spec{Argv: []string{"true", strings.Repeat("x", 140<<10)}}},
		{name: "no directory", spec: proc.Spec{Argv: sh("pwd"), Dir: s.repo + "/missing"}},
		{name: "no input", spec: proc.Spec{Argv: sh("cat"), Stdin: s.repo + "/missing"}},
		{name: "NUL", spec: proc.Spec{Argv: []string{"echo", "a\x00b"}}},
		{name: "NUL in the environment", spec: proc.Spec{Argv: []string{"env"}, Env: []string{"A=\x00"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.spec.Env == nil {
				c.spec.Env = env
			}
			if c.spec.Dir == "" {
				c.spec.Dir = s.repo
			}
			run := func(with Spawner) (string, proc.Result) {
				ctx, stop := context.Background(), context.CancelFunc(func() {})
				if c.kill {
					ctx, stop = ended()
				}
				defer stop()
				var log bytes.Buffer
				spec := c.spec
				spec.Log = &log
				res, err := with.Run(ctx, spec)
				if err != nil {
					t.Error(err)
				}
				lines := len(log.String())
				return strings.Join([]string{string(res.Ended), res.Signal, res.Stdout.Text(), res.Stderr.Text()}, "\n") + string(rune('0'+res.Code%10)) + " " + time.Duration(lines).String(), res
			}
			var want string
			var plain proc.Result
			done := make(chan struct{})
			go func() {
				defer close(done)
				want, plain = run(other)
			}()
			got, res := run(g)
			<-done
			if got != want || res.Code != plain.Code || res.LeftBehind != plain.LeftBehind {
				t.Errorf("plain: %s\n%d %d left\nprotected: %s\n%d %d left, %v", want, plain.Code, plain.LeftBehind, got, res.Code, res.LeftBehind, res.Err)
			}
			if (res.Err == nil) != (plain.Err == nil) || res.Err != nil && !alike(res.Err.Error(), plain.Err.Error()) {
				t.Errorf("plain: %v\nprotected: %v", plain.Err, res.Err)
			}
		})
	}
}

// alike reports whether two errors begin the same and do not name the shim.
func alike(got, want string) bool {
	first := regexp.MustCompile(`^[^:(]*`)
	return first.FindString(got) == first.FindString(want) && !strings.Contains(got, ShimArg) && !strings.Contains(got, "/proc/self/exe")
}

// Descriptors arrive where they are expected, and no others do.
func TestFilesOfAProtectedAgent(t *testing.T) {
	t.Parallel()
	s, g := guardedHere(t)
	for _, n := range []int{1, 2, 3, proc.MaxFiles} {
		var files []*os.File
		for i := range n {
			path := s.repo + "/f" + string(rune('0'+i))
			s.write(t, path, string(rune('a'+i)))
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			files = append(files, f)
		}
		spec := proc.Spec{Argv: []string{"bash", "-c", `for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ $fd -gt 2 ] && [ $fd -ne 255 ] && cat <&$fd && printf $fd; done; true`}, Env: []string{"PATH=/usr/bin:/bin"}, Files: files, Dir: s.repo}
		res, err := g.Run(context.Background(), spec)
		plain, err2 := s.spawner.Run(context.Background(), proc.Spec{Argv: spec.Argv, Env: spec.Env, Dir: spec.Dir, Files: rewound(t, files)})
		if err != nil || err2 != nil || res.Err != nil || res.Stdout.Text() != plain.Stdout.Text() || !strings.Contains(plain.Stdout.Text(), "a3") {
			t.Errorf("%d: %q, want %q (%v %v %v)", n, res.Stdout.Text(), plain.Stdout.Text(), err, err2, res.Err)
		}
	}
	var many []*os.File
	for range proc.MaxFiles + 1 {
		many = append(many, os.Stdin)
	}
	res, err := g.Run(context.Background(), proc.Spec{Argv: []string{"true"}, Env: []string{"PATH=/usr/bin:/bin"}, Files: many})
	if err != nil || res.Ended != proc.NotStarted || res.Err == nil {
		t.Error(res, err)
	}
}

func rewound(t *testing.T, files []*os.File) []*os.File {
	t.Helper()
	for _, f := range files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

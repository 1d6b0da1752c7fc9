//go:build linux

package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
)

// What the command finds itself in, item by item.
func TestWhatACommandIsGiven(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, w *world) {
		for _, c := range []struct{ ask, want string }{
			{"umask; touch f; stat -c %a f", "0077\n600"},
			{"ulimit -c; ulimit -n; ulimit -Hn; ulimit -f; ulimit -u", "0\n4096\n4096\n16777216\n8192"},
			{"readlink /proc/self/fd/0; cat; read x || echo eof", "/dev/null\neof"},
			{"LC_ALL=C tty; (: > /dev/tty) 2>/dev/null || echo none; ps -o tty= -p $$", "not a tty\nnone\n?"},
			{`for n in {0..300}; do [ -e /proc/$$/fd/$n ] && printf '%s ' $n; done`, "0 1 2"},
			{`set -- $(cut -d' ' -f5,6 /proc/$$/stat); [ $1 = $$ ] && [ $2 = $$ ] && echo leader of its own`, "leader of its own"},
			{"grep NoNewPrivs /proc/self/status", "NoNewPrivs:\t1"},
			{"set -o | grep -E 'pipefail|errexit|posix'", "errexit        \toff\npipefail       \ton\nposix          \toff"},
			{"false | true; echo $?; echo $0; shopt -q login_shell || echo no login", "1\nbash\nno login"},
			{"trap; echo none ignored; grep -E 'Sig(Ign|Blk)' /proc/self/status", "none ignored\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000"},
			{"pwd -P | sed s:.*/::", "repo"},
			{"cat /proc/self/oom_score_adj", victim},
			{`printf '%s|' "$BASH_VERSION" | grep -c .; echo "$-" | grep -c i`, "1\n0"},
		} {
			j := w.job(t, "exec 2>&1; "+c.ask)
			if got := strings.TrimSpace(w.mustRun(t, j).Result.Stdout.Text()); got != c.want {
				t.Errorf("%s\ngot  %q\nwant %q", c.ask, got, c.want)
			}
		}
	})
}

// However it is written, bash gets the bytes that were approved.
// Conforms: 004-1-command
func TestTheSameBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid(), "")
	for command, want := range map[string]string{
		"echo \x80\xff":                   "\x80\xff",
		"echo 'a\rb'":                     "a\rb",
		"printf %s 'two\nlines\n'":        "two\nlines",
		" \techo  blank ":                 "blank",
		"echo $'\\u200b'":                 "\u200b",
		"# only a comment":                "",
		"echo \"$BASH_EXECUTION_STRING\"": `echo "$BASH_EXECUTION_STRING"`,
		"cat <<E\nhere\nE":                "here",
		"echo '" + strings.Repeat("x", MaxCommand-7) + "'": strings.Repeat("x", MaxCommand-7),
	} {
		o := w.mustRun(t, w.job(t, command))
		got := strings.TrimSuffix(o.Result.Stdout.Text(), "\n")
		if !o.Result.Stdout.Truncated && got != want || o.Result.Code != 0 {
			t.Errorf("%.60q printed %.60q, want %.60q (%d)", command, got, want, o.Result.Code)
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, w *world) {
		for _, c := range []struct {
			command string
			code    int
			signal  string
		}{
			{"true", 0, ""},
			{"false", 1, ""},
			{"exit 255", 255, ""},
			{"./sub", 126, ""},
			{"no-such-program", 127, ""},
			{"-x", 127, ""},
			{"if", 2, ""},
			{"exit 129", 129, ""},
			{"kill -TERM $$", -1, "SIGTERM"},
			{"kill -KILL $$", -1, "SIGKILL"},
			{"kill -SEGV $$", -1, "SIGSEGV"},
			{"(kill -KILL $BASHPID); exit $?", 137, ""},
			{"ulimit -f 1; exec head -c 1000000 /dev/zero > big", -1, "SIGXFSZ"},
		} {
			o := w.mustRun(t, w.job(t, c.command))
			if o.Result.Code != c.code || o.Result.Signal != c.signal || o.Result.Ended != proc.Exited {
				t.Errorf("%s: %v", c.command, o)
			}
		}
	})
}

// The supervisor's environment is not the command's, and cannot be read from
// there either.
// Conforms: 004-sec-secrets
func TestSecretsOfTheSupervisor(t *testing.T) {
	t.Parallel()
	const canary = "canary-5c1f0e"
	hostile := []string{
		"GITHUB_TOKEN=" + canary, "SLACK_WEBHOOK=" + canary, "NODE_OPTIONS=--require=" + canary, "BASH_ENV=/" + canary, "ENV=/" + canary,
		"LD_PRELOAD=/" + canary, "LD_LIBRARY_PATH=/" + canary, "npm_config_script_shell=" + canary, "GIT_SSH_COMMAND=" + canary,
		"SSH_AUTH_SOCK=/" + canary, "BASH_FUNC_echo%%=() { echo " + canary + "; }", "PROMPT_COMMAND=echo " + canary, "PS4=$(echo " + canary + ")",
		"SHELLOPTS=xtrace", "BASHOPTS=expand_aliases", "IFS=e", "CDPATH=/tmp", "PYTHONPATH=/" + canary, "SUPERLOOP_HOOK_KEY=" + canary,
	}
	eachUser(t, func(t *testing.T, w *world) {
		look := "env; set | grep -v ^BASH_EXEC; cat /proc/$$/environ /proc/$PPID/environ /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; echo end"
		j := w.job(t, "exec 2>/dev/null; "+look)
		j.Env = Environment(append(hostile, os.Environ()...), nil, w.repo, w.tmp)
		for level := range modes {
			j := w.at(t, level, j)
			var o outcome
			if w.spawner != nil {
				// A supervisor of its own, with all that in its environment.
				o = (&world{uid: w.uid}).runWith(t, j, hostile)
			} else {
				o = w.runWith(t, j, hostile)
			}
			got := o.Result.Output.Text()
			leaks := strings.Contains(got, canary)
			// At the levels without Landlock only the PID namespace, or the user
			// namespace, hides the environment of other processes.
			open := level == None && o.Sandbox.Tree != proc.PIDNamespace
			if o.Err != "" || !strings.HasSuffix(got, "end\n") || leaks != open {
				t.Errorf("%s: leaks %v: %.3000s", level, leaks, o)
			}
		}
	})
}

// Root keeps what a container's root has, others have nothing.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, w *world) {
		for level := range modes {
			j := w.at(t, level, w.job(t, "grep Cap /proc/self/status"))
			got := w.mustRun(t, j).Result.Stdout.Text()
			have, err := proc.Capabilities()
			if err != nil {
				t.Fatal(err)
			}
			have &= keptCapabilities
			if w.uid != 0 {
				have = 0
			}
			for _, line := range strings.Split(strings.TrimSpace(got), "\n") {
				var name string
				var set uint64
				if _, err := fmt.Sscanf(line, "%s %x", &name, &set); err != nil {
					t.Fatal(err)
				}
				want := have
				switch name {
				case "CapBnd:": // of no use to others than root
					if w.uid != 0 {
						continue
					}
				case "CapInh:", "CapAmb:":
					want = 0
				}
				if set != want {
					t.Errorf("%s: %s %x, want %x", level, name, set, want)
				}
			}
		}
	})
}

// Nothing outside can be signalled. The control is a level at which that works.
func TestSignalsStayInside(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, w *world) {
		for _, level := range []Level{LandlockMount, Landlock, None} {
			j := w.at(t, level, w.job(t, "kill -0 "+fmt.Sprint(os.Getppid())+" && echo reached; kill -0 $PPID && echo spawner; sleep 100 & kill -9 $! && echo own"))
			if j.Tree = proc.Subreaper; w.uid == os.Getuid() {
				s, err := proc.Start(proc.Options{Level: proc.Subreaper})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				w = &world{uid: w.uid, spawner: s, repo: w.repo, tmp: w.tmp, outside: w.outside, home: w.home}
			}
			o := w.mustRun(t, j)
			if o.Sandbox.LandlockABI < abiScope {
				t.Skipf("Landlock %d cannot do that", o.Sandbox.LandlockABI)
			}
			got := strings.Fields(o.Result.Stdout.Text())
			if want := level == None; slices.Contains(got, "spawner") != want || !slices.Contains(got, "own") || !want && slices.Contains(got, "reached") {
				t.Errorf("%s: %q", level, got)
			}
		}
	})
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, w *world) {
		const ask = `export LC_ALL=C; ls /proc/self/ns > /dev/null; tail -n +3 /proc/self/net/dev | cut -d: -f1 | tr -d ' ' | sort; (: < /dev/tcp/127.0.0.1/9) 2>&1 | grep -o -E 'unreachable|refused' | sort -u`
		j := w.job(t, ask)
		host, err := os.ReadFile("/proc/self/net/dev")
		if err != nil {
			t.Fatal(err)
		}
		for _, without := range [][]Mechanism{nil, {UseMount}, {UseLandlock}} {
			j.Network, j.Without = NoNetwork, without
			o := w.run(t, j)
			if o.Refused != nil {
				t.Skipf("a network namespace cannot be had here: %s", o.Err)
			}
			if got := strings.Fields(o.Result.Stdout.Text()); !slices.Equal(got, []string{"lo", "unreachable"}) || !o.Sandbox.NetNS {
				t.Errorf("without %v: %q %v", without, got, o)
			}
			j.Network = FullNetwork
			o = w.mustRun(t, j)
			got := strings.Fields(o.Result.Stdout.Text())
			if len(got) != strings.Count(string(host), ":")+1 || got[len(got)-1] != "refused" || o.Sandbox.NetNS {
				t.Errorf("full: %q, and here %s", got, host)
			}
		}
	})
}

// Root without the right to mount, as in most containers, helps itself with a
// user namespace, in which it keeps all that it was.
func TestRootWithoutMounting(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to give up a capability")
	}
	w := newWorld(t, 0, "")
	j := w.job(t, "id -u; touch mine theirs && chown 12:34 theirs && stat -c %u:%g theirs .; echo x > .superloop/config.json; echo x > ../outside/file; cat theirs")
	cmd := w.command(t, j)
	cmd.Args = append([]string{"setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "/proc/" + fmt.Sprint(os.Getpid()) + "/exe"}, cmd.Args[1:]...)
	path, err := proc.LookPath("setpriv", os.Environ())
	if err != nil {
		t.Skip(err)
	}
	cmd.Path, cmd.Err = path, nil
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	if !o.Sandbox.UserNS {
		t.Skipf("no user namespace here: %v", o.Sandbox.Notes)
	}
	if got := o.Result.Stdout.Text(); o.Sandbox.Level != LandlockMount || got != "0\n12:34\n0:0\n" || strings.Count(o.Result.Stderr.Text(), "\n") != 2 {
		t.Errorf("%v", o)
	}
}

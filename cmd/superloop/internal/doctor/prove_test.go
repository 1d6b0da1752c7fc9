package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/preflight"
)

// program writes a script and gives its path.
func program(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	// A process that another test forks meanwhile would hold the file open for
	// writing, and the system does not start a program that is being written.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProve(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text     string
		want     preflight.Check // of PATH for the program; Why is what it contains
		timedOut time.Duration
	}{
		"it tells": {"echo tool 1.2\n", preflight.Check{Works: true, Original: "PATH --version", Why: "it works", Said: "tool 1.2\n"}, 0},
		"it shows its usage": {"echo usage: tool FILE >&2; exit 2\n", preflight.Check{Works: true, Original: "PATH --version", Repaired: "PATH --version",
			Method: "output_detection", ExitCode: 2, Why: "usage: tool FILE", Said: "usage: tool FILE\n"}, 0},
		"help": {"[ $1 = --help ] || exit 4\necho usage: tool FILE\n", preflight.Check{Works: true, Original: "PATH --version", Repaired: "PATH --help",
			Method: "fallback_help", Why: "usage: tool FILE"}, 0},
		"h": {"[ $1 = -h ] || exit 4\necho usage: tool FILE; exit 64\n", preflight.Check{Works: true, Original: "PATH --version", Repaired: "PATH -h",
			Method: "fallback_h", ExitCode: 64, Why: "usage: tool FILE"}, 0},
		"a missing program": {"exec /no/such/tool \"$@\"\n", preflight.Check{Broken: true, Original: "PATH --version", ExitCode: 127, Why: "/no/such/tool",
			Said: "PATH: 2: exec: /no/such/tool: not found\n"}, 0},
		"a signal": {"echo usage: tool\nkill -ABRT $$\n", preflight.Check{Broken: true, Original: "PATH --version", ExitCode: -1, Why: "SIGABRT", Said: "usage: tool\n"}, 0},
		"a signal in the help": {"[ $1 = --help ] || exit 4\nkill -BUS $$\n", preflight.Check{Broken: true, Original: "PATH --version",
			ExitCode: -1, Why: "PATH --help shows that it is broken"}, 0},
		"nothing":             {"exit 9\n", preflight.Check{Original: "PATH --version", ExitCode: 9, Why: "it wrote nothing"}, 0},
		"standard input ends": {"read -r line || { echo usage: tool; exit 3; }\n", preflight.Check{Works: true, Original: "PATH --version", Repaired: "PATH --version", Method: "output_detection", ExitCode: 3, Said: "usage: tool\n"}, 0},
		"it hangs":            {"sleep 1000 & trap '' TERM; wait; wait\n", preflight.Check{TimedOut: true, Original: "PATH --version", ExitCode: -1, Why: "time limit"}, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := program(t, "tool", c.text)
			q := preflight.Question{Path: path, Dir: filepath.Dir(path), Env: os.Environ(), Bound: 20 * time.Second}
			if c.timedOut > 0 {
				q.Bound = c.timedOut
			}
			got, err := Prove(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []*string{&got.Original, &got.Repaired, &got.Why, &got.Said} {
				*s = strings.ReplaceAll(strings.ReplaceAll(*s, text.Paste(path), "PATH"), path, "PATH")
			}
			if !strings.Contains(got.Why, c.want.Why) || (got.TimeSavedMS > 0) != (got.Method != "") {
				t.Errorf("%+v", got)
			}
			got.Why, got.TimeSavedMS, c.want.Why = "", 0, ""
			if got != c.want {
				t.Errorf("%+v\nwant %+v", got, c.want)
			}
		})
	}
}

// A path that a shell would take apart is one word.
func TestProveQuotes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"my 'tool' $HOME;", "übung mit é"} {
		path := program(t, name, "[ $1 = --help ] || exit 4\necho usage: it\nexit 1\n")
		got, err := Prove(context.Background(), preflight.Question{Path: path, Dir: "/", Env: os.Environ(), Bound: 20 * time.Second})
		if err != nil || got.ExitCode != 1 && got.ExitCode != 4 || got.Broken || got.TimedOut || got.Original != text.Paste(path)+" --version" {
			t.Errorf("%q: %+v %v", name, got, err)
		}
	}
}

func TestProveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := program(t, "tool", "echo > \"$0.begun\"; exec sleep 1000\n")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(path + ".begun"); err == nil {
				return
			}
		}
	}()
	if _, err := Prove(ctx, preflight.Question{Path: path, Dir: "/", Env: os.Environ(), Bound: time.Minute}); err == nil {
		t.Error("no error")
	}
}

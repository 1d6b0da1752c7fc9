package notify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// program writes a script and gives the command that runs it. The script is not executable itself: while another test
// forks, a file that was just written cannot be executed (ETXTBSY).
func program(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tell")
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return "/bin/sh '" + path + "'"
}

func command(t *testing.T, line string, o CommandOptions) *Command {
	t.Helper()
	c, err := NewCommand("cmd", line, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCommandGetsTheMessage(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	path := program(t, `{ printf '%s|' "$@"; echo; pwd; echo "$SUPERLOOP_NOTIFY_EVENT $SUPERLOOP_NOTIFY_LOOP $SUPERLOOP_NOTIFY_ITERATION"; echo "$SUPERLOOP_NOTIFY_COMMAND"; echo "$SUPERLOOP_NOTIFY_NEXT"; cat; } > "$OUT"`)
	m := opened("e1")
	m.Command = "echo $(touch /tmp/x); `id` {text}\n\u202e'"
	m.Loop = "--web"
	c := command(t, path+` 'one word' {title} --body={title} $HOME '*' {loop}`, CommandOptions{Env: []string{"OUT=" + out, "PATH=" + os.Getenv("PATH")}})
	if err := c.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	title := "superloop: loop --web needs an operator: may a command run?"
	body, err := Body(m)
	if err != nil {
		t.Fatal(err)
	}
	want := "one word|" + title + "|--body=" + title + "|$HOME|*|{loop}|\n/\nescalation_opened --web 6\necho $(touch /tmp/x); `id` {text} <U+202E>'\nsuperloop approve-recovery --loop web\n" + string(body)
	if string(data) != want {
		t.Errorf("got\n%s\nwant\n%s", data, want)
	}
}

func TestCommandOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script    string
		permanent bool
		ok        bool
		reason    string
	}{
		"0":           {script: "cat >/dev/null", ok: true},
		"not read":    {script: "exit 0", ok: true},
		"1":           {script: "echo 'cannot reach https://ntfy.example/topic-of-mine with verysecrettoken' >&2; exit 1", reason: "sh ended with exit code 1: cannot reach https://ntfy.example with <secret>"},
		"temporary":   {script: "exit 75", reason: "exit code 75"},
		"usage":       {script: "exit 64", permanent: true, reason: "exit code 64"},
		"config":      {script: "exit 78", permanent: true, reason: "exit code 78"},
		"shell's 127": {script: "no-such-program-anywhere", permanent: true, reason: "exit code 127"},
		"hang":        {script: "sleep 60 & wait", reason: "sh did not end within 500ms"},
		"flood":       {script: "yes", reason: "sh wrote too much"},
		"killed":      {script: "kill -9 $$", reason: "was killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 2 * time.Minute
			if name == "hang" {
				timeout = 500 * time.Millisecond
			}
			err := command(t, program(t, c.script)+" --token verysecrettoken", CommandOptions{Timeout: timeout}).Send(t.Context(), opened("e1"))
			judge(t, err, c.ok, c.permanent, 0, c.reason)
		})
	}
}

func TestCommandThatIsNotThere(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for line, reason := range map[string]string{
		"superloop-no-such-program --token verysecrettoken": "the program superloop-no-such-program was not found",
		text.Word(plain): "may not be executed",
	} {
		judge(t, command(t, line, CommandOptions{}).Send(t.Context(), opened("e1")), false, true, 0, reason)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := errors.AsType[*TemporaryError](command(t, "true", CommandOptions{}).Send(ctx, opened("e1"))); !ok {
		t.Error("a run that we stopped is no temporary failure")
	}
}

func TestCommandLinesThatNeedAShell(t *testing.T) {
	for line, want := range map[string]string{
		"":                              "empty",
		"   ":                           "empty",
		"''":                            "empty",
		"mail -s hi verysecret@x | cat": "shell operator at character",
		"a; b":                          "shell operator",
		"a && b":                        "shell operator",
		"a > /tmp/x":                    "shell operator",
		"./notify.sh":                   "absolute path",
		"scripts/notify.sh":             "absolute path",
		"mail 'verysecret":              "quote",
		"mail (verysecret)":             "parenthesis",
		"mail \x00":                     "NUL",
	} {
		_, err := NewCommand("cmd", line, CommandOptions{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "verysecret") {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

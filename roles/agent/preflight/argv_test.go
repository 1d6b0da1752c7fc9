package preflight

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/roles/agent"
)

// as shows words as they were read: flags with what is known of them, values
// behind their flag, free words in brackets.
func as(words []word) string {
	var out []string
	for i, w := range words {
		switch {
		case w.flag != "":
			s := w.flag
			if !w.known {
				s += "?"
			}
			if w.hungry {
				s += "!"
			}
			if v := w.value; v != "" {
				s += "=" + v
			}
			out = append(out, s)
		case w.sub:
			out = append(out, strings.ToUpper(w.text))
		case w.taker < 0:
			out = append(out, "["+w.text+"]")
		case i > 0 && w.taker != i-1:
			out = append(out, "+"+w.text)
		}
	}
	return strings.Join(out, " ")
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ helps, subs, line, want string }{
		{"claude", "", "-p --output-format=stream-json --verbose", "-p --output-format=stream-json --verbose"},
		{"claude", "", "-p --model opus prompt", "-p --model=opus [prompt]"},
		{"claude", "", "--allowedTools Bash Edit prompt --verbose", "--allowedTools=prompt +Edit +prompt --verbose"},
		{"claude", "", "--allowedTools=Bash prompt", "--allowedTools=Bash [prompt]"},
		{"claude", "", "-p --resume prompt", "-p --resume=prompt"},
		{"claude", "", "-r --verbose", "-r --verbose"},
		{"claude", "", "-p --model", "-p --model!"},
		{"claude", "", "-p --model --verbose", "-p --model=--verbose"}, // commander takes it, whatever it is
		{"claude", "", "-pc --max-turns 3", "-pc --max-turns?=3"},
		{"claude", "", "-pz", "-pz?"},
		{"claude", "", "-nfoo", "-n=foo"},
		{"claude", "", "--print -- --bogus", "--print [--] [--bogus]"},
		{"gemini", "", "-p", "-p!"},
		{"gemini", "", "--approvalMode yolo -mflash --no-debug", "--approvalMode=yolo -m=flash --no-debug"},
		{"gemini", "", "--policy a b -y", "--policy=b +b -y"},
		{"gemini", "", "-m -y", "-m -y"},
		{"codex,codex-exec", "exec", "-c a=b exec --json -", "-c=a=b EXEC --json [-]"},
		{"codex,codex-exec", "exec", "--search exec --search", "--search EXEC --search?"},
		{"codex,codex-exec", "exec", "exec -i a.png -", "EXEC -i=- +-"},
		{"codex,codex-exec", "exec", "exec -ca=b -oFILE --full-auto", "EXEC -c=a=b -o=FILE --full-auto?"},
		{"codex,codex-exec,codex-exec-resume", "exec resume", "exec --sandbox=read-only resume ID --json -", "EXEC --sandbox=read-only RESUME [ID] --json [-]"},
		{"codex,codex-exec,codex-exec-resume", "exec resume", "exec resume --sandbox read-only ID", "EXEC RESUME --sandbox?=read-only [ID]"},
		{"codex,codex-exec", "exec", "e --json", "[e] --json"}, // another name for it: the whole line is its
		{"opencode,opencode-run", "run", "run --format json --file a b", "RUN --format=json --file=b +b"},
		{"", "", "--any thing --other=1 -x -y", "--any?=thing --other?=1 -x? -y?"},
	} {
		helps := map[int]help{}
		for i, name := range strings.Split(c.helps, ",") {
			if name != "" {
				helps[i] = recorded(t, name)
			}
		}
		words := levels(strings.Fields(c.line), strings.Fields(c.subs))
		read(words, helps)
		if got := as(words); got != c.want {
			t.Errorf("%s: %s\nis read as %s\nwant       %s", c.helps, c.line, got, c.want)
		}
	}
}

func TestPointer(t *testing.T) {
	t.Parallel()
	l := line{at: "runners.x", cli: agent.CLI{Command: []string{"x", "exec", "--search"}, Args: []string{"--a", "1", "--b=2", "-cx=y", "-"},
		FastArgs: []string{"--fast", "--a"}}}
	for flag, want := range map[string]string{"--a": "args[0]", "--b": "args[2]", "-c": "args[3]", "-": "args[4]", "--search": "command[2]", "--fast": "", "--": "", "x": ""} {
		got := strings.TrimPrefix(l.pointer(flag), "runners.x.")
		if got != want {
			t.Errorf("%s is at %q, want %q", flag, got, want)
		}
	}
	l.fast = true
	if got := l.pointer("--a"); got != "runners.x.fast_args[1]" {
		t.Errorf("fast: %q", got)
	}
}

func TestReportAddsOnce(t *testing.T) {
	t.Parallel()
	var r Report
	for range 2 {
		r.add(Note, "p", "f", "n")
		r.add(Error, "p", "f", "e")
		r.add(Warn, "", "", "w")
		r.flag(Flag{"--a", FlagKnown, "p"})
	}
	r.flag(Flag{"--a", FlagUnknown, "p"})
	r.judge(false)
	if got := fmt.Sprint(r.Findings); got != "[e; f (p) w n; f (p)]" || r.Verdict != Error || len(r.Of(Warn)) != 1 {
		t.Errorf("%s %s", got, r.Verdict)
	}
	if !slices.Equal(r.Flags, []Flag{{"--a", FlagUnknown, "p"}}) {
		t.Errorf("%v", r.Flags)
	}
	r.judge(true)
	if r.Verdict != Warn || len(r.Of(Error)) != 0 {
		t.Errorf("a spare runner: %v", r)
	}
}

package preflight

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/superloop/superloop/roles/agent"
)

// A program of which nothing is known is asked whether it works, and once.
func TestUnknownProgram(t *testing.T) {
	t.Parallel()
	asked := "nothing is known of the flags of tool (adapter tool)"
	for name, c := range map[string]struct {
		check   Check
		err     error
		want    string
		version string
		verdict Severity
	}{
		"it answers":    {Check{Works: true, Said: "tool 4.2\nby us\n"}, nil, "", "tool 4.2", Fine},
		"it is silent":  {Check{Works: true, Said: " \n"}, nil, "note: BIN/tool --version prints nothing, which shows little (runners.tool.command)", "", Fine},
		"by its help":   {Check{Works: true, Repaired: "BIN/tool --help", Method: "fallback_help", Why: "usage: tool"}, nil, "", "", Fine},
		"broken":        {Check{Broken: true, ExitCode: 127, Why: "no library\x1b[2J"}, nil, "error: BIN/tool is broken: no library; install what it lacks, or install it anew; try it by hand: BIN/tool --version (runners.tool.command)", "", Error},
		"too slow":      {Check{TimedOut: true, ExitCode: -1}, nil, "warn: BIN/tool does not tell its version: no answer within 20s; try it by hand: BIN/tool --version (runners.tool.command)", "", Warn},
		"nothing shows": {Check{ExitCode: 9, Why: "it wrote nothing"}, nil, "note: nothing shows that BIN/tool works: it wrote nothing; try it by hand: BIN/tool --version (runners.tool.command)", "", Fine},
		"not asked":     {Check{}, errors.New("no processes left"), "warn: BIN/tool could not be asked whether it works: no processes left; try it by hand: BIN/tool --version (runners.tool.command)", "", Warn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "tool", "claude")
			s.fake.profile = agent.Profile{}
			s.req.Adapter = s.fake
			bin := s.dir + "/bin"
			calls := 0
			e := &Examiner{Verify: func(_ context.Context, q Question) (Check, error) {
				calls++
				if q.Path != bin+"/tool" || q.Dir != s.req.WorkDir || q.Bound <= 0 || !strings.HasPrefix(line{Command: agent.Command{Env: q.Env}}.env("PATH"), bin) {
					t.Errorf("%+v", q)
				}
				out := c.check
				out.Original = q.Path + " --version"
				return out, c.err
			}}
			for range 2 {
				rep := e.Examine(context.Background(), s.req)
				s.sound(rep)
				if got := strings.ReplaceAll(all(rep), bin, "BIN"); got != c.want {
					t.Errorf("got\n%s\nwant\n%s", got, c.want)
				}
				if rep.Unchecked != asked || rep.Version != c.version || rep.Verdict != c.verdict || (rep.Check == nil) != (c.err != nil) {
					t.Errorf("%+v", rep)
				}
			}
			if want := map[bool]int{true: 1, false: 2}[c.err == nil]; calls != want {
				t.Errorf("asked %d times, want %d", calls, want)
			}
		})
	}
}

// A secret that a program prints is not shown, and the next runner does not get
// the text of this one.
func TestCheckIsRedacted(t *testing.T) {
	t.Parallel()
	s := newStage(t, "tool", "claude")
	s.fake.profile = agent.Profile{}
	s.req.Adapter = s.fake
	s.req.CLI.Env = map[string]string{"API_KEY": "sk-very-secret-indeed"}
	e := &Examiner{Verify: func(_ context.Context, q Question) (Check, error) {
		return Check{Broken: true, Original: q.Path + " --version", Why: "bad key sk-very-secret-indeed"}, nil
	}}
	rep := e.Examine(context.Background(), s.req)
	if text := all(rep) + rep.Check.Why; strings.Contains(text, "very-secret") || !strings.Contains(text, "bad key") {
		t.Error(text)
	}
}

// What a CLI fails of is said in place of the last line that it wrote.
func TestCauseOfAKnownCLI(t *testing.T) {
	t.Parallel()
	for want, check := range map[string]Check{
		"is broken: a module of its is missing":    {Broken: true, Why: "a module of its is missing"},
		"does not work: exit code 1: Node.js v20":  {},
		"does not work: exit code 1: Node.js v20 ": {TimedOut: true, Broken: true, Why: "slow"},
	} {
		s := newStage(t, "tool", "claude")
		s.write("bin/tool", "#!/bin/sh\n: \"$@\"\necho Node.js v20 >&2\nexit 1\n")
		s.req.Adapter = s.fake
		e := &Examiner{Verify: func(context.Context, Question) (Check, error) { return check, nil }}
		rep := e.Examine(context.Background(), s.req)
		if got := all(rep); rep.Verdict != Error || !strings.Contains(got, strings.TrimSpace(want)) || rep.Check != nil {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestHeeds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"a binary":                        {"\x7fELF", true},
		"node":                            {"#!/usr/bin/env node\nrequire('./cli.js')\n", true},
		"hands all on":                    {"#!/bin/sh\nexec agent -p \"$@\"\n", true},
		"hands all on as the prompt":      {"#!/bin/sh\nexec agent exec -- \"$@\"\n", false},
		"knows the question":              {"#!/bin/sh\ncase $1 in --version) echo 1;; *) work \"$1\";; esac\n", true},
		"has a usage":                     {"#!/bin/sh\n[ -f \"$1\" ] || { echo Usage: agent FILE; exit 2; }\nwork \"$1\"\n", true},
		"only a comment":                  {"#!/bin/sh\n# usage: agent FILE, no --help\nwork \"$1\"\n", false},
		"takes a prompt":                  {"#!/bin/sh\ncurl -d \"$1\" https://api.example.invalid\n", false},
		"all words are a prompt":          {"#!/bin/sh\nagent -p \"$*\"\n", false},
		"deaf":                            {"#!/bin/sh\nagent -p < prompt\n", false},
		"deaf, and talks of usage":        {"#!/bin/sh\nagent -p\necho token usage: many\n", false},
		"getopts":                         {"#!/bin/sh\nwhile getopts h o; do :; done\n", true},
		"python with argparse":            {"#!/usr/bin/python3\nimport argparse\nargparse.ArgumentParser().parse_args()\n", true},
		"python that an installer wrote":  {"#!/usr/bin/python3\nimport sys\nfrom agent.cli import main\nsys.exit(main())\n", true},
		"python that begins to work":      {"#!/usr/bin/python3\nimport sys\nwork(sys.argv[1])\n", false},
		"ruby that an installer wrote":    {"#!/usr/bin/ruby\nload Gem.activate_bin_path('a', 'a')\n", true},
		"longer than what somebody wrote": {"#!/bin/sh\n\"$1\"\n" + strings.Repeat("x\n", headSize/2), true},
	} {
		p := program{head: []byte(c.text[:min(len(c.text), headSize)])}
		switch first, _, _ := strings.Cut(c.text, "\n"); {
		case strings.HasPrefix(c.text, "\x7fELF"):
			p.Kind = "elf"
		case strings.HasPrefix(first, "#!"):
			words := strings.Fields(first[2:])
			p.Kind, p.Interpreter = "script", words[len(words)-1]
		}
		if got := p.heeds(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

package verify

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/recovery/catalog"
)

// Conforms: 001-problem, 001-scope-detect, 001-scope-others, 001-d2.1-usage, 001-d2.1-name, 001-d2.1-mode
// Conforms: 001-d2.1-code, 001-d2.1-escaped, 001-flow-127, 001-flow-0, 001-flow-empty, 001-flow-analyse
// Conforms: 001-api-repairable, 001-api-exit, 001-api-length, 001-p1
func TestAnalyze(t *testing.T) {
	t.Parallel()
	const long = "mytool does many things with many files, and its authors like to say so at great length whenever they are asked, " +
		"in sentences that go on and on until everybody has forgotten how they began, which makes more than two hundred bytes in all.\n"
	for name, tt := range map[string]struct {
		out, err string
		exit     ExitInfo
		tool     string
		want     string // the pattern; "broken", or "" for neither
	}{
		"usage":            {err: "Usage: mytool [flags]\n", exit: ExitInfo{Code: 2}, want: `(?i)Usage:.*mytool`},
		"go":               {err: "flag provided but not defined: -version\nUsage of /usr/bin/mytool:\n  -x\n", exit: ExitInfo{Code: 2}, want: `(?i)Usage.*mytool`},
		"heading":          {out: "USAGE\n  mytool COMMAND\n", exit: ExitInfo{Code: 1}, want: `(?i)USAGE\s+\S*mytool`},
		"no name":          {err: "usage: [-h] FILE\n", exit: ExitInfo{Code: 1}, want: `(?i)usage:`},
		"another program":  {err: "usage: git [-v | --version] [-h | --help] <command>\n", exit: ExitInfo{Code: 1}},
		"a shim":           {err: "Usage: volta [COMMAND]\nError: no default Node version set\n", exit: ExitInfo{Code: 1}},
		"its wrapper":      {err: "Usage: grep [OPTION]... PATTERNS [FILE]...\nTry 'grep --help' for more information.\n", exit: ExitInfo{Code: 2}},
		"its wrapper asks": {err: "tar: unrecognized option '--version=x'\nTry 'tar --help' or 'tar --usage' for more information.\n", exit: ExitInfo{Code: 2}},
		"getopt":           {err: "mytool: invalid option -- '-'\n", exit: ExitInfo{Code: 1}, want: `(?i)mytool: invalid option -- '-'`},
		"gnu":              {err: "mytool: unrecognized option '--version'\nTry 'mytool --help' for more information.\n", exit: ExitInfo{Code: 1}, want: `(?i)mytool: unrecognized option '--version'`},
		"commander":        {err: "error: unknown option '--version'\n", exit: ExitInfo{Code: 1}, want: `(?i)error: unknown option '--version'`},
		"cobra":            {err: "Error: unknown command \"version\" for \"mytool\"\nRun 'mytool --help' for usage.\n", exit: ExitInfo{Code: 1}, want: `(?i)Error: unknown command "version" for "mytool"`},
		"ffmpeg":           {err: "Unrecognized option '-version'.\nError splitting the argument list: Option not found\n", exit: ExitInfo{Code: 8}, want: `(?i)Unrecognized option '-version'\.`},
		"busybox":          {err: "--version: applet not found\n", exit: ExitInfo{Code: 127}, tool: "busybox", want: `(?i)--version: applet not found`},
		"git":              {err: "unknown option: --version\nusage: git [-v | --version]\n", exit: ExitInfo{Code: 129}, tool: "git", want: `(?i)usage:.*git`},
		"german":           {err: "Aufruf: mytool [OPTION]\n", exit: ExitInfo{Code: 1}, want: `(?i)Aufruf:.*mytool`},
		"old java":         {err: "Unrecognized option: --version\nError: Could not create the Java Virtual Machine.\n", exit: ExitInfo{Code: 1}, tool: "java", want: `(?i)Unrecognized option: --version`},
		"metacharacters":   {err: "usage: c++filt [x]\n", exit: ExitInfo{Code: 1}, tool: "c++filt", want: `(?i)usage:.*c\+\+filt`},
		"windows line end": {err: "Usage: mytool [flags]\r\n", exit: ExitInfo{Code: 2}, want: `(?i)Usage:.*mytool`},

		"name and length": {out: long, exit: ExitInfo{Code: 1}},
		"a word of usage": {out: "mytool: high memory usage detected\n", exit: ExitInfo{Code: 1}},
		"nothing":         {exit: ExitInfo{Code: 1}},
		"success":         {out: "Usage: mytool\n"},
		"usage of java":   {err: "Usage: java [options] <mainclass> [args...]\n", exit: ExitInfo{Code: 1}},
		"usage of python": {err: "unknown option --fast\nusage: python3 [option] ... [-c cmd | -m mod | file | -] [arg] ...\nTry `python -h' for more information.\n", exit: ExitInfo{Code: 2}},
		"daemon":          {err: "Cannot connect to the daemon. Is it running?\n", exit: ExitInfo{Code: 1}},
		"other flag":      {err: "node: bad option: --fast\n", exit: ExitInfo{Code: 9}},

		"library":       {err: "Usage: mytool\nmytool: error while loading shared libraries: libx.so.1: cannot open shared object file: No such file or directory\n", exit: ExitInfo{Code: 127}, want: "broken"},
		"signal":        {out: "Usage: mytool\n", exit: ExitInfo{Signal: "SIGSEGV"}, want: "broken"},
		"shell signal":  {out: "Usage: mytool\n", exit: ExitInfo{Code: 139}, want: "broken"},
		"time-out":      {out: "Usage: mytool\n", exit: ExitInfo{TimedOut: true}, want: "broken"},
		"not started":   {exit: ExitInfo{NotStarted: true, Code: 127}, want: "broken"},
		"126":           {out: "Usage: mytool\n", exit: ExitInfo{Code: 126}, want: "broken"},
		"missing":       {err: "sh: 1: mytool: not found\n", exit: ExitInfo{Code: 127}, want: "broken"},
		"subcommand":    {err: "docker: 'compose' is not a docker command.\nSee 'docker --help'\n", exit: ExitInfo{Code: 1}, tool: "docker", want: "broken"},
		"no subcommand": {err: "error: no such command: `nextest`\n\nhelp: view all installed commands with `cargo --list`\n", exit: ExitInfo{Code: 101}, tool: "cargo", want: "broken"},
		"macos":         {err: "dyld[123]: Library not loaded: /opt/lib/libx.dylib\nUsage: mytool\n", exit: ExitInfo{Code: 1}, want: "broken"},
		"config":        {err: "mytool: failed to load config file: /etc/mytool.yaml\nUsage: mytool [flags]\n", exit: ExitInfo{Code: 1}, want: "broken"},
		"licence":       {err: "mytool: license has expired\nusage: mytool\n", exit: ExitInfo{Code: 1}, want: "broken"},
		"permission":    {err: "usage: mytool\nmytool: cannot open state: Permission denied\n", exit: ExitInfo{Code: 1}, want: "broken"},
		"zsh":           {err: "zsh: bad CPU type in executable: mytool\n", exit: ExitInfo{Code: 86}, want: "broken"},

		"help about errors": {out: "Usage: mytool [flags]\n\n  --quiet   say nothing of Permission denied or No such file or directory\n  Segmentation fault is exit code 139\n", exit: ExitInfo{Code: 1}, want: `(?i)Usage:.*mytool`},
		"flag as a file":    {err: "mytool: --version: No such file or directory\nusage: mytool file\n", exit: ExitInfo{Code: 1}, want: `(?i)usage:.*mytool`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool := tt.tool
			if tool == "" {
				tool = "mytool"
			}
			a := AnalyzeVerifyFailure(tt.out, tt.err, tt.exit, tool)
			got := a.SuggestedPattern
			if a.Broken {
				got = "broken"
			}
			if got != tt.want || a.Repairable != (a.SuggestedPattern != "") || a.Why == "" {
				t.Errorf("got %q, want %q: %+v", got, tt.want, a)
			}
			if a.Repairable && (a.SuggestedMode != catalog.ModeOutput || a.ExitCode != tt.exit.Code) {
				t.Errorf("%+v", a)
			}
			if a.OutputLength != len(tt.out)+len(tt.err) {
				t.Errorf("length %d", a.OutputLength)
			}
		})
	}
}

// No output makes the analysis fail, and what it suggests always passes on the
// output that it came from.
// Conforms: 001-d2.1-pattern, 001-api-pure, 001-api-suggested
func TestAnalyzeProperty(t *testing.T) {
	t.Parallel()
	parts := []string{"Usage:", "usage of ", "tool", " [-h]", "\n", "\r\n", "\x1b[1m", "\x1b[0m", "Try 'tool --help'", "--version", "unknown option", " ", "\t-x  y\n",
		"Options:\n", "\xff", "\x00", "Traceback (most recent call last):", "é", "synopsis\n", "(", "*", "java "}
	rapid.Check(t, func(rt *rapid.T) {
		gen := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(parts), rapid.String()), 0, 20)
		out, err := strings.Join(gen.Draw(rt, "stdout"), ""), strings.Join(gen.Draw(rt, "stderr"), "")
		exit := ExitInfo{Code: rapid.IntRange(0, 255).Draw(rt, "code")}
		tool := rapid.OneOf(rapid.Just("tool"), rapid.String()).Draw(rt, "tool")
		for _, a := range []Analysis{AnalyzeVerifyFailure(out, err, exit, tool), analyseHelp(out, err, exit, subject{tool: baseName(tool), given: []string{"--help"}})} {
			if a.Repairable && a.Broken {
				rt.Fatalf("both: %+v", a)
			}
			if a.Repairable {
				v := catalog.Verify{Mode: a.SuggestedMode, Pattern: a.SuggestedPattern, ExitCode: a.ExitCode}
				if ok, why := Passes(v, out, err, exit); !ok {
					rt.Fatalf("%+v: %s", a, why)
				}
			}
		}
	})
}

// A hostile output costs little, whatever its size: a square of it would run into
// the time limit of go test.
// Conforms: 001-sec-hostile
func TestAnalyzeIsBounded(t *testing.T) {
	t.Parallel()
	for name, out := range map[string]string{
		"one line": strings.Repeat("usage ", 5<<20/6),
		"lines":    strings.Repeat("tool: x\n", 5<<20/8),
		"controls": strings.Repeat("\x1b", 5<<20),
		"headings": strings.Repeat("usage:\n", 5<<20/7),
	} {
		if a := AnalyzeVerifyFailure(out, out, ExitInfo{Code: 1}, "tool"); len(a.Why)+len(a.SuggestedPattern) > 2*maxLine {
			t.Errorf("%s: %d bytes are said of it", name, len(a.Why)+len(a.SuggestedPattern))
		}
	}
}

// Conforms: 001-driver-diverse
func TestAsksOnly(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"tool --version": "tool", "tool -V": "tool", "tool version": "tool", "tool": "tool", "tool sub --version": "tool sub",
		"python3 -m venv --help": "python3 -m venv", "tool version --client": "tool", "unzip -v": "unzip",
		"test -s /etc/ssl/certs/ca-certificates.crt": "", "docker info": "", "pg_isready": "pg_isready",
	} {
		argv, err := split(command)
		if err != nil {
			t.Fatal(err)
		}
		base, ok := asksOnly(argv)
		if ok != (want != "") || strings.Join(base, " ") != want {
			t.Errorf("%s: %q, %v", command, base, ok)
		}
	}
	for _, bad := range []string{"", "tool; rm x", "tool | cat", "tool > x", "tool 'x"} {
		if argv, err := split(bad); err == nil {
			t.Errorf("%q: %q", bad, argv)
		}
	}
}

package preflight

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// recorded is what a real CLI printed.
func recorded(t testing.TB, name string) help {
	t.Helper()
	text, err := os.ReadFile("testdata/help/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	return parseHelp(string(text))
}

func TestRecordedHelps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		style style
		n     int // flags in all, aliases counted: by grep on the file
		takes map[takes]string
		not   string
	}{
		"claude": {styleCommander, 68, map[takes]string{
			takesNone:  "-p --print --verbose --dangerously-skip-permissions --fork-session --no-session-persistence -c --continue --bg --background --strict-mcp-config -h --help -v --version",
			takesOne:   "--output-format --input-format --model --permission-mode --session-id --max-budget-usd --json-schema --effort --settings --append-system-prompt -n --name",
			takesMany:  "--allowedTools --allowed-tools --disallowedTools --disallowed-tools --tools --add-dir --mcp-config --betas --file",
			takesMaybe: "-r --resume -d --debug -w --worktree --from-pr",
		}, "--full-auto --append-system-prompt-file --system-prompt-file --max-turns --help, --B.zip"},
		"codex": {styleClap, 33, map[takes]string{takesNone: "--search --no-alt-screen", takesOne: "-a --ask-for-approval -c"}, "--json --full-auto"},
		"codex-exec": {styleClap, 38, map[takes]string{
			takesNone: "--json --skip-git-repo-check --ephemeral --dangerously-bypass-approvals-and-sandbox --oss --worktree -V --version",
			takesOne:  "-c --config -m --model -s --sandbox -C --cd --add-dir --output-schema -o --output-last-message --color -p --profile --enable",
			takesMany: "-i --image",
		}, "--full-auto --yolo -a --ask-for-approval --search -crc"},
		"codex-exec-resume": {styleClap, 27, map[takes]string{
			takesNone: "--last --all --json --skip-git-repo-check",
			takesOne:  "-c --config -m --model -o --output-last-message --output-schema -i --image",
		}, "--sandbox -s -C --cd --add-dir --color --full-auto"},
		"gemini": {styleYargs, 42, map[takes]string{
			takesNone: "-d --debug --skip-trust -s --sandbox -y --yolo --acp -l --list-extensions --screen-reader -h --help",
			takesOne:  "-m --model -p --prompt -i --prompt-interactive --approval-mode -r --resume --session-id -o --output-format -w",
			takesMany: "--policy --allowed-tools -e --extensions --include-directories",
		}, "--full-auto --list"},
		"opencode": {styleYargs, 25, map[takes]string{takesNone: "--mini --mdns --auto", takesOne: "--mdns-domain --port --prompt"}, "--format --variant"},
		"opencode-run": {styleYargs, 33, map[takes]string{
			takesNone: "-c --continue --fork --share --auto --print-logs --pure --thinking -i --interactive",
			takesOne:  "-m --model -s --session --agent --format --dir --variant --title --command --log-level -u --username --port",
			takesMany: "-f --file",
		}, "--full-auto --prompt --mdns"},
		"pi": {styleCommander, 46, map[takes]string{
			takesNone: "-p --print -c --continue -r --resume --no-session -nt --no-tools -ne --no-extensions -nc --offline -v --version",
			takesOne:  "--mode --model --models --provider --api-key --session --fork -t --tools --thinking -e --extension",
		}, "--full-auto --prompt"},
	} {
		h := recorded(t, name)
		if h.style != c.style {
			t.Errorf("%s: style %d, want %d", name, h.style, c.style)
		}
		if len(h.flags) != c.n {
			t.Errorf("%s: %d flags, want %d", name, len(h.flags), c.n)
		}
		for want, flags := range c.takes {
			for _, f := range strings.Fields(flags) {
				if got, ok := h.known(f); !ok || got != want {
					t.Errorf("%s: %s is %v %d, want %d", name, f, ok, got, want)
				}
			}
		}
		for _, f := range strings.Fields(c.not) {
			if _, ok := h.known(f); ok {
				t.Errorf("%s: %s is known", name, f)
			}
		}
	}
}

// The recorded helps count their definitions in another way: a line that begins
// with a flag at the columns of the two kinds of definitions.
func TestRecordedHelpsAreReadWhole(t *testing.T) {
	t.Parallel()
	for name, columns := range map[string][]int{"claude": {2}, "codex": {2, 6}, "codex-exec": {2, 6}, "codex-exec-resume": {2, 6},
		"gemini": {2, 6}, "opencode": {2, 6}, "opencode-run": {2, 6}, "pi": {2}} {
		text, err := os.ReadFile("testdata/help/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		h := recorded(t, name)
		for _, l := range strings.Split(string(text), "\n") {
			trimmed := strings.TrimLeft(l, " ")
			if !slices.Contains(columns, len(l)-len(trimmed)) || !strings.HasPrefix(trimmed, "-") {
				continue
			}
			for _, f := range strings.FieldsFunc(trimmed, func(r rune) bool { return r == ' ' || r == ',' })[:1] {
				if _, ok := h.known(f); !ok {
					t.Errorf("%s: %s is not known, from %q", name, f, l)
				}
			}
		}
	}
}

func TestHelpStyles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		takes map[string]takes
		not   string
	}{
		"argparse": {"usage: tool [-h] [-o OUT]\n\noptions:\n  -h, --help            show this\n  -o OUT, --output OUT  where to\n  --mode {a,b}          which\n  --[no-]color          colours\n  --very-long-name-of-it VALUE\n                        --not-one in prose\n",
			map[string]takes{"-h": takesNone, "-o": takesOne, "--output": takesOne, "--mode": takesOne, "--color": takesNone, "--no-color": takesNone, "--very-long-name-of-it": takesOne}, "--not-one"},
		"pflag": {"Flags:\n  -a, --attach list        Attach\n      --cpu-shares int     Shares\n  -d, --detach             Run\n",
			map[string]takes{"-a": takesOne, "--attach": takesOne, "--cpu-shares": takesOne, "-d": takesNone, "--detach": takesNone}, "list"},
		"go flag": {"Usage of tool:\n  -count int\n    \trepeat (default 1)\n  -v\tverbose\n", map[string]takes{"-count": takesOne, "-v": takesNone}, "--count"},
		"clap": {"Usage: t [OPTIONS]\n\nOptions:\n  -v, --verbose...\n          More [aliases: --loud, -L]\n      --color[=<WHEN>]\n          --gone is gone\n\n      --config=<FILE>\n          Which\n      --x <A> <B>\n",
			map[string]takes{"-v": takesNone, "--verbose": takesNone, "--loud": takesNone, "-L": takesNone, "--color": takesMaybe, "--config": takesOne, "--x": takesOne}, "--gone"},
		"escapes and CRLF": {"\x1b[1mOptions:\x1b[0m\r\n  \x1b[36m-o\x1b[0m, \x1b[36m--out\x1b[0m <FILE>  where\r\n", map[string]takes{"-o": takesOne, "--out": takesOne}, "--where"},
		"bars and slashes": {"Options:\n  -p|--print  x\n  -q/--quiet  y\n  --a <b|-c>  z\n", map[string]takes{"-p": takesNone, "--print": takesNone, "-q": takesNone, "--quiet": takesNone, "--a": takesOne}, "-c -c>"},
		"yargs":            {"Options:\n  -m, --approval-mode  Mode  [string]\n      --feed           Feed\n      --cache          Keep  [boolean]\n", map[string]takes{"--approvalMode": takesOne, "--no-cache": takesNone, "--noCache": takesNone, "--feed": takesUnknown}, "--no-approval-mode --no-x"},
		"none":             {"This program works.\nIt takes - well - nothing.\n -- \n  - a list\n  -- and more\n", nil, "- --"},
		"empty":            {"", nil, "-h"},
	} {
		h := parseHelp(c.text)
		for f, want := range c.takes {
			if got, ok := h.known(f); !ok || got != want {
				t.Errorf("%s: %s is %v %d, want %d (%v)", name, f, ok, got, want, h.flags)
			}
		}
		for _, f := range strings.Fields(c.not) {
			if _, ok := h.known(f); ok {
				t.Errorf("%s: %q is known", name, f)
			}
		}
		if c.takes == nil && len(h.flags) > 0 {
			t.Errorf("%s: %v", name, h.flags)
		}
	}
}

// A help that is laid out by any of the three libraries gives exactly the flags
// that it was made of.
func TestHelpProperty(t *testing.T) {
	t.Parallel()
	flag := rapid.StringMatching(`[a-z][a-z0-9]{1,8}(-[a-z]{1,8}){0,2}`)
	prose := rapid.SampledFrom([]string{"Does it", "Use --gone instead", "see (-x)", "--gone was once here, and --older too", "A long text\nthat goes on\n--gone in it"})
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(flag, 1, 12, rapid.ID).Draw(t, "names")
		style := rapid.SampledFrom([]string{"clap", "commander", "yargs"}).Draw(t, "style")
		want := map[string]takes{}
		var b strings.Builder
		b.WriteString(map[string]string{"clap": "Usage: x [OPTIONS]", "commander": "Usage: x [options]", "yargs": "x"}[style] + "\n\nOptions:\n  -h, --help  [boolean]\n")
		if style != "yargs" {
			b.Reset()
			fmt.Fprintf(&b, "Usage: x [%s]\n\nOptions:\n  -h, --help  Help\n", map[string]string{"clap": "OPTIONS", "commander": "options"}[style])
		}
		for _, n := range names {
			k := rapid.SampledFrom([]takes{takesNone, takesOne, takesMany, takesMaybe}).Draw(t, "takes")
			if style == "yargs" && k == takesMaybe {
				k = takesNone
			}
			want["--"+n] = k
			value := map[takes]string{takesNone: "", takesOne: " <v>", takesMany: " <v...>", takesMaybe: " [v]"}[k]
			text := prose.Draw(t, "prose")
			switch style {
			case "clap":
				fmt.Fprintf(&b, "      --%s%s\n%s\n\n", n, value, indent(text, 10))
			case "commander":
				fmt.Fprintf(&b, "  --%s%s\n%s\n", n, value, indent(text, 40))
			case "yargs":
				fmt.Fprintf(&b, "      --%s  %s  [%s]\n", n, strings.TrimSpace(indent(text, 40)), map[takes]string{takesNone: "boolean", takesOne: "string", takesMany: "array"}[k])
			}
		}
		h := parseHelp(b.String())
		for n, k := range want {
			if got, ok := h.flags[n]; !ok || got != k {
				t.Fatalf("%s is %v %d, want %d in\n%s", n, ok, got, k, b.String())
			}
		}
		if extra := len(h.flags) - len(want) - 2; extra != 0 && want["--help"] == 0 {
			t.Fatalf("%d flags too many: %v in\n%s", extra, h.flags, b.String())
		}
	})
}

func indent(text string, n int) string {
	return strings.Repeat(" ", n) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
}

func FuzzParseHelp(f *testing.F) {
	for _, name := range []string{"claude", "codex-exec", "gemini", "opencode-run"} {
		text, err := os.ReadFile("testdata/help/" + name + ".txt")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		h := parseHelp(text)
		for name := range h.flags {
			if !strings.HasPrefix(name, "-") || strings.ContainsAny(name, " ,=\n") {
				t.Errorf("%q is no flag", name)
			}
		}
		words := levels(strings.Fields(text), nil)
		read(words, map[int]help{0: h})
	})
}

// A help of 256 KiB is read at once, whatever is in it: the time grows with its
// length and not with the square of it, which go test's time limit would end.
func TestLongHelp(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{"prose": "    x\n", "flags": "  --flag-of-some-kind <X>  text\n", "one line": "-a, ", "escapes": "\x1b[", "dashes": "-", "aliases": "[alias: -x"} {
		text := "Options:\n  -a, --all  All\n" + strings.Repeat(unit, (256<<10)/len(unit))
		if h := parseHelp(text); len(h.flags) < 1 {
			t.Errorf("%s: %v", name, h.flags)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	h := recorded(t, "claude")
	for name, want := range map[string]string{
		"--allow-tools": "--allowed-tools", "--outputformat": "--output-format", "--models": "--model", "--full-auto": "", "--zzzzzzzz": "", "-z": "", "--sesion-id": "--session-id",
	} {
		if got := h.nearest(name); got != want {
			t.Errorf("nearest to %s is %q, want %q", name, got, want)
		}
	}
}

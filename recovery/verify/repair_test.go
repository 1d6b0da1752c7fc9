package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/catalog"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == proc.SpawnerArg {
		os.Exit(proc.SpawnerMain())
	}
	goleak.VerifyTestMain(m)
}

// processes runs commands for real, as the daemon does.
type processes struct {
	spawner *proc.Spawner
	dir     string
	ran     []string
}

func newProcesses(t *testing.T) *processes {
	t.Helper()
	s, err := proc.Start(proc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &processes{spawner: s, dir: t.TempDir()}
}

func (p *processes) Run(ctx context.Context, argv []string) (Run, error) {
	p.ran = append(p.ran, strings.Join(argv, " "))
	r, err := p.spawner.Run(ctx, proc.Spec{
		Argv: argv, Dir: p.dir, Env: []string{"LC_ALL=C", "PATH=" + p.dir + ":/usr/bin:/bin"}, Timeout: 20 * time.Second,
	})
	if err != nil {
		return Run{}, err
	}
	exit := ExitInfo{Code: r.Code, Signal: r.Signal, TimedOut: r.Ended == proc.TimedOut, NotStarted: r.Ended == proc.NotStarted}
	return Run{r.Stdout.Text(), r.Stderr.Text(), exit}, nil
}

func (p *processes) tool(t *testing.T, name, text string) Tool {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return Tool{ID: name, CLI: name, Verify: catalog.Verify{Command: name + " --version", Mode: catalog.ModeVersion, Origin: catalog.VerifyGenerated}}
}

// Conforms: 001-scope-adjust, 001-driver-compat, 001-d1-rerun, 001-d2.1-code, 001-d2.2-help, 001-d2.2-h, 001-d3-copy
// Conforms: 001-d3-type, 001-d3-original, 001-d3-repaired, 001-d3-method, 001-d3-first, 001-trade-positive
// Conforms: 001-flow-clone, 001-flow-next, 001-api-json, 001-p3, 001-sec-wrong
func TestRepair(t *testing.T) {
	t.Parallel()
	p := newProcesses(t)
	elf, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text string
		method     string // "" if it is broken, "works" if it needs none
		command    string
	}{
		{"fine", "#!/bin/sh\necho 1.0\n", "works", "fine --version"},
		{"shy", "#!/bin/sh\necho 'usage: shy FILE' >&2; exit 2\n", OutputDetection, "shy --version"},
		{"helpful", "#!/bin/sh\n[ \"$1\" = --help ] || exit 1\necho 'Usage: helpful FILE'\n", FallbackHelp, "helpful --help"},
		{"terse", "#!/bin/sh\n[ \"$1\" = -h ] || exit 1\necho 'Usage: terse FILE'\n", FallbackH, "terse -h"},
		{"mute", "#!/bin/sh\nexit 1\n", "", ""},
		{"crash", "#!/bin/sh\necho 'Usage: crash FILE'; kill -SEGV $$\n", "", ""},
		{"crash_late", "#!/bin/sh\n[ \"$1\" = --help ] && kill -ABRT $$\n[ \"$1\" = -h ] && echo 'Usage: crash_late FILE'\nexit 1\n", "", ""},
		{"badinterp", "#!/nowhere/python3\nprint('usage: badinterp')\n", "", ""},
		{"crlf", "#!/bin/sh\r\necho usage: crlf\r\n", "", ""},
		{"truncated", string(elf[:300]), "", ""},
		{"wrapper", "#!/bin/sh\n/nowhere/real \"$@\" || { echo 'Usage: wrapper FILE'; exit 1; }\n", "", ""},
		{"moody", "#!/bin/sh\n[ -e \"$0.seen\" ] && exit 1\n: >\"$0.seen\"; echo 'usage: moody FILE' >&2; exit 2\n", "", ""},
	} {
		tool := p.tool(t, tt.name, tt.text)
		before := tool.Verify
		out, err := Repair(context.Background(), tool, p)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case tool.Verify != before:
			t.Errorf("%s: its section was changed", tt.name)
		case tt.method == "works":
			if !out.Works || out.Repair != nil || out.Verify != before {
				t.Errorf("%s: %+v", tt.name, out)
			}
		case tt.method == "":
			if out.Works || out.Verify != before || out.Repair != nil && out.Repair.Succeeded {
				t.Errorf("%s: %+v", tt.name, out)
			}
		default:
			r := out.Repair
			if !out.Works || r == nil || r.Method != tt.method || !r.Succeeded || out.Verify.Command != tt.command || r.Repaired != tt.command ||
				r.Original != before.Command || r.Type != "verification_self_repair" || r.TimeSaved < 0 || out.Verify.Origin != catalog.VerifyGenerated {
				t.Errorf("%s: %+v %+v", tt.name, out, r)
			}
			again, err := Repair(context.Background(), Tool{ID: tt.name, CLI: tt.name, Verify: out.Verify}, p)
			if err != nil || !again.Works || again.Runs != 1 {
				t.Errorf("%s: its repaired section does not pass: %+v %v", tt.name, again, err)
			}
		}
	}
}

// Conforms: 001-scope-user
func TestRepairLeavesPersonsSectionsAlone(t *testing.T) {
	t.Parallel()
	p := newProcesses(t)
	tool := p.tool(t, "shy", "#!/bin/sh\necho 'usage: shy FILE' >&2; exit 2\n")
	tool.Verify.Origin = catalog.VerifyUser
	out, err := Repair(context.Background(), tool, p)
	if err != nil || out.Works || out.Repair != nil || out.Runs != 1 || !strings.Contains(out.Why, "an operator wrote") {
		t.Errorf("%+v %v", out, err)
	}
}

// Only a question after the version may become one after the help: another
// check that fails, fails.
// Conforms: 001-driver-explicit, 001-trade-limited
func TestRepairKeepsOtherChecks(t *testing.T) {
	t.Parallel()
	p := newProcesses(t)
	tool := p.tool(t, "service", "#!/bin/sh\n[ \"$1\" = --help ] && { echo 'Usage: service info'; exit 0; }\necho 'Cannot connect to the service' >&2; exit 1\n")
	tool.Verify.Command = "service info"
	out, err := Repair(context.Background(), tool, p)
	if err != nil || out.Works || len(p.ran) != 1 {
		t.Errorf("%+v %v %q", out, err, p.ran)
	}
	halt := p.tool(t, "halt", "#!/bin/sh\nexit 1\n")
	p.ran = nil
	if out, err := Repair(context.Background(), halt, p); err != nil || out.Works || len(p.ran) != 1 {
		t.Errorf("%+v %v %q", out, err, p.ran)
	}
}

type failing struct{ err error }

func (f failing) Run(context.Context, []string) (Run, error) { return Run{}, f.err }

func TestRepairReportsErrors(t *testing.T) {
	t.Parallel()
	want := errors.New("the spawner is gone")
	if _, err := Repair(context.Background(), Tool{ID: "x"}, failing{want}); !errors.Is(err, want) || !strings.Contains(err.Error(), "verifying x") {
		t.Error(err)
	}
	if _, err := Repair(context.Background(), Tool{ID: "x", Verify: catalog.Verify{Command: "x; y"}}, failing{want}); err == nil || errors.Is(err, want) {
		t.Error(err)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	in := strings.Join([]string{
		`{"id":"a","tool":"goimports","command":"goimports -version","exit_code":2,"stderr":"flag provided but not defined: -version\nusage: goimports [flags] [path ...]\n"}`,
		`{"id":7,"tool":"x","command":"x --version","exit_code":1,"fallbacks":[{"args":["-h"],"exit_code":0,"stdout":"usage: x"},{"args":"--help","exit_code":1,"stderr":"usage: x [-h]"}]}`,
		`{"id":"c","tool":"x","command":"x --version","exit_code":1,"fallbacks":[{"args":["--help"],"exit_code":0,"signal":"SIGSEGV","stdout":"usage: x"},{"args":["-h"],"exit_code":0,"stdout":"usage: x"}]}`,
		``,
		`{"id":"d","tool":5}`,
		`{"id":"e"}`,
		`nonsense`,
		`{"id":"f","tool":"x","command":"x; y","exit_code":1}`,
		`{"id":"g","tool":"x","exit_code":0,"stdout":"x 1.0"}`,
		`{"tool":"x","exit_code":1,"signal":11,"stdout":"usage: x"}`,
	}, "\n")
	var out bytes.Buffer
	if err := Batch(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"id":"a","repairable":true,"method":"output_detection","repaired":{"command":"goimports -version","mode":"output","exit_code":2,"pattern":"(?i)usage:.*goimports"},"why":"the tool works, it only was asked wrongly: usage: goimports [flags] [path ...]"}`,
		`{"id":7,"repairable":true,"method":"fallback_help","repaired":{"command":"x --help","mode":"output","exit_code":1,"pattern":"(?i)usage:.*x"},"why":"the tool works, it only was asked wrongly: usage: x [-h]"}`,
		`{"id":"c","repairable":false,"method":"","repaired":null,"why":"x --help shows that it is broken: it was ended by the signal SIGSEGV"}`,
		`{"id":"d","error":"reading the line: json: cannot unmarshal number into Go struct field batchIn.tool of type string"}`,
		`{"id":"e","error":"the line has neither tool nor command"}`,
		`{"id":null,"error":"reading the line: invalid character 'o' in literal null (expecting 'u')"}`,
		`{"id":"f","error":"splitting \"x; y\": a verify command runs without a shell, and has no \"; y\""}`,
		`{"id":"g","repairable":false,"method":"","repaired":null,"why":"it ended with 0: there is nothing to repair"}`,
		`{"id":null,"repairable":false,"method":"","repaired":null,"why":"it was ended by the signal SIG11"}`,
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("line %d:\n%s\nwant\n%s", i, at(got, i), at(want, i))
		}
	}
	for _, line := range got {
		if !json.Valid([]byte(line)) {
			t.Error(line)
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(none)"
}

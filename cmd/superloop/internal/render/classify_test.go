package render

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/remedy"
	"github.com/superloop/superloop/recovery/verify"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is now\n%s\nand was\n%s", name, got, want)
	}
}

// own is a catalog of one failure, so that no change of the rules changes what is
// tested here.
const own = `layer: infra
handlers:
  - id: stale_index
    label: The index is stale
    description: The index is older than what it indexes.
    category: environment
    match: {any: ['^mytool: the index of (?P<what>\S+) is stale']}
    probes: [exists]
    options:
      - {id: refresh, label: Make the index anew, strategy: env_fix, recommended: true, confidence: 0.9, commands: [[touch, fresh]], expect: the index is fresh}
      - {id: tool, label: Use the other tool, strategy: install_dep, dep: jq, confidence: 0.5}
      - {id: away, label: Mend it on a Mac, strategy: env_fix, commands: [[touch, fresh]], requires: [darwin]}
      - {id: by_hand, label: Do it by hand, strategy: manual, instructions: Open the index and look.}
    examples:
      - {tool: mytool 1, command: ./check, exit_code: 1, stderr: "mytool: the index of a is stale"}
    counter_examples:
      - {tool: mytool 1, command: ./check, exit_code: 1, stderr: "mytool: no index"}
`

func ownCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own.yaml"), []byte(own), 0o644); err != nil {
		t.Fatal(err)
	}
	cat, problems := catalog.Load(t.Context(), catalog.Options{UserDir: dir})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return cat
}

func classified(t *testing.T, cat *catalog.Catalog, listed []string, from PolicyFrom, stderr string) Classification {
	t.Helper()
	k, err := classify.New(cat, classify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := k.Classify(t.Context(), classify.Input{Command: "./check", Dir: "/repo", Exit: classify.Exit{Code: 1}, Stderr: strings.NewReader(stderr)})
	if err != nil {
		t.Fatal(err)
	}
	system := remedy.Presets()["debian12"]
	plan := remedy.Resolve(cat, f, system, remedy.Situation{Dir: "/repo"})
	settings := recovery.Defaults()
	settings.AutoApprove = listed
	policy, problems := recovery.Compile(settings)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return NewClassification(cat, f, &plan, system, policy, from)
}

// TestClassificationText has each kind of verdict as an operator reads it. Nothing
// that a tool has printed may reach the terminal as it is.
func TestClassificationText(t *testing.T) {
	t.Parallel()
	cat := ownCatalog(t)
	for _, tt := range []struct {
		name   string
		listed []string
		from   PolicyFrom
		stderr string
		gate   string
	}{
		{"classify_auto", []string{"touch fresh"}, PolicyFrom{Source: "config", File: ".superloop/config.json", Enabled: true}, "\x1b[31mmytool: the index of a is stale\x1b[0m \x1b]0;owned\x07\n", "auto"},
		{"classify_propose", nil, PolicyFrom{Source: "default", File: ".superloop/config.json"}, "mytool: the index of a is stale\n", "propose"},
		{"classify_code", nil, PolicyFrom{Source: "config", File: ".superloop/config.json", Loop: "one", Enabled: true}, "src/a.ts(3,7): error TS2322: Type 'string' is not assignable to type 'number'.\n", "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := classified(t, cat, tt.listed, tt.from, tt.stderr)
			if c.Gate != tt.gate {
				t.Errorf("the gate is %s, want %s", c.Gate, tt.gate)
			}
			var b bytes.Buffer
			c.Text(&b)
			if strings.ContainsAny(b.String(), "\x1b\x07") {
				t.Errorf("terminal codes are let through:\n%q", b.String())
			}
			if tt.name != "classify_code" { // that depends on the guards
				golden(t, tt.name, b.String())
			} else if !strings.Contains(b.String(), "because of  the code: only a change of it helps\n") || !strings.Contains(b.String(), "  src/a.ts:3  ") {
				t.Errorf("a failure of the code is told as\n%s", b.String())
			}
		})
	}
}

func TestVerificationText(t *testing.T) {
	t.Parallel()
	ran := []CheckRun{{Command: "odd --version", Exit: Exit{Code: 2}, Output: "usage: odd FILE\n\x1b[2J1\n2\n3\n4\n5\n6\n7\n"}}
	for name, out := range map[string]verify.Outcome{
		"verify_works":   {Works: true, Why: "it works"},
		"verify_broken":  {Why: "exit code 127 instead of 0: a library is missing", Analysis: verify.Analysis{Broken: true}},
		"verify_unknown": {Why: "exit code 2 instead of 0: the output says nothing"},
		"verify_repaired": {Works: true, Verify: catalog.Verify{Command: "odd 'a b'", Mode: catalog.ModeOutput, Pattern: "it's", ExitCode: 2},
			Repair: &verify.RepairMetadata{Succeeded: true, Method: verify.OutputDetection}, Analysis: verify.Analysis{Why: "it says how it is used"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			Verification(&b, "odd", "An odd tool", out, ran)
			golden(t, name, b.String())
		})
	}
}

package remedy

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// elsewhere are the programs that Debian 12 does not have, nor a registry that the catalog names; each has a package in
// another family, or an operator installs it by its maker's way.
var elsewhere = strings.Fields("go-task sbt rustup rust-analyzer julia msbuild swift zig dart flutter nvcc glab bzr hadolint editorconfig-checker vale k9s" +
	" minikube tofu terragrunt vault consul gcloud doctl flyctl pulumi trivy grype syft gitleaks duckdb magick k6 wasmtime asdf dotnet" +
	" mosquitto_pub brew") // a shell function of that form is the project's own; brew is not for Debian

// Every program of the catalog that a shell does not find has a remedy on Debian 12, and it is that program's own
// package: the one that the distribution's index says has it.
func TestEveryMissingProgramHasARemedy(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	k, err := classify.New(cat, classify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	recorded := recordedPrograms(t)
	names := slices.Sorted(maps.Keys(cat.Names.Programs))
	for i := range cat.Recipes {
		if r := &cat.Recipes[i]; r.CLI != "" && !strings.ContainsAny(r.CLI, "/ ") && !slices.Contains(names, r.CLI) && len(r.Packages["apt"])+len(r.Install) > 0 {
			names = append(names, r.CLI)
		}
	}
	if len(names) < 480 {
		t.Fatalf("%d programs", len(names))
	}
	base := Presets()["debian12"]
	checked := 0
	for _, name := range names {
		if slices.Contains(elsewhere, name) {
			continue
		}
		p := base.With("npm", "cargo", "go", "gem", "pipx", "ruby", "curl")
		p.Tools[name] = false
		p.Root = true
		f, err := k.Classify(context.Background(), classify.Input{Source: classify.SourceCommand, Command: name + " frob", Dir: t.TempDir(), Exit: classify.Exit{Code: 127},
			Stderr: strings.NewReader("bash: line 1: " + name + ": command not found\n")})
		if err != nil {
			t.Fatal(err)
		}
		plan := Resolve(cat, f, p, Situation{})
		first := &plan.Options[0]
		if first.Executor != catalog.ByWrapper || first.Availability == Impossible || first.Command == "" {
			t.Errorf("%s (%s): the first option is %s: %s %s", name, f.Handler, first.ID, first.Availability, first.ImpossibleReason)
			continue
		}
		row, ok := recorded[name]
		if !ok || !strings.Contains(first.Command, "apt-get install") || strings.Contains(first.Command, "keyrings") {
			continue // it comes from another registry, or from its maker's repository
		}
		checked++
		if words := strings.Fields(first.Command); !slices.ContainsFunc(row.offered, func(pkg string) bool { return slices.Contains(words, pkg) }) {
			t.Errorf("%s: %q does not bring it, %s does", name, first.Command, row.offered)
		}
	}
	if checked < 350 {
		t.Errorf("only %d programs were compared with the index", checked)
	}
	t.Logf("%d programs, %d compared with the recorded index", len(names), checked)
}

type recordedProgram struct{ offered []string }

// recordedPrograms reads testdata/debian12-programs.txt.
func recordedPrograms(t *testing.T) map[string]recordedProgram {
	t.Helper()
	data, err := os.ReadFile("testdata/debian12-programs.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]recordedProgram{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) > 2 && line[0] != '#' {
			out[f[0]] = recordedProgram{append(out[f[0]].offered, f[1:3]...)}
		}
	}
	return out
}

// The table offers what the recorded index says, and every family's names are written as that family writes them.
func TestProgramTable(t *testing.T) {
	t.Parallel()
	cat, recorded := embedded(t), recordedPrograms(t)
	count := map[string]int{}
	for name, by := range cat.Names.Programs {
		for where, pkgs := range by {
			count[where]++
			if len(pkgs) != 1 {
				t.Errorf("%s, %s: %q", name, where, pkgs)
			}
		}
		row, ok := recorded[name]
		if pkgs := by["debian"]; len(pkgs) > 0 && (!ok || row.offered[0] != pkgs[0]) {
			t.Errorf("%s: %q is not what was recorded, %q", name, pkgs, row.offered)
		}
	}
	for family, least := range map[string]int{"debian": 350, "rhel": 300, "alpine": 300, "arch": 300, "suse": 250, "macos": 300} {
		if count[family] < least {
			t.Errorf("%s: %d programs, want %d", family, count[family], least)
		}
	}
	t.Log(fmt.Sprint(count))
}

// An unknown program is asked of the system's index; without one, nothing is guessed.
func TestUnknownProgramByTheIndex(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	k, err := classify.New(cat, classify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := k.Classify(context.Background(), classify.Input{Source: classify.SourceCommand, Command: "frobnicate x", Dir: t.TempDir(), Exit: classify.Exit{Code: 127},
		Stderr: strings.NewReader("bash: line 1: frobnicate: command not found\n")})
	if err != nil {
		t.Fatal(err)
	}
	p := Presets()["debian12"]
	if plan := Resolve(cat, f, p, Situation{}); strings.Contains(plan.Options[0].Command, "frob") {
		t.Errorf("a package is guessed: %s", plan.Options[0].Command)
	}
	p.Index = fakeIndex{"frobnicate": {"libfrob-bin", "frob-extras"}}
	plan := Resolve(cat, f, p, Situation{})
	if got := plan.Options[0]; got.Command != "sudo apt-get install -y --no-install-recommends libfrob-bin" || !got.Recommended {
		t.Errorf("%s: %q", got.ID, got.Command)
	}
	for _, bad := range check(&plan, p, cat) {
		if !strings.Contains(bad, "nobody provides") {
			t.Error(bad)
		}
	}
}

package remedy

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

func listing(t testing.TB, commands ...string) *recovery.Policy {
	t.Helper()
	s := recovery.Defaults()
	s.AutoApprove = commands
	s.AllowPrivileged = true
	p, problems := recovery.Compile(s)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// What the engine never runs by itself, although the policy lists it.
// Conforms: 000-3.1-risk, 000-3.2-manual, 002-3-p2, 002-sel-p2, 002-sel-p4, 003-c2.2-fix
func TestWhatIsListedAndStillRefused(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	fix := func(argv ...string) catalog.Option {
		return catalog.Option{Strategy: catalog.EnvFix, Commands: [][]string{argv}}
	}
	tests := []struct {
		name   string
		option catalog.Option
		change func(*classify.Failure)
		why    string // "": it may run
	}{
		{"inside the repository", fix("rm", "-rf", "node_modules"), nil, ""},
		{"the project's own", catalog.Option{Strategy: catalog.CleanupRetry, Project: "clean_install"}, nil, ""},
		{"a cache that comes back", fix("npm", "cache", "verify"), nil, ""},
		{"medium risk", catalog.Option{Strategy: catalog.EnvFix, Risk: catalog.RiskMedium, Commands: [][]string{{"npm", "rebuild"}}}, nil, ""},
		{"high risk", catalog.Option{Strategy: catalog.EnvFix, Risk: catalog.RiskHigh, Commands: [][]string{{"npm", "rebuild"}}}, nil, "risk is high"},
		{"the superuser", catalog.Option{Strategy: catalog.CleanupRetry, Sudo: true, Commands: [][]string{{"apt-get", "clean"}}}, nil, "superuser"},
		{"packages", catalog.Option{Strategy: catalog.InstallPackages, Packages: map[string][]string{"debian": {"x"}}}, nil, "superuser"},
		{"sudo in the words", fix("sudo", "true"), nil, "superuser"},
		{"a privileged shell", fix("bash", "-c", "sudo true"), nil, "other rights"},
		{"upwards", fix("rm", "-rf", "../x"), nil, "outside"},
		{"everything", fix("rm", "-rf", "."), nil, "outside"},
		{"the history", fix("rm", "-rf", ".git"), nil, "outside"},
		{"absolute", fix("rm", "-rf", "/tmp/x"), nil, "outside"},
		{"home", fix("rm", "-rf", "~/.npm"), nil, "outside"},
		{"a whole cache", fix("npm", "cache", "clean", "--force"), nil, "outside"},
		{"a foreign process", fix("kill", "4711"), nil, "processes"},
		{"an own process", fix("kill", "4711"), func(f *classify.Failure) {
			f.Findings = map[string]classify.Finding{"port_owner": {Holds: classify.Yes, Value: "4711"}}
		}, ""},
		{"another than the own process", fix("kill", "4711"), func(f *classify.Failure) {
			f.Findings = map[string]classify.Finding{"port_owner": {Holds: classify.Yes, Value: "4712"}}
		}, "processes"},
		{"a service", fix("systemctl", "restart", "x"), nil, "services"},
		{"our own files", fix("cp", "x", ".superloop/config.json"), nil, "own files"},
		{"a weak failure", fix("npm", "rebuild"), func(f *classify.Failure) { f.Weak = true }, "code may be to blame"},
		{"a doubtful failure", fix("npm", "rebuild"), func(f *classify.Failure) { f.Confidence = .4 }, "confidence is low"},
		{"rights", fix("chmod", "+x", "run.sh"), func(f *classify.Failure) { f.Category = "permission_denied" }, "an operator decides"},
		{"space", fix("rm", "-rf", "dist"), func(f *classify.Failure) { f.Category = "disk_full" }, "an operator decides"},
		{"a file of the repository", fix("npm", "rebuild"), func(f *classify.Failure) {
			f.Matches[0].Handler.Origin.Source = catalog.SourceRepository
		}, "stands in the repository"},
		{"a handler that is held", fix("npm", "rebuild"), func(f *classify.Failure) {
			f.Matches[0].Handler.Origin.Held = "own.yaml:3: the handler x is left out"
		}, "is held: own.yaml:3"},
		{"not there yet", catalog.Option{Strategy: catalog.InstallDep, Dep: "jq"}, nil, "not installed"},
		{"there already", catalog.Option{Strategy: catalog.InstallDep, Dep: "git"}, nil, "already installed"},
		{"for an operator", catalog.Option{Strategy: catalog.Manual, Instructions: "Do it."}, nil, "not superloop"},
		{"with a password", catalog.Option{Strategy: catalog.RetryWithModifier, Modifier: catalog.Modifier{Ask: "password"}}, nil, "not superloop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.option.ID = "x"
			h := handler("h", catalog.LayerMethod, "npm", tt.option)
			f := failure("environment", npmRepo(t), []string{"npm", "test"}, h, nil)
			if tt.change != nil {
				tt.change(&f)
			}
			plan := Resolve(cat, f, Presets()["debian12"], Situation{Dir: f.Dir})
			i := slices.IndexFunc(plan.Options, func(o Option) bool { return o.From.ID == "h" })
			o := plan.Options[i]
			ok, why := ByItself(o, f)
			if ok != (tt.why == "") || !strings.Contains(why, tt.why) {
				t.Errorf("%q: %t (%s), want %q", o.Command, ok, why, tt.why)
			}
			if o.Command == "" {
				return
			}
			if gate, got := Gate(&plan, listing(t, o.Command)); (gate == GateAuto && got.Key == o.Key) != ok {
				t.Errorf("%q is listed: the gate is %s (by itself: %t)", o.Command, gate, ok)
			}
			if gate, _ := Gate(&plan, listing(t)); gate == GateAuto {
				t.Errorf("nothing is listed, and the gate is %s", gate)
			}
		})
	}
}

// Conforms: 004-nongoal-code
func TestCodeIsNobodysToRepair(t *testing.T) {
	t.Parallel()
	f := failure("code_bug", npmRepo(t), []string{"npm", "test"}, handler("h", catalog.LayerMethod, "npm", catalog.Option{ID: "x", Strategy: catalog.CleanupRetry, Project: "clean_install"}), nil)
	f.Code = true
	plan := Resolve(embedded(t), f, Presets()["debian12"], Situation{Dir: f.Dir, ProposalOfTester: tester(t, "npm ci")})
	if gate, o := Gate(&plan, suggestedPolicy(t)); gate != GateNone || o != nil || len(plan.Options) != 1 || len(plan.Notes) != 2 {
		t.Errorf("the gate is %s, the plan has %d options and the notes %q", gate, len(plan.Options), plan.Notes)
	}
}

func tester(t testing.TB, command string) *recovery.Proposal {
	t.Helper()
	p, problems := recovery.DecodeProposal([]byte(`{"version":1,"timestamp":"2026-01-23T10:00:00Z","category":"dependency","severity":"blocking",
		"diagnosis":{"error_pattern":"x","root_cause":"The lock file is stale.","evidence":[]},
		"recovery":{"command":"`+command+`","expected_outcome":"it works","confidence":"high"}}`), 0)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// Conforms: 000-5.1-dedupe
func TestTheTestersProposal(t *testing.T) {
	t.Parallel()
	cat, p := embedded(t), Presets()["debian12"]
	h := handler("h", catalog.LayerMethod, "npm", catalog.Option{ID: "x", Strategy: catalog.CleanupRetry, Project: "clean_install", Recommended: true})
	f := failure("dependency", npmRepo(t), []string{"npm", "test"}, h, nil)
	f.Weak = true // caps what superloop thinks of by itself, not what the tester has seen
	plan := Resolve(cat, f, p, Situation{Dir: f.Dir, ProposalOfTester: tester(t, "npm run fix")})
	if gate, o := Gate(&plan, listing(t, "npm run fix")); gate != GateAuto || o.ProposalDigest == "" || o.Command != "npm run fix" {
		t.Errorf("the gate is %s with %+v", gate, o)
	}
	plan = Resolve(cat, f, p, Situation{Dir: f.Dir, ProposalOfTester: tester(t, "npm ci")})
	n := 0
	for i := range plan.Options {
		if plan.Options[i].Command == "npm ci" {
			n++
		}
	}
	if o := plan.Options[0]; n != 1 || o.ProposalDigest == "" || o.From.Kind != FromHandler || !o.Recommended {
		t.Errorf("npm ci is there %d times, the first option is %+v", n, o)
	}
}

func TestAPersonComesFirstWhereTheHandlerSaysSo(t *testing.T) {
	t.Parallel()
	h := handler("disk", catalog.LayerInfra, "", catalog.Option{ID: "free", Strategy: catalog.Manual, Recommended: true, Instructions: "Free space."},
		catalog.Option{ID: "clean", Strategy: catalog.CleanupRetry, Commands: [][]string{{"go", "clean", "-cache"}}})
	f := failure("disk_full", "/r", []string{"go", "test"}, h, nil)
	plan := Resolve(embedded(t), f, Presets()["debian12"].With("go"), Situation{Dir: "/r"})
	if gate, o := Gate(&plan, suggestedPolicy(t)); gate != GateHuman || o.ID != "free" {
		t.Errorf("the gate is %s with %+v", gate, o)
	}
}

func TestNothingRunsOutsideTheRepository(t *testing.T) {
	t.Parallel()
	h := handler("h", catalog.LayerInfra, "", catalog.Option{ID: "x", Strategy: catalog.EnvFix, Commands: [][]string{{"rm", "-rf", "dist"}}})
	f := failure("auth", "/elsewhere", []string{"npm", "test"}, h, nil)
	plan := Resolve(embedded(t), f, Presets()["debian12"], Situation{Dir: "/repo"})
	if o := plan.Options[0]; o.Availability != Impossible || o.Command != "" {
		t.Errorf("%q is %s", o.Command, o.Availability)
	}
}

func TestTheRecipesRiskCounts(t *testing.T) {
	t.Parallel()
	h := handler("h", catalog.LayerInfra, "", catalog.Option{ID: "x", Strategy: catalog.InstallPackages, Packages: map[string][]string{"macos": {"jq"}}})
	f := failure("auth", "/repo", []string{"npm", "test"}, h, nil)
	plan := Resolve(embedded(t), f, Presets()["macos"], Situation{Dir: "/repo"})
	if o := plan.Options[0]; o.Availability != Locked || !slices.Equal(o.UnlockDeps, []string{"brew"}) || o.Risk != catalog.RiskHigh {
		t.Errorf("%q is %s with %v and risk %s", o.Command, o.Availability, o.UnlockDeps, o.Risk)
	}
}

func TestHintsOfTheHandlerMakeNoCommand(t *testing.T) {
	t.Parallel()
	h := handler("e404", catalog.LayerMethod, "npm", catalog.Option{ID: "name", Label: "Correct the name", Strategy: catalog.Manual, Executor: catalog.ByRole, Recommended: true})
	f := failure("dependency", npmRepo(t), []string{"npm", "install", "nosuch"}, h, nil)
	plan := Resolve(embedded(t), f, Presets()["debian12"], Situation{Dir: f.Dir})
	if gate, _ := Gate(&plan, suggestedPolicy(t)); gate != GateNone || !slices.Contains(plan.Hints, "Correct the name") {
		t.Errorf("the gate is %s, the hints are %q", gate, plan.Hints)
	}
}

// A confidence gets the word that it is nearest to.
func TestWord(t *testing.T) {
	t.Parallel()
	for value, word := range map[float64]string{1: high, .9: high, .75: high, .6: medium, .45: medium, .4: low, 0: low} {
		if Word(value) != word {
			t.Errorf("%.2f is %s, want %s", value, Word(value), word)
		}
	}
}

func TestWorkingDirIsThatOfTheProject(t *testing.T) {
	t.Parallel()
	dir := repo(t, map[string]string{"web/package.json": "{}", "web/package-lock.json": ""})
	f := failure("dependency", filepath.Join(dir, "web"), []string{"npm", "test"}, nil, nil)
	plan := Resolve(embedded(t), f, Presets()["debian12"], Situation{Dir: dir})
	for _, o := range plan.Options {
		if o.Command == "npm ci" && o.WorkingDir != "web" {
			t.Errorf("it is to run in %s", o.WorkingDir)
		}
	}
}

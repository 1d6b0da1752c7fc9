package failures

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/schemas"
)

func entry(o RoleOutcome, a Agent) Entry {
	o.Task, o.Agent, o.At = work, a, noon
	e, _ := Detect(o, classify.Signature)
	var h History
	h.Add(e, StepReassign)
	return h.Of(work)[0]
}

func environment(category string) RoleOutcome {
	return RoleOutcome{Outcome: "exit", ExitCode: 1, Classified: &Classified{Category: category, Persistence: Environment, Infra: true, Confidence: 0.9, Signature: category + "-1"}}
}

func bug(sig string) RoleOutcome {
	return RoleOutcome{Outcome: "exit", ExitCode: 1, Classified: &Classified{Category: "code_bug", Persistence: Code, Code: true, Confidence: 0.9, Signature: sig}}
}

var storeLine = Quote{Source: "implementer.log", File: "internal/store/store.go", Line: 41, Text: "panic: assignment to entry in nil map at internal/store/store.go:41"}

// TestRules: which cause each rule finds, on what evidence, and what it would do.
// Conforms: 003-c4-evidence-code, 003-c4-pattern-class, 003-c4-pattern-path, 003-c4-pattern-task, 003-c4-pattern-worker, 003-c4-cause-code
// Conforms: 003-c4-cause-config, 003-c4-cause-dependency, 003-c4-cause-infra, 003-c4-unknown, 003-c4-fix
// Conforms: 003-c5-prevention-deps, 003-r2
func TestRules(t *testing.T) {
	t.Parallel()
	commit := CommitFact{SHA: "0123456789abcdef0123", At: noon, Subject: "store: faster", Files: []string{"internal/store/store.go", "docs/a.md"}}
	for name, c := range map[string]struct {
		in       Case
		rule     string
		typ      CauseType
		location string
		fix      string
		check    CheckKind
		sure     float64 // at least
	}{
		"nothing known": {in: Case{History: []Entry{entry(RoleOutcome{Outcome: "exit"}, alice)}}, typ: CauseUnknown, fix: FixNone},
		"disk": {Case{History: []Entry{entry(environment("disk_full"), alice)}, Facts: Facts{Changes: []Change{{ChangeDisk, "free space", "9000 MB", "3 MB"}}}},
			"disk", CauseInfrastructure, "", FixPerson, CheckDisk, 0.9},
		"disk, by its words": {Case{History: []Entry{entry(environment("disk_full"), alice)}}, "disk", CauseInfrastructure, "", FixPerson, CheckDisk, Sure},
		"settings":           {Case{History: []Entry{entry(RoleOutcome{Outcome: "exit", Class: "config_error"}, alice)}}, "settings", CauseConfig, ".superloop/config.json", FixPerson, "", 0.9},
		"login":              {Case{History: []Entry{entry(RoleOutcome{Outcome: "exit", Class: "auth"}, alice)}}, "account", CauseInfrastructure, "", FixPerson, CheckAuth, 0.9},
		"outage":             {Case{History: []Entry{entry(RoleOutcome{Outcome: "exit", Class: "overloaded"}, alice)}}, "outage", CauseInfrastructure, "", FixWait, CheckLimit, Sure},
		"network": {Case{History: []Entry{entry(RoleOutcome{Outcome: "exit", Class: "network"}, alice), entry(RoleOutcome{Outcome: "exit", Class: "network"}, bob)}},
			"outage", CauseInfrastructure, "", FixWait, "", Sure},
		"clock": {Case{History: []Entry{entry(environment("network_error"), alice)}, Facts: Facts{Changes: []Change{{ChangeClock, "", "in step", "moved by 26h0m0s"}}}},
			"clock", CauseInfrastructure, "", FixPerson, "", Sure},
		"lock file changed": {Case{History: []Entry{entry(environment("dependency"), alice)}, Captures: map[string]string{"pkg": "left-pad"}, Command: "npm ci",
			Facts: Facts{Changes: []Change{{ChangeLock, "package-lock.json", "aa", "bb"}}}}, "dependency", CauseDependency, "package-lock.json", FixEnvironment, CheckDeps, 0.9},
		"dependency, no remedy known": {Case{History: []Entry{entry(environment("dependency"), alice)}}, "dependency", CauseDependency, "", FixPerson, CheckDeps, 0.6},
		"tool":                        {Case{History: []Entry{entry(environment("command_not_found"), alice)}, Captures: map[string]string{"tool": "jq"}, Command: "apt-get install jq"}, "missing_tool", CauseDependency, "", FixEnvironment, CheckTool, Sure},
		"permission":                  {Case{History: []Entry{entry(environment("permission_denied"), alice)}, Captures: map[string]string{"path": "dist"}}, "permission", CauseInfrastructure, "dist", FixPerson, CheckPermission, Sure},
		"port":                        {Case{History: []Entry{entry(environment("port_in_use"), alice)}, Captures: map[string]string{"port": "3000"}, Command: "kill 7"}, "port", CauseInfrastructure, "", FixEnvironment, CheckPort, Sure},
		"file moved": {Case{History: []Entry{entry(environment("file_not_found"), alice)}, Captures: map[string]string{"path": "./internal/store/store.go"}, Facts: Facts{Commits: []CommitFact{commit}}},
			"removed_file", CauseCode, "internal/store/store.go", FixCode, "", 0.8},
		"file never was": {Case{History: []Entry{entry(environment("file_not_found"), alice)}, Captures: map[string]string{"path": "conf/x.yml"}}, "removed_file", CauseConfig, "conf/x.yml", FixCode, CheckPath, 0.5},
		"a path that is wrong, once": {Case{History: []Entry{entry(environment("file_not_found"), alice)}, Captures: map[string]string{"path": "docs/agent_library/guide.md"},
			Facts: Facts{Exists: map[string]bool{"docs/agent_library/guide.md": false}, Namesakes: map[string]string{"docs/agent_library/guide.md": "docs/agents/guide.md"}}},
			"wrong_path", CauseCode, "docs/agent_library/guide.md", FixCode, "", 0.6},
		"recent commit": {Case{History: []Entry{entry(bug("s-1"), alice), entry(bug("s-1"), bob)}, Evidence: []Quote{storeLine}, Facts: Facts{Commits: []CommitFact{commit}}},
			"recent_commit", CauseCode, "internal/store/store.go:41", FixCode, "", 0.9},
		"the same bug twice": {Case{History: []Entry{entry(bug("s-1"), alice), entry(bug("s-1"), bob)}, Evidence: []Quote{storeLine}},
			"code", CauseCode, "internal/store/store.go:41", FixCode, "", Sure},
		"new tool": {Case{History: []Entry{entry(RoleOutcome{Outcome: "exit"}, alice)}, Evidence: []Quote{{Text: "Node.js v24 does not support this"}},
			Facts: Facts{Changes: []Change{{ChangeTool, "node", "20.1", "24.0"}}}}, "changed_tool", CauseDependency, "", FixConfig, "", Sure},
		"new config": {Case{History: []Entry{entry(environment("config"), alice)}, Facts: Facts{Changes: []Change{{ChangeConfig, ".npmrc", "", "aa"}}}}, "changed_config", CauseConfig, ".npmrc", FixConfig, "", Sure},
		"refused":    {Case{History: []Entry{entry(RoleOutcome{Outcome: "error", Class: "refused"}, alice), entry(RoleOutcome{Outcome: "error", Class: "refused"}, bob)}}, "refused", CauseConfig, "", FixPerson, "", 0.8},
		"everywhere": {Case{History: []Entry{entry(environment("environment"), alice)}, Facts: Facts{Others: []Elsewhere{{Loop: "a", Category: "environment", Signature: "environment-1"}, {Loop: "b", Category: "environment"}}}},
			"everywhere", CauseInfrastructure, "", FixPerson, "", 0.5},
		"one kind of task": {Case{History: []Entry{entry(environment("environment"), alice)}, Facts: Facts{Others: []Elsewhere{{Loop: "a", Role: work.Role, Category: "environment"}, {Loop: "b", Role: work.Role, Category: "environment"}, {Loop: "c", Role: "other", Category: "config"}}}},
			"everywhere", CauseConfig, "", FixPerson, "", 0.5},
		"two kinds of tasks": {Case{History: []Entry{entry(environment("environment"), alice)}, Facts: Facts{Others: []Elsewhere{{Loop: "a", Role: work.Role, Category: "environment"}, {Loop: "a", Role: "other", Category: "environment"}}}},
			"everywhere", CauseInfrastructure, "", FixPerson, "", 0.5},
		"one runner": {Case{History: []Entry{entry(RoleOutcome{Outcome: "exit", Error: "x"}, alice), entry(RoleOutcome{Outcome: "timeout"}, alice)}}, "one_runner", CauseInfrastructure, "", FixConfig, "", 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.in.Task, c.in.RunID, c.in.Iteration = work, "r1", 2
			rc := Analyse(c.in, noon)
			check := CheckKind("")
			if rc.Prevention != nil {
				check = rc.Prevention.Kind
			}
			if rc.Rule != c.rule && c.in.Facts.Changes == nil || rc.Type != c.typ || rc.Location != c.location || rc.Fix.Kind != c.fix || check != c.check || rc.Confidence < c.sure || rc.By != ByRules {
				t.Errorf("%+v", rc)
			}
			lawful(t, rc)
		})
	}
}

// lawful: it can be written as root-cause.json, and its parts fit together.
func lawful(t interface {
	Helper()
	Fatalf(string, ...any)
}, rc RootCause) {
	t.Helper()
	data, err := json.Marshal(rc)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if ps := schemas.Validate(schemas.RootCause, data); len(ps) > 0 {
		t.Fatalf("%s\n%v", data, ps)
	}
	if n := len(rc.WhyChain); n == 0 || n > maxWhys || len(rc.Evidence) > maxEvidence {
		t.Fatalf("%d whys, %d quotes", n, len(rc.Evidence))
	}
	if (rc.Fix.Kind == FixEnvironment) != (rc.Fix.Command != "") || rc.Confidence < 0 || rc.Confidence > 1 {
		t.Fatalf("%+v", rc)
	}
	if rc.Prevention != nil && rc.Prevention.Spec != nil {
		if err := (Prevention{Kind: rc.Prevention.Kind, Spec: *rc.Prevention.Spec}).Valid(); err != nil {
			t.Fatalf("%v: %+v", err, rc.Prevention)
		}
	}
	if a := rc.Analysis(); a.Person && rc.Confidence < Sure {
		t.Fatalf("an operator is asked on %f", rc.Confidence)
	}
}

// TestAnalyseAnything: whatever the case, it is lawful, the same twice, and quotes
// only what it was given.
func TestAnalyseAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := Case{Task: work, RunID: "r", Captures: map[string]string{}}
		for range rapid.IntRange(0, 5).Draw(rt, "entries") {
			if e, ok := Detect(anyOutcome(rt), classify.Signature); ok {
				var h History
				h.Add(e, StepReassign)
				c.History = append(c.History, h.Of(work)...)
				if len(c.History) > 0 && rapid.Bool().Draw(rt, "other") {
					c.History[len(c.History)-1].Category = rapid.SampledFrom([]string{"port_in_use", "file_not_found", "permission_denied", "command_not_found", "config"}).Draw(rt, "cat")
				}
			}
		}
		for _, k := range []string{"pkg", "tool", "path", "port"} {
			if rapid.Bool().Draw(rt, k) {
				c.Captures[k] = rapid.SampledFrom([]string{"", "x", "a/b.go", "3000", "99999", "/", "..\\x", "a\nb", strings.Repeat("y", 5000)}).Draw(rt, "v")
			}
		}
		for range rapid.IntRange(0, 3).Draw(rt, "facts") {
			c.Facts.Changes = append(c.Facts.Changes, Change{rapid.SampledFrom([]string{ChangeTool, ChangeLock, ChangeConfig, ChangeDisk, ChangeClock}).Draw(rt, "what"), "n", "1", "2"})
			c.Facts.Commits = append(c.Facts.Commits, CommitFact{SHA: "abc", Subject: rapid.String().Draw(rt, "s"), Files: []string{"a/b.go"}})
			c.Evidence = append(c.Evidence, Quote{File: rapid.SampledFrom([]string{"", "a/b.go", "/w/a/b.go"}).Draw(rt, "f"), Line: rapid.IntRange(-1, 9).Draw(rt, "l"), Text: rapid.String().Draw(rt, "t")})
			c.Facts.Others = append(c.Facts.Others, Elsewhere{Loop: "z", Category: "config"})
		}
		rc := Analyse(c, noon)
		if p, ok := rc.Check(Scope{Loop: "l"}); ok && p.Valid() != nil {
			rt.Fatalf("%+v", p)
		}
		if len(c.History) > 0 {
			lawful(rt, rc)
		}
		if again := Analyse(c, noon); fmt.Sprintf("%+v", again.Evidence) != fmt.Sprintf("%+v", rc.Evidence) || again.ID != rc.ID {
			rt.Fatal("it is not the same twice")
		}
	})
}

// TestAnalysis: what the failure policy is told; a prevention only where the cause is sure.
func TestAnalysis(t *testing.T) {
	t.Parallel()
	if a := (RootCause{Type: CauseUnknown, Description: "x", Confidence: 0.9, Fix: Fix{Kind: FixPerson}}).Analysis(); a != (Analysis{}) {
		t.Errorf("%+v", a)
	}
	rc := RootCause{Type: CauseCode, Description: "a nil map", Location: "a.go:1", Confidence: 0.8, Fix: Fix{Kind: FixCode, Instruction: "make it"},
		Prevention: &Prevented{Kind: CheckTool, Spec: &CheckSpec{Name: "jq"}}}
	if a := rc.Analysis(); a.Summary != "a nil map (a.go:1)" || a.Instruction != "make it" || a.Person {
		t.Errorf("%+v", a)
	}
	if _, ok := rc.Check(Scope{Loop: "l"}); ok {
		t.Error("a check of what the role has to make itself")
	}
	rc.Confidence, rc.Fix = 0.95, Fix{Kind: FixPerson, Instruction: "log in"}
	if a := rc.Analysis(); !a.Person || !strings.Contains(a.Why, "log in") {
		t.Errorf("%+v", a)
	}
	rc.By, rc.Confidence = ByRules, 0.6
	p, ok := rc.Check(Scope{Loop: "l", Role: "implementer", Runners: []string{"claude"}})
	if !ok || !p.Learned() || p.Stops("l", "implementer", "codex") || p.Stops("m", "implementer", "claude") || !p.Stops("l", "implementer", "claude") {
		t.Errorf("%+v", p)
	}
	if a := rc.Analysis(); a != (Analysis{}) || rc.Possibly() != "possibly: a nil map" {
		t.Errorf("a guess is told as a fact: %+v", a)
	}
	rc.Verified = VerifiedByCheck
	if a := rc.Analysis(); a.Summary == "" || a.Person || rc.Possibly() != "a nil map" {
		t.Errorf("verified: %+v", a)
	}
	rc.By = "codex"
	if _, ok := rc.Check(Scope{Loop: "l"}); ok {
		t.Error("a check of an agent's guess")
	}
}

// TestWeak: what a weak classification says is a guess, however sure the rule; a rule that does not need it wins.
func TestWeak(t *testing.T) {
	t.Parallel()
	weak := environment("command_not_found")
	weak.Classified.Weak = true
	unsure := environment("command_not_found")
	unsure.Classified.Confidence = Sure - 0.01
	for name, o := range map[string]RoleOutcome{"weak": weak, "unsure": unsure} {
		e := entry(o, alice)
		if !e.Weak || e.Blame != BlameRunner || e.Class != Unknown || e.Category != "command_not_found" || e.Signature != entry(environment("command_not_found"), alice).Signature {
			t.Errorf("%s: %+v", name, e)
		}
		c := Case{Task: work, RunID: "r1", History: []Entry{e}, Captures: map[string]string{"tool": "jq"}, Command: "apt-get install jq"}
		rc := Analyse(c, noon)
		if rc.Rule != "missing_tool" || !rc.Weak || rc.Sure() || rc.Analysis() != (Analysis{}) || !strings.HasPrefix(rc.Possibly(), "possibly: ") {
			t.Errorf("%s: %+v", name, rc)
		}
		if _, ok := rc.Check(Scope{Loop: "l"}); ok {
			t.Errorf("%s: a check of a guess", name)
		}
		c.Facts.Changes = []Change{{ChangeDisk, "free space", "", "3 MB"}}
		if rc := Analyse(c, noon); rc.Rule != "disk" || rc.Weak {
			t.Errorf("%s: a measurement loses against a guess: %+v", name, rc)
		}
	}
}

// TestMerge: an answer counts as far as its evidence stands in the output.
// Conforms: 003-c4-fix
func TestMerge(t *testing.T) {
	t.Parallel()
	c := Case{Task: work, RunID: "r1", History: []Entry{entry(RoleOutcome{Outcome: "exit"}, alice)}}
	outputs := []Output{{"implementer.log", "line one\n\x1b[31mError:\x1b[0m  cannot   open db/schema.sql: permission denied\nat src/db.go:17 in Open\n"}}
	base := Analyse(c, noon)
	good := `{"type":"config","root_cause":"the schema is not readable","location":"src/db.go:17","evidence":["cannot open db/schema.sql: permission denied",{"source":"implementer.log","quote":"at src/db.go:17 in Open"}],
"why_chain":["a","b","c","d","e","f"],"fix":{"kind":"environment","command":"chmod 644 db/schema.sql"},"prevention":{"kind":"permission","spec":{"path":"db/schema.sql","want":"read"}},"confidence":"high"}`
	for name, w := range map[string]struct {
		answer  string
		by      string // whose analysis it is afterwards
		sure    float64
		problem string
	}{
		"good":                 {good, "codex", 0.9, ""},
		"in a fence":           {"Here it is:\n```json\n" + good + "\n```\n", "codex", 0.9, ""},
		"half of it made up":   {strings.Replace(good, "at src/db.go:17 in Open", "at src/db.go:99 in Close", 1), "codex", 0.45, "not in the output"},
		"all made up":          {strings.NewReplacer("at src/db.go:17 in Open", "this never was said", "cannot open db/schema.sql: permission denied", "nor was this one").Replace(good), ByRules, 0, "not believed"},
		"too short to prove":   {strings.NewReplacer("at src/db.go:17 in Open", "Open", "cannot open db/schema.sql: permission denied", "Error:").Replace(good), ByRules, 0, "not believed"},
		"no evidence":          {`{"type":"code","root_cause":"I just know"}`, ByRules, 0, "no evidence"},
		"no JSON":              {"it is the network", ByRules, 0, "no JSON"},
		"broken JSON":          {`{"type":`, ByRules, 0, "no JSON"},
		"no such type":         {strings.Replace(good, "config", "karma", 1), ByRules, 0, "karma"},
		"no cause":             {strings.Replace(good, "the schema is not readable", " ", 1), ByRules, 0, "empty"},
		"too long":             {good + strings.Repeat(" ", maxAnswer), ByRules, 0, "bytes"},
		"location elsewhere":   {strings.Replace(good, `"location":"src/db.go:17"`, `"location":"src/other.go:3"`, 1), "codex", 0.9, "other.go"},
		"part of a name":       {strings.Replace(good, `"location":"src/db.go:17"`, `"location":"b/schema.sq"`, 1), "codex", 0.9, "location"},
		"a command of lines":   {strings.Replace(good, "chmod 644 db/schema.sql", `ls\nrm -rf x`, 1), "codex", 0.9, "its fix"},
		"a path outside":       {strings.Replace(good, `"path":"db/schema.sql"`, `"path":"../../etc/passwd"`, 1), "codex", 0.9, "leaves the repository"},
		"no such check":        {strings.Replace(good, `"kind":"permission"`, `"kind":"telepathy"`, 1), "codex", 0.9, "its prevention"},
		"confidence of nobody": {strings.Replace(good, `"high"`, `17`, 1), "codex", 0.3, ""},
		"evidence of numbers":  {strings.Replace(good, `"cannot open db/schema.sql: permission denied"`, `12345`, 1), "codex", 0.45, "no quote"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rc := Merge(base, []byte(w.answer), "codex", outputs, c)
			if rc.By != w.by || rc.Confidence < w.sure-1e-9 || rc.Confidence > w.sure+1e-9 {
				t.Errorf("%+v", rc)
			}
			if got := strings.Join(rc.Problems, "; "); (w.problem == "") != (got == "") || !strings.Contains(got, w.problem) {
				t.Errorf("problems: %q", got)
			}
			for _, q := range rc.Evidence {
				if !stands(q, quotable(outputs, c)) {
					t.Errorf("%q is nowhere", q.Text)
				}
			}
			lawful(t, rc)
		})
	}
	surer := base
	surer.Type, surer.Confidence, surer.Description = CauseDependency, 0.95, "left-pad"
	if rc := Merge(surer, []byte(good), "codex", outputs, c); rc.By != ByRules || len(rc.Others) != 1 || !strings.Contains(rc.Others[0], "codex") {
		t.Errorf("%+v", rc)
	}
	surer.Confidence = 0.5
	if rc := Merge(surer, []byte(good), "codex", outputs, c); rc.By != "codex" || !slices.ContainsFunc(rc.Others, func(s string) bool { return strings.Contains(s, "left-pad") }) {
		t.Errorf("%+v", rc)
	}
}

// TestMergeAnything: no answer makes an analysis unlawful, or quotes what is not there.
func TestMergeAnything(t *testing.T) {
	t.Parallel()
	c := Case{Task: work, History: []Entry{entry(RoleOutcome{Outcome: "exit"}, alice)}, RunID: "r"}
	outputs := []Output{{"log", "the first line of it\nthe second line of it"}}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"the first line of it", "second line of it", "nowhere to be seen"})).Draw(rt, "text")
		raw, _ := json.Marshal(map[string]any{"type": rapid.SampledFrom([]string{"code", "config", "x"}).Draw(rt, "type"), "root_cause": rapid.String().Draw(rt, "cause"),
			"evidence": []any{text, rapid.Int().Draw(rt, "n"), map[string]any{"text": text}}, "confidence": rapid.Float64().Draw(rt, "sure"), "location": rapid.String().Draw(rt, "at"),
			"fix": rapid.OneOf(rapid.Just[any](nil), rapid.Just[any]("do it"), rapid.Just[any](map[string]any{"command": text})).Draw(rt, "fix"), "why_chain": []string{text, text}, "prevention": text})
		rc := Merge(Analyse(c, noon), raw, "r", outputs, c)
		if rc.By == "r" {
			if rc.Confidence > maxSaid || len(rc.Evidence) == 0 {
				rt.Fatalf("%+v", rc)
			}
			for _, q := range rc.Evidence {
				if !stands(q, quotable(outputs, c)) {
					rt.Fatalf("%q is nowhere", q.Text)
				}
			}
		}
		lawful(rt, rc)
	})
}

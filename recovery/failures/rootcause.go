package failures

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// finding is what one rule says of a case.
type finding struct {
	rule     string
	typ      CauseType
	says     string
	location string
	evidence []Quote
	why      []string
	fix      Fix
	prevent  *Prevented
	sure     float64
}

// Analyse looks for the cause of a task's failures by rules. The rule that is surest wins; where none applies the type
// is unknown, and the confidence 0. Everything it says is taken from the case: evidence is quoted, never made up.
func Analyse(c Case, now time.Time) RootCause {
	c = c.clean()
	e := c.lastEntry()
	rc := RootCause{Version: 1, Timestamp: now, LoopID: c.Task.Loop, RunID: c.RunID, Iteration: c.Iteration, TaskKey: c.Task.Key(),
		Category: e.Category, ErrorClass: e.Class, By: ByRules, Type: CauseUnknown, Fix: Fix{Kind: FixNone}}
	sum := sha256.Sum256([]byte(rc.TaskKey + "\x00" + e.Signature + "\x00" + now.UTC().Format(time.RFC3339Nano)))
	rc.ID = "rc-" + hex.EncodeToString(sum[:6])
	var found []finding
	for _, rule := range rules() {
		if f, ok := rule.look(c, e); ok {
			f.rule = rule.name
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b finding) int { return cmp.Compare(b.sure, a.sure) })
	symptom := fmt.Sprintf("%s failed %s: %s", c.Task.Role, times(len(c.History)), e.Why)
	if len(found) == 0 {
		rc.Description = "no rule knows the cause of " + string(e.Kind)
		rc.WhyChain = []string{clip(symptom)}
		rc.Evidence = bounded(c.Evidence)
		return rc
	}
	f := found[0]
	rc.Rule, rc.Type, rc.Description, rc.Location, rc.Fix, rc.Prevention = f.rule, f.typ, f.says, f.location, f.fix, f.prevent
	if p := rc.Prevention; p != nil && p.Spec != nil && (Prevention{Kind: p.Kind, Spec: *p.Spec}).Valid() != nil {
		rc.Prevention = nil // of a capture that is no name
	}
	rc.Confidence = f.sure
	rc.Evidence = bounded(append(slices.Clone(f.evidence), c.Evidence...))
	rc.WhyChain = append([]string{clip(symptom)}, f.why...)
	rc.WhyChain = append(rc.WhyChain, f.says)
	rc.WhyChain = slices.Compact(rc.WhyChain)
	if over := len(rc.WhyChain) - maxWhys; over > 0 { // the symptom and the cause stay
		rc.WhyChain = slices.Delete(rc.WhyChain, 1, 1+over)
	}
	for _, o := range found[1:min(len(found), 4)] {
		rc.Others = append(rc.Others, fmt.Sprintf("%s (%.1f): %s", o.typ, o.sure, o.says))
	}
	return rc
}

// bounded drops quotes that say the same, and those that are too many.
func bounded(qs []Quote) []Quote {
	var out []Quote
	for _, q := range qs {
		q.Text = clip(q.Text)
		if len(out) < maxEvidence && !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	return out
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

type rule struct {
	name string
	look func(Case, Entry) (finding, bool)
}

// rules in the order in which they win when two are equally sure.
func rules() []rule {
	return []rule{
		{"disk", diskRule}, {"settings", settingsRule}, {"account", accountRule}, {"clock", clockRule}, {"outage", outageRule},
		{"missing_tool", toolRule}, {"permission", permissionRule}, {"port", portRule}, {"dependency", dependencyRule},
		{"removed_file", fileRule}, {"known_cure", remedyRule}, {"recent_commit", commitRule}, {"changed_tool", changedToolRule}, {"changed_config", changedConfigRule},
		{"refused", refusedRule}, {"everywhere", everywhereRule}, {"code", codeRule}, {"one_runner", runnerRule},
	}
}

func diskRule(c Case, e Entry) (finding, bool) {
	ch, low := c.change(ChangeDisk)
	if !low && e.Category != "disk_full" {
		return finding{}, false
	}
	f := finding{typ: CauseInfrastructure, says: "the disk is full", sure: 0.8,
		fix:     Fix{Kind: FixPerson, Instruction: "free space on the file system of the repository"},
		prevent: &Prevented{Kind: CheckDisk, Spec: &CheckSpec{FreeMB: lowMB}}}
	if low {
		f.evidence, f.sure = []Quote{fromChange(ch)}, 0.7
		f.says = "the disk is nearly full: " + ch.Name + " " + ch.After
		if e.Category == "disk_full" {
			f.sure = 0.95
		}
	}
	return f, true
}

func settingsRule(c Case, e Entry) (finding, bool) {
	if e.Blame != BlameSettings {
		return finding{}, false
	}
	return finding{typ: CauseConfig, sure: 0.9, location: ".superloop/config.json",
		says: fmt.Sprintf("the configuration of runner %s does not work: %s", e.Agent.Runner, e.Why),
		fix:  Fix{Kind: FixPerson, Instruction: "correct runners." + e.Agent.Runner + " (superloop doctor says more)"}}, true
}

func accountRule(c Case, e Entry) (finding, bool) {
	if e.Blame != BlameAccount {
		return finding{}, false
	}
	return finding{typ: CauseInfrastructure, sure: 0.9, says: fmt.Sprintf("%s cannot use its account: %s", e.Agent, e.Why),
		fix:     Fix{Kind: FixPerson, Instruction: "log in with " + e.Agent.Runner + ", or pay for its account"},
		prevent: &Prevented{Kind: CheckAuth, Spec: &CheckSpec{Name: e.Agent.Runner}}}, true
}

func clockRule(c Case, e Entry) (finding, bool) {
	ch, moved := c.change(ChangeClock)
	if !moved {
		return finding{}, false
	}
	f := finding{typ: CauseInfrastructure, sure: 0.4, says: "the clock of this machine " + ch.After, evidence: []Quote{fromChange(ch)},
		fix: Fix{Kind: FixPerson, Instruction: "set the clock, and keep it in step with a time server"}}
	if e.Category == "network_error" || e.Category == "auth" { // certificates and tokens have times
		f.sure = 0.75
	}
	return f, true
}

func outageRule(c Case, e Entry) (finding, bool) {
	down := map[string]bool{}
	for _, x := range c.History {
		if x.Blame == BlameProvider {
			down[x.Agent.provider()] = true
		}
	}
	if e.Blame != BlameProvider {
		return finding{}, false
	}
	f := finding{typ: CauseInfrastructure, sure: 0.8, says: fmt.Sprintf("provider %s is down or limited: %s", e.Agent.provider(), e.Why),
		fix:     Fix{Kind: FixWait, Instruction: "wait, or add a runner of another provider to role.runners"},
		prevent: &Prevented{Kind: CheckLimit, Spec: &CheckSpec{Name: e.Agent.provider()}}}
	if len(down) > 1 {
		f.says, f.sure = fmt.Sprintf("%d providers are down at once: this machine's network may be", len(down)), 0.75
		f.prevent = nil
	}
	return f, true
}

func toolRule(c Case, e Entry) (finding, bool) {
	if e.Category != "command_not_found" && e.Category != "tool_not_found" {
		return finding{}, false
	}
	tool := cmp.Or(c.Captures["tool"], c.Captures["cmd"], c.Captures["command"])
	f := finding{typ: CauseDependency, sure: 0.6, says: "a program is missing", fix: Fix{Kind: FixEnvironment, Command: c.Command}}
	if tool != "" {
		f.says, f.sure = "the program "+tool+" is not installed, or not on PATH", 0.8
		f.prevent = &Prevented{Kind: CheckTool, Spec: &CheckSpec{Name: tool}}
		if ch, ok := c.change(ChangeTool, tool); ok {
			f.evidence, f.sure = []Quote{fromChange(ch)}, 0.9
		}
	}
	return withPerson(f, "install it"), true
}

// withPerson: where no rule knows a command an operator is told.
func withPerson(f finding, what string) finding {
	if f.fix.Kind == FixEnvironment && f.fix.Command == "" {
		f.fix = Fix{Kind: FixPerson, Instruction: what}
		f.sure = min(f.sure, sure-0.05) // nobody knows a remedy: the next agent may find one
	}
	return f
}

func permissionRule(c Case, e Entry) (finding, bool) {
	if e.Category != "permission_denied" {
		return finding{}, false
	}
	f := finding{typ: CauseInfrastructure, sure: 0.7, says: "something may not be read, written or run",
		fix: Fix{Kind: FixPerson, Instruction: "give the user of superloop that permission, or change what the task needs"}}
	if p := c.Captures["path"]; p != "" {
		f.says, f.sure, f.location = p+" may not be used by this user", 0.8, p
		f.prevent = &Prevented{Kind: CheckPermission, Spec: &CheckSpec{Path: p, Want: "write"}}
	}
	return f, true
}

func portRule(c Case, e Entry) (finding, bool) {
	if e.Category != "port_in_use" {
		return finding{}, false
	}
	f := finding{typ: CauseInfrastructure, sure: 0.6, says: "a port that is needed is in use", fix: Fix{Kind: FixEnvironment, Command: c.Command}}
	if n, err := strconv.Atoi(c.Captures["port"]); err == nil {
		f.says, f.sure = fmt.Sprintf("port %d is in use", n), 0.85
		f.prevent = &Prevented{Kind: CheckPort, Spec: &CheckSpec{Port: n, Want: "free"}}
	}
	return withPerson(f, "end the process that listens there, or use another port"), true
}

func dependencyRule(c Case, e Entry) (finding, bool) {
	if e.Category != "dependency" && e.Category != "build_failure" && e.Category != "corrupted" {
		return finding{}, false
	}
	what := cmp.Or(c.Captures["pkg"], c.Captures["module"], c.Captures["name"])
	f := finding{typ: CauseDependency, sure: 0.75, says: "what is installed is not what the project needs", fix: Fix{Kind: FixEnvironment, Command: c.Command},
		prevent: &Prevented{Kind: CheckDeps, Spec: &CheckSpec{}}}
	if what != "" {
		f.says = "the dependency " + what + " is not installed as the project needs it"
	}
	if ch, ok := c.change(ChangeLock); ok {
		f.evidence, f.location, f.sure = []Quote{fromChange(ch)}, ch.Name, 0.9
		f.why = []string{ch.Name + " has changed since the last success", "what is installed was not brought up to it"}
	}
	return withPerson(f, "install the project's dependencies"), true
}

// remedyRule: whatever it is, rules know what mends it here.
func remedyRule(c Case, e Entry) (finding, bool) {
	if e.Blame != BlameEnvironment || c.Command == "" {
		return finding{}, false
	}
	f := finding{typ: CauseInfrastructure, sure: 0.75, says: "the environment is broken: " + strings.ReplaceAll(e.Category, "_", " "),
		fix: Fix{Kind: FixEnvironment, Command: c.Command}}
	if len(c.Evidence) > 0 {
		f.says += " (" + c.Evidence[0].Text + ")"
	}
	return f, true
}

func fileRule(c Case, e Entry) (finding, bool) {
	if e.Category != "file_not_found" {
		return finding{}, false
	}
	p := c.Captures["path"]
	for _, co := range c.Facts.Commits {
		if file, ok := touches(co, p); ok && !c.Facts.Exists[p] {
			return finding{typ: CauseCode, sure: 0.85, location: file, says: fmt.Sprintf("commit %.12s has moved or removed %s, and something still uses it", co.SHA, file),
				evidence: []Quote{fromCommit(co, file)}, fix: Fix{Kind: FixCode, Instruction: "use the file where it is now, or bring " + file + " back"}}, true
		}
	}
	if p == "" {
		return finding{}, false
	}
	return finding{typ: CauseConfig, sure: 0.6, location: p, says: p + " does not exist", fix: Fix{Kind: FixCode, Instruction: "find the right path instead of " + p + ", or create it if it belongs to the task"},
		prevent: &Prevented{Kind: CheckPath, Spec: &CheckSpec{Path: p}}}, true
}

// touches reports whether a commit changed the file that a path names, however it is written.
func touches(co CommitFact, p string) (string, bool) {
	p = path.Clean(strings.ReplaceAll(p, `\`, "/"))
	if p == "." || p == "/" {
		return "", false
	}
	for _, f := range co.Files {
		if f == p || strings.HasSuffix(p, "/"+f) || strings.Contains(p, "/") && strings.HasSuffix(f, "/"+strings.TrimPrefix(p, "./")) {
			return f, true
		}
	}
	return "", false
}

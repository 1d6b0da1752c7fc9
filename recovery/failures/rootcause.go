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

// Analyse looks for the cause of a task's failures by rules. The rule with the highest confidence wins; one that rests
// on a weak classification wins only if no other applies. If no rule applies, the type is unknown and the confidence is
// 0. All evidence is quoted from the case.
func Analyse(c Case, now time.Time) RootCause {
	c = c.clean()
	e := c.lastEntry()
	rc := RootCause{Version: 1, Timestamp: now, LoopID: c.Task.Loop, RunID: c.RunID, Iteration: c.Iteration, TaskKey: c.Task.Key(),
		Category: e.Category, ErrorClass: e.Class, By: ByRules, Type: CauseUnknown, Fix: Fix{Kind: FixNone}}
	sum := sha256.Sum256([]byte(rc.TaskKey + "\x00" + e.Signature + "\x00" + now.UTC().Format(time.RFC3339Nano)))
	rc.ID = "rc-" + hex.EncodeToString(sum[:6])
	var found []RootCause
	for _, r := range rules() {
		if r.categories != "" && !slices.Contains(strings.Fields(r.categories), e.Category) || r.blame != "" && r.blame != e.Blame {
			continue
		}
		seen := e
		if e.Weak && r.categories == "" {
			seen.Category, seen.Class = CategoryUnknown, Unknown // the rule must find its cause without the guess
		}
		if f := r.look(c, seen); f.Confidence > 0 {
			f.Rule, f.Weak = r.name, e.Weak && r.categories != ""
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b RootCause) int {
		return cmp.Or(last(a.Weak, b.Weak), cmp.Compare(b.Confidence, a.Confidence))
	})
	symptom := fmt.Sprintf("%s failed %s: %s", c.Task.Role, times(len(c.History)), e.Why)
	if len(found) == 0 {
		rc.Description, rc.WhyChain = "no rule knows the cause of "+string(e.Kind), []string{clip(symptom)}
		rc.Evidence = bounded(c.Evidence)
		return rc
	}
	f := found[0]
	rc.Rule, rc.Type, rc.Description, rc.Location, rc.Fix, rc.Confidence, rc.Weak = f.Rule, f.Type, f.Description, f.Location, f.Fix, f.Confidence, f.Weak
	if p := f.Prevention; p == nil || p.Spec == nil || (Prevention{Kind: p.Kind, Spec: *p.Spec}).Valid() == nil {
		rc.Prevention = p // an invalid prevention comes from a capture that is not a name
	}
	rc.Evidence = bounded(slices.Concat(f.Evidence, c.Evidence))
	rc.WhyChain = slices.Compact(slices.Concat([]string{clip(symptom)}, f.WhyChain, []string{f.Description}))
	if over := len(rc.WhyChain) - maxWhys; over > 0 { // the symptom and the cause stay
		rc.WhyChain = slices.Delete(rc.WhyChain, 1, 1+over)
	}
	for _, o := range found[1:min(len(found), 4)] {
		rc.Others = append(rc.Others, fmt.Sprintf("%s (%.1f): %s", o.Type, o.Confidence, o.Description))
	}
	return rc
}

// bounded shortens quotes, and drops duplicates and the quotes above maxEvidence.
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

// rule finds one kind of cause in failures of its categories and its blame; "" stands for any. Confidence 0 means that
// the rule found nothing.
type rule struct {
	name, categories string
	blame            Blame
	look             func(Case, Entry) RootCause
}

// rules returns the rules. Of two rules with equal confidence the earlier one wins.
func rules() []rule {
	return []rule{
		{"disk", "", "", diskRule}, {"settings", "", BlameSettings, settingsRule}, {"account", "", BlameAccount, accountRule},
		{"clock", "", "", clockRule}, {"outage", "", BlameProvider, outageRule},
		{"missing_tool", "command_not_found tool_not_found", "", toolRule}, {"permission", "permission_denied", "", permissionRule},
		{"port", "port_in_use", "", portRule}, {"dependency", "dependency build_failure corrupted", "", dependencyRule},
		{"removed_file", "file_not_found", "", fileRule}, {"wrong_path", "", "", wrongPathRule}, {"known_cure", "", BlameEnvironment, remedyRule},
		{"recent_commit", "", "", commitRule}, {"changed_tool", "", "", changedToolRule}, {"changed_config", "", "", changedConfigRule},
		{"refused", "", "", refusedRule}, {"everywhere", "", "", everywhereRule}, {"code", "", "", codeRule},
		{"one_runner", "", BlameRunner, runnerRule},
	}
}

func diskRule(c Case, e Entry) RootCause {
	ch, low := c.change(ChangeDisk)
	if !low && e.Category != "disk_full" {
		return RootCause{}
	}
	f := RootCause{Type: CauseInfrastructure, Description: "the disk is full", Confidence: 0.8,
		Fix:        Fix{Kind: FixPerson, Instruction: "free space on the file system of the repository"},
		Prevention: &Prevented{Kind: CheckDisk, Spec: &CheckSpec{FreeMB: lowMB}}}
	if low {
		f.Evidence, f.Confidence = []Quote{fromChange(ch)}, 0.7
		f.Description = "the disk is nearly full: " + ch.Name + " " + ch.After
		if e.Category == "disk_full" {
			f.Confidence = 0.95
		}
	}
	return f
}

func settingsRule(c Case, e Entry) RootCause {
	return RootCause{Type: CauseConfig, Confidence: 0.9, Location: ".superloop/config.json",
		Description: fmt.Sprintf("the configuration of runner %s does not work: %s", e.Agent.Runner, e.Why),
		Fix:         Fix{Kind: FixPerson, Instruction: "correct runners." + e.Agent.Runner + " (superloop doctor says more)"}}
}

func accountRule(c Case, e Entry) RootCause {
	return RootCause{Type: CauseInfrastructure, Confidence: 0.9, Description: fmt.Sprintf("%s cannot use its account: %s", e.Agent, e.Why),
		Fix:        Fix{Kind: FixPerson, Instruction: "log in with " + e.Agent.Runner + ", or pay for its account"},
		Prevention: &Prevented{Kind: CheckAuth, Spec: &CheckSpec{Name: e.Agent.Runner}}}
}

func clockRule(c Case, e Entry) RootCause {
	ch, moved := c.change(ChangeClock)
	if !moved {
		return RootCause{}
	}
	f := RootCause{Type: CauseInfrastructure, Confidence: 0.4, Description: "the clock of this machine " + ch.After, Evidence: []Quote{fromChange(ch)},
		Fix: Fix{Kind: FixPerson, Instruction: "set the clock, and keep it in step with a time server"}}
	if e.Category == "network_error" || e.Category == "auth" { // certificates and tokens are valid for a limited time
		f.Confidence = 0.75
	}
	return f
}

func outageRule(c Case, e Entry) RootCause {
	f := RootCause{Type: CauseInfrastructure, Confidence: 0.8, Description: fmt.Sprintf("provider %s is down or limited: %s", e.Agent.provider(), e.Why),
		Fix:        Fix{Kind: FixWait, Instruction: "wait, or add a runner of another provider to role.runners"},
		Prevention: &Prevented{Kind: CheckLimit, Spec: &CheckSpec{Name: e.Agent.provider()}}}
	if down := c.providers(func(x Entry) bool { return x.Blame == BlameProvider }); down > 1 {
		f.Description = fmt.Sprintf("%d providers are down at once: this machine's network may be", down)
		f.Confidence, f.Prevention = 0.75, nil
	}
	return f
}

func toolRule(c Case, e Entry) RootCause {
	tool := cmp.Or(c.Captures["tool"], c.Captures["cmd"], c.Captures["command"])
	f := RootCause{Type: CauseDependency, Confidence: 0.6, Description: "a program is missing", Fix: Fix{Kind: FixEnvironment, Command: c.Command}}
	if tool != "" {
		f.Description, f.Confidence = "the program "+tool+" is not installed, or not on PATH", 0.8
		f.Prevention = &Prevented{Kind: CheckTool, Spec: &CheckSpec{Name: tool}}
		if ch, ok := c.change(ChangeTool, tool); ok {
			f.Evidence, f.Confidence = []Quote{fromChange(ch)}, 0.9
		}
	}
	return withPerson(f, "install it")
}

// withPerson replaces a fix without a command by an instruction for an operator.
func withPerson(f RootCause, what string) RootCause {
	if f.Fix.Kind == FixEnvironment && f.Fix.Command == "" {
		f.Fix = Fix{Kind: FixPerson, Instruction: what}
		f.Confidence = min(f.Confidence, Sure-0.05) // no remedy is known, but the next agent may find one
	}
	return f
}

func permissionRule(c Case, e Entry) RootCause {
	f := RootCause{Type: CauseInfrastructure, Confidence: 0.7, Description: "something may not be read, written or run",
		Fix: Fix{Kind: FixPerson, Instruction: "give the user of superloop that permission, or change what the task needs"}}
	if p := c.Captures["path"]; p != "" {
		f.Description, f.Confidence, f.Location = p+" may not be used by this user", 0.8, p
		f.Prevention = &Prevented{Kind: CheckPermission, Spec: &CheckSpec{Path: p, Want: "write"}}
	}
	return f
}

func portRule(c Case, e Entry) RootCause {
	f := RootCause{Type: CauseInfrastructure, Confidence: 0.6, Description: "a port that is needed is in use", Fix: Fix{Kind: FixEnvironment, Command: c.Command}}
	if n, err := strconv.Atoi(c.Captures["port"]); err == nil {
		f.Description, f.Confidence = fmt.Sprintf("port %d is in use", n), 0.85
		f.Prevention = &Prevented{Kind: CheckPort, Spec: &CheckSpec{Port: n, Want: "free"}}
	}
	return withPerson(f, "end the process that listens there, or use another port")
}

func dependencyRule(c Case, e Entry) RootCause {
	what := cmp.Or(c.Captures["pkg"], c.Captures["module"], c.Captures["name"])
	f := RootCause{Type: CauseDependency, Confidence: 0.75, Description: "what is installed is not what the project needs", Fix: Fix{Kind: FixEnvironment, Command: c.Command},
		Prevention: &Prevented{Kind: CheckDeps, Spec: &CheckSpec{}}}
	if what != "" {
		f.Description = "the dependency " + what + " is not installed as the project needs it"
	}
	if ch, ok := c.change(ChangeLock); ok {
		f.Evidence, f.Location, f.Confidence = []Quote{fromChange(ch)}, ch.Name, 0.9
		f.WhyChain = []string{ch.Name + " has changed since the last success", "what is installed was not brought up to it"}
	}
	return withPerson(f, "install the project's dependencies")
}

// remedyRule applies when rules know a remedy for the failure, whatever its category.
func remedyRule(c Case, e Entry) RootCause {
	if c.Command == "" {
		return RootCause{}
	}
	f := RootCause{Type: CauseInfrastructure, Confidence: 0.75, Description: "the environment is broken: " + strings.ReplaceAll(e.Category, "_", " "),
		Fix: Fix{Kind: FixEnvironment, Command: c.Command}}
	if len(c.Evidence) > 0 {
		f.Description += " (" + c.Evidence[0].Text + ")"
	}
	return f
}

func fileRule(c Case, e Entry) RootCause {
	p := c.Captures["path"]
	for _, co := range c.Facts.Commits {
		if file, ok := touches(co, p); ok && !c.Facts.Exists[p] {
			return RootCause{Type: CauseCode, Confidence: 0.85, Location: file, Description: fmt.Sprintf("commit %.12s has moved or removed %s, and something still uses it", co.SHA, file),
				Evidence: []Quote{fromCommit(co, file)}, Fix: Fix{Kind: FixCode, Instruction: "use the file where it is now, or bring " + file + " back"}}
		}
	}
	if p == "" {
		return RootCause{}
	}
	return RootCause{Type: CauseConfig, Confidence: 0.6, Location: p, Description: p + " does not exist", Fix: Fix{Kind: FixCode, Instruction: "find the right path instead of " + p + ", or create it if it belongs to the task"},
		Prevention: &Prevented{Kind: CheckPath, Spec: &CheckSpec{Path: p}}}
}

// touches reports whether a commit changed the file that a path names, in any spelling of the path. It returns the name
// of the file.
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

// commitRule applies when the evidence names a file that a commit has changed since the last success.
func commitRule(c Case, e Entry) RootCause {
	if e.Blame == BlameProvider || e.Blame == BlameAccount || e.Blame == BlameSettings {
		return RootCause{}
	}
	for _, q := range c.Evidence {
		if q.File == "" {
			continue
		}
		for _, co := range c.Facts.Commits {
			file, ok := touches(co, q.File)
			if !ok {
				continue
			}
			f := RootCause{Type: CauseCode, Confidence: 0.65, Location: at(file, q.Line), Evidence: []Quote{q, fromCommit(co, file)},
				Description: fmt.Sprintf("%s breaks since commit %.12s changed it", file, co.SHA),
				WhyChain:    []string{clip(q.Text)},
				Fix:         Fix{Kind: FixCode, Instruction: fmt.Sprintf("look at what commit %.12s changed in %s and correct it: %s", co.SHA, at(file, q.Line), clip(q.Text))}}
			if e.Class == Code {
				f.Confidence = 0.85
			}
			if c.same() > 1 {
				f.Confidence += 0.05
			}
			return f
		}
	}
	return RootCause{}
}

// codeRule applies when the class of the failure is Code. It names the place that the output names, if there is one.
func codeRule(c Case, e Entry) RootCause {
	if e.Class != Code {
		return RootCause{}
	}
	for _, q := range c.Evidence {
		if q.File != "" {
			f := RootCause{Type: CauseCode, Confidence: 0.6, Location: at(q.File, q.Line), Evidence: []Quote{q}, Description: q.File + " is wrong: " + clip(q.Text),
				Fix: Fix{Kind: FixCode, Instruction: fmt.Sprintf("correct %s: %s", at(q.File, q.Line), clip(q.Text))}}
			if c.same() > 1 {
				f.Confidence = 0.75
			}
			return f
		}
	}
	return RootCause{Type: CauseCode, Confidence: 0.4, Description: "the code is wrong; the output names no place",
		Fix: Fix{Kind: FixCode, Instruction: "find the cause of: " + e.Why}}
}

func at(file string, line int) string {
	if line <= 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

func changedToolRule(c Case, e Entry) RootCause {
	ch, ok := c.change(ChangeTool)
	if !ok || e.Blame == BlameProvider {
		return RootCause{}
	}
	f := RootCause{Type: CauseDependency, Confidence: 0.5, Description: fmt.Sprintf("%s has another version since the last success", ch.Name), Evidence: []Quote{fromChange(ch)},
		Fix: Fix{Kind: FixConfig, Instruction: fmt.Sprintf("go back to %s %s, or make the project work with %s", ch.Name, ch.Before, ch.After)}}
	for _, q := range c.Evidence {
		if strings.Contains(strings.ToLower(q.Text), strings.ToLower(ch.Name)) {
			f.Confidence, f.Evidence = 0.7, append(f.Evidence, q)
			break
		}
	}
	return f
}

func changedConfigRule(c Case, e Entry) RootCause {
	ch, ok := c.change(ChangeConfig)
	if !ok || e.Blame == BlameProvider || e.Blame == BlameAccount {
		return RootCause{}
	}
	f := RootCause{Type: CauseConfig, Confidence: 0.45, Location: ch.Name, Description: ch.Name + " has changed since the last success", Evidence: []Quote{fromChange(ch)},
		Fix: Fix{Kind: FixConfig, Instruction: "look at what changed in " + ch.Name}}
	if e.Category == "config" || e.Category == "environment" {
		f.Confidence = 0.75
	}
	return f
}

func refusedRule(c Case, e Entry) RootCause {
	if e.Kind != KindRefused {
		return RootCause{}
	}
	f := RootCause{Type: CauseConfig, Confidence: 0.5, Description: fmt.Sprintf("%s refuses the work as it is worded", e.Agent),
		Fix: Fix{Kind: FixConfig, Instruction: "word the task in another way"}}
	if refused := c.providers(func(x Entry) bool { return x.Kind == KindRefused }); refused > 1 {
		f.Confidence, f.Description = 0.85, fmt.Sprintf("%d providers refuse the work", refused)
		f.Fix.Kind = FixPerson
	}
	return f
}

// everywhereRule applies when other loops have the same failure, so that this task is not the cause.

// runnerRule applies when one agent alone has failed, and each time in another way.
func runnerRule(c Case, e Entry) RootCause {
	other := slices.ContainsFunc(c.History, func(x Entry) bool { return x.Agent != e.Agent })
	if other || len(c.History) < 2 || e.Class == Code || c.same() == len(c.History) {
		return RootCause{}
	}
	return RootCause{Type: CauseInfrastructure, Confidence: 0.4, Description: fmt.Sprintf("%s fails of something else each time: it is not reliable for this task", e.Agent),
		Fix: Fix{Kind: FixConfig, Instruction: "give the role a second runner (role.runners)"}}
}

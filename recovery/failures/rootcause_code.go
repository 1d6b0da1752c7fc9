package failures

import (
	"fmt"
	"slices"
	"strings"
)

// commitRule: what failed stands in a file that was changed since the last success.
func commitRule(c Case, e Entry) (finding, bool) {
	if e.Blame == BlameProvider || e.Blame == BlameAccount || e.Blame == BlameSettings {
		return finding{}, false
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
			f := finding{typ: CauseCode, sure: 0.65, location: at(file, q.Line), evidence: []Quote{q, fromCommit(co, file)},
				says: fmt.Sprintf("%s breaks since commit %.12s changed it", file, co.SHA),
				why:  []string{clip(q.Text)},
				fix:  Fix{Kind: FixCode, Instruction: fmt.Sprintf("look at what commit %.12s changed in %s and correct it: %s", co.SHA, at(file, q.Line), clip(q.Text))}}
			if e.Class == Code {
				f.sure = 0.85
			}
			if c.same() > 1 {
				f.sure += 0.05
			}
			return f, true
		}
	}
	return finding{}, false
}

// codeRule: the output names a place in the code, and nothing else is known of it.
func codeRule(c Case, e Entry) (finding, bool) {
	if e.Class != Code {
		return finding{}, false
	}
	for _, q := range c.Evidence {
		if q.File != "" {
			f := finding{typ: CauseCode, sure: 0.6, location: at(q.File, q.Line), evidence: []Quote{q}, says: q.File + " is wrong: " + clip(q.Text),
				fix: Fix{Kind: FixCode, Instruction: fmt.Sprintf("correct %s: %s", at(q.File, q.Line), clip(q.Text))}}
			if c.same() > 1 {
				f.sure = 0.75
			}
			return f, true
		}
	}
	return finding{typ: CauseCode, sure: 0.4, says: "the code is wrong; the output names no place",
		fix: Fix{Kind: FixCode, Instruction: "find the cause of: " + e.Why}}, true
}

func at(file string, line int) string {
	if line <= 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

func changedToolRule(c Case, e Entry) (finding, bool) {
	ch, ok := c.change(ChangeTool)
	if !ok || e.Blame == BlameProvider {
		return finding{}, false
	}
	f := finding{typ: CauseDependency, sure: 0.5, says: fmt.Sprintf("%s has another version since the last success", ch.Name), evidence: []Quote{fromChange(ch)},
		fix: Fix{Kind: FixConfig, Instruction: fmt.Sprintf("go back to %s %s, or make the project work with %s", ch.Name, ch.Before, ch.After)}}
	for _, q := range c.Evidence {
		if strings.Contains(strings.ToLower(q.Text), strings.ToLower(ch.Name)) {
			f.sure, f.evidence = 0.7, append(f.evidence, q)
			break
		}
	}
	return f, true
}

func changedConfigRule(c Case, e Entry) (finding, bool) {
	ch, ok := c.change(ChangeConfig)
	if !ok || e.Blame == BlameProvider || e.Blame == BlameAccount {
		return finding{}, false
	}
	f := finding{typ: CauseConfig, sure: 0.45, location: ch.Name, says: ch.Name + " has changed since the last success", evidence: []Quote{fromChange(ch)},
		fix: Fix{Kind: FixConfig, Instruction: "look at what changed in " + ch.Name}}
	if e.Category == "config" || e.Category == "environment" {
		f.sure = 0.75
	}
	return f, true
}

func refusedRule(c Case, e Entry) (finding, bool) {
	if e.Kind != KindRefused {
		return finding{}, false
	}
	refused := map[string]bool{}
	for _, x := range c.History {
		if x.Kind == KindRefused {
			refused[x.Agent.provider()] = true
		}
	}
	f := finding{typ: CauseConfig, sure: 0.5, says: fmt.Sprintf("%s refuses the work as it is worded", e.Agent),
		fix: Fix{Kind: FixConfig, Instruction: "word the task in another way"}}
	if len(refused) > 1 {
		f.sure, f.says = 0.85, fmt.Sprintf("%d providers refuse the work", len(refused))
		f.fix.Kind = FixPerson
	}
	return f, true
}

// everywhereRule: other loops have the same failure, so it is not this task's.
func everywhereRule(c Case, e Entry) (finding, bool) {
	if e.Signature == "" {
		return finding{}, false
	}
	var loops []string
	same := false
	for _, o := range c.Facts.Others {
		if o.Signature == e.Signature || o.Category == e.Category && e.Category != "unknown" && e.Category != "code_bug" {
			same = same || o.Signature == e.Signature
			if !slices.Contains(loops, o.Loop) {
				loops = append(loops, o.Loop)
			}
		}
	}
	if len(loops) == 0 {
		return finding{}, false
	}
	slices.Sort(loops)
	f := finding{typ: CauseInfrastructure, sure: 0.5, says: fmt.Sprintf("loops %s fail of the same: it is what they share, not this task", strings.Join(loops, ", ")),
		evidence: []Quote{{Source: "other loops", Text: fmt.Sprintf("%s in %s", e.Category, strings.Join(loops, ", "))}},
		fix:      Fix{Kind: FixPerson, Instruction: "look at what these loops share: the machine, the network, the repository"}}
	if same && len(loops) > 1 {
		f.sure = 0.65
	}
	return f, true
}

// runnerRule: one agent alone has failed, and of different things.
func runnerRule(c Case, e Entry) (finding, bool) {
	other := slices.ContainsFunc(c.History, func(x Entry) bool { return x.Agent != e.Agent })
	if other || len(c.History) < 2 || e.Blame != BlameRunner || e.Class == Code || c.same() == len(c.History) {
		return finding{}, false
	}
	return finding{typ: CauseInfrastructure, sure: 0.4, says: fmt.Sprintf("%s fails of something else each time: it is not reliable for this task", e.Agent),
		fix: Fix{Kind: FixConfig, Instruction: "give the role a second runner (role.runners)"}}, true
}

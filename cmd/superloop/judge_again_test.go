package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery"
)

// decides are the rules by which Decide alone gives a verdict. Others follow from the history of the run, too.
var decides = []string{recovery.RuleAutoApprove, recovery.RuleHuman, recovery.RuleConflict, recovery.RuleState, recovery.RuleUnknown, recovery.RuleSandbox, recovery.RuleGuard, recovery.RuleLoose,
	recovery.RulePrivileged, recovery.RuleConfidence, recovery.RuleOpaque}

// judgeAgain reads every journal below a directory, and gives each verdict in it again: by the policy that is kept beside
// the journal, the command and the facts of the event.
func judgeAgain(t testscript.T, dir string) {
	journals, _ := filepath.Glob(filepath.Join(dir, "*", ".superloop", "loops", "*", "events.jsonl"))
	for _, path := range journals {
		_ = journal.Read(path, 0, func(line journal.Event) error {
			var ev loop.Proposed
			if line.Event != "recovery_proposed" && line.Event != "recovery_executing" || json.Unmarshal(line.Fields, &ev) != nil || ev.PolicyDigest == "" {
				return nil
			}
			kept, err := os.ReadFile(filepath.Join(filepath.Dir(path), "policies", ev.PolicyDigest+".json"))
			if err != nil {
				t.Fatal("a policy that has judged is not kept: ", err)
			}
			p, err := recovery.Kept(ev.PolicyDigest, kept)
			if err != nil {
				t.Fatal(err)
			}
			v := recovery.Decide(p, recovery.Command{Text: ev.Command, WorkingDir: ev.WorkingDir, Confidence: ev.Confidence, DirProblem: ev.Facts.DirProblem}, p.FactsFor(ev.Facts))
			if line.Event == "recovery_proposed" && slices.Contains(decides, ev.Rule) && (string(v.Decision) != ev.Verdict || v.Rule != ev.Rule || v.Reason != ev.Reason) {
				t.Fatal("judged again, ", ev.Command, " is ", v.Decision, " by ", v.Rule, ": ", v.Reason, "\nthe journal has ", string(line.Fields))
			}
			return nil
		}) // a script may have damaged the journal
	}
}

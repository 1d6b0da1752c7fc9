package execute

import (
	"errors"
	"testing"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/sandbox"
)

// again judges as somebody does who has only what the journal keeps: the policy as it was kept, the command and the facts.
func again(t *testing.T, p *recovery.Policy, command string, j Judgement) recovery.Verdict {
	t.Helper()
	kept, err := recovery.Kept(p.Digest, p.JSON())
	if err != nil {
		t.Fatal(err)
	}
	cmd := recovery.Command{Text: command, WorkingDir: ".", Confidence: "high", DirProblem: j.Facts.DirProblem}
	return recovery.Decide(kept, cmd, kept.FactsFor(j.Facts))
}

// What a judgement keeps is enough to judge again, by its own policy and by every other one that guards its inputs.
func TestFactsAreEnoughToJudgeAgain(t *testing.T) {
	t.Parallel()
	strict := func(s *recovery.Settings) { requires(s); s.OnUnknown = recovery.UnknownDeny }
	policies := []*recovery.Policy{policy(t, nil, "./fix.sh"), policy(t, requires, "./fix.sh"), policy(t, allows, "./other.sh"), policy(t, strict)}
	for _, level := range []sandbox.Level{sandbox.None, sandbox.LandlockMount} {
		for _, loose := range []bool{false, true} {
			for _, script := range []string{"true", "evil"} {
				var all []Judgement
				for _, p := range policies {
					e := newEnv(t, p)
					e.put("fix.sh", "#!/bin/sh\ntrue\n")
					e.pin(true)
					e.put("fix.sh", "#!/bin/sh\n"+script+"\n")
					e.box.Level, e.AcceptLoose = level, loose
					all = append(all, e.judge(command("./fix.sh"), recovery.Budget{}))
				}
				for i, j := range all {
					for k, p := range policies {
						v, want := again(t, p, "./fix.sh", j), all[k].Verdict
						if v.Decision != want.Decision || v.Rule != want.Rule || v.Part != want.Part || v.PolicyDigest != want.PolicyDigest {
							t.Errorf("%v, loose %v, %s: with the facts of policy %d, policy %d says %s by %s (%s), and said %s by %s (%s)",
								level, loose, script, i, k, v.Decision, v.Rule, v.Reason, want.Decision, want.Rule, want.Reason)
						}
					}
				}
			}
		}
	}
}

// A fact that nobody could find out is kept as not known.
func TestFactsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	e := newEnv(t, policy(t, func(s *recovery.Settings) { s.Guard = recovery.GuardOff }, "touch a"))
	e.boxErr = errors.New("no luck")
	j := e.judge(command("touch a"), recovery.Budget{})
	if f := j.Facts; f.Confined != nil || f.Loose != nil || f.Changed != nil || f.DirProblem != "" {
		t.Errorf("%+v", f)
	}
	a := command("touch a")
	a.WorkingDir = "../out"
	e.boxErr = nil
	if f := e.judge(a, recovery.Budget{}).Facts; f.Confined == nil || !*f.Confined || f.Loose == nil || f.DirProblem == "" {
		t.Errorf("%+v", f)
	}
}

package main

import (
	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

// judgeEdit says what the policy makes of a person's own command: a person may run what it would not let run by itself.
// What could not run at all (too long, not UTF-8, no command) is refused before it counts as the answer.
func (a *app) judgeEdit(c *cli.Context, rec escalation.Record, text string) (recovery.Verdict, error) {
	policy, _ := recovery.Compile(recovery.Settings{}) // nothing in it can be wrong
	if repo, err := a.repo(c); err == nil {
		// A configuration that cannot be read now is the supervisor's to report.
		if cfg, err := a.config(repo); err == nil {
			if p, problems := cfg.Policy(rec.Question.Loop); p != nil && len(problems) == 0 {
				policy = p
			}
		}
	}
	v := recovery.Decide(policy, recovery.Command{Text: text}, recovery.Facts{})
	if v.Decision == action.Invalid {
		return v, failf(exitFailed, "superloop status --loop "+rec.Question.Loop, "--edit: %s; the question is still open", v.Reason)
	}
	return v, nil
}

package main

import (
	"fmt"
	"strings"

	"github.com/superloop/superloop/cmd/superloop/internal/demo"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery/cage"
)

// played is what the journal tells of a demo.
type played struct {
	roles, red, recoveries int
	level                  string         // what confined the command
	auto                   bool           // --auto-answer gave the answer
	answered               *loop.Resolved // the answer, nil when nobody was asked
}

func (p *played) add(ev journal.Event) error {
	fact, err := loop.DecodeFact(ev.Event, ev.Fields)
	if err != nil {
		return err
	}
	switch f := fact.(type) {
	case loop.RoleEnded:
		p.roles++
	case loop.TestsEnded:
		if f.Status == "failed" {
			p.red++
		}
	case loop.Executed:
		p.recoveries++
		if f.Sandbox != nil {
			p.level = f.Sandbox.Level
		}
	case loop.Resolved:
		p.answered = &f
	}
	return nil
}

// tellDemo says what happened, from the journal, where to look, and what to
// type next.
func (a *app) tellDemo(dir string, s loop.State, auto bool) error {
	p := played{auto: auto}
	if err := journal.Read(loopFile(dir, demo.LoopID, "events.jsonl"), 0, p.add); err != nil {
		return err
	}
	recoveries, question, inbox := fmt.Sprintf("%d recoveries", p.recoveries), "", ""
	if p.recoveries == 1 {
		recoveries = "1 recovery"
	}
	if p.answered != nil { // only then there was a question
		question = "    escalation.json    the question, and its answer\n"
		inbox = "  superloop inbox       whatever waits for you on this machine\n"
	}
	fmt.Fprintf(a.stdout, `
The loop completed in %s: %s, the check was red %d time(s), %s, %s of work.
What happened:
  1. Somebody had taken an update back, and nobody had installed again. The implementer's code was right.
  2. superloop ran the check itself. It was red: %s
     An agent that may not touch deps/ would have met that again in every iteration.
  3. The tester found the cause. It changed nothing: it wrote down which command would cure it, in recovery.json.
%s  5. The check was green, the reviewer gave the promise, the evidence was there: completed, and committed. Red, the
     promise would have counted for nothing.

Where to look:
  %s/.superloop/loops/%s/
    events.jsonl       everything that happened, one JSON object a line
    proposals/         what was proposed, and what was decided about it
%s    test-output.txt    what the check printed
    logs/iter-1/       what each role was asked and what it said, and what the command printed
    run-summary.json   each iteration and its gates

What to type next:
  superloop events --repo %s --event 'recovery_*'
  superloop policy check --repo %s --command '%s'
  superloop stats --repo %s
  superloop undo --repo %s --list
%s  superloop init        in your own repository, with your own agents
`, count(s.Iteration, "iteration"), count(p.roles, "role run"), p.red, recoveries, render.Duration(msec(s.ActiveMS)),
		demo.Failure, p.cured(), dir, demo.LoopID, question, text.Paste(dir), text.Paste(dir), demo.Cure, text.Paste(dir), text.Paste(dir), inbox)
	return nil
}

// cured is the text of the step in which the failure went away.
func (p *played) cured() string {
	held := "confined by " + render.Clean(p.level)
	if p.level == "" || p.level == string(cage.None) {
		held = "with nothing that confines it on this machine (see superloop doctor)"
	}
	if p.answered == nil {
		return fmt.Sprintf("  4. superloop found that command in auto_approve of config.json, byte for byte, kept what it would delete, ran it\n"+
			"     %s, and ran the check again at once.\n", held)
	}
	by := render.Clean(p.answered.By)
	asked := "  4. config.json does not list that command, so superloop asked and waited, and cost nothing."
	switch {
	case p.recoveries == 0:
		return fmt.Sprintf("%s\n     %s mended it, and superloop ran the check again at once.\n", asked, by)
	case p.auto && strings.HasPrefix(by, "cli:"+demoAnswerer):
		by = "--auto-answer approved it here, as " + by + ", where else a person does"
	case p.answered.Edit != nil:
		by += " put a command of their own in its place"
	default:
		by += " approved it"
	}
	return fmt.Sprintf("%s\n     %s. superloop kept what it would delete, ran it once,\n     %s, and ran the check again at once.\n", asked, by, held)
}

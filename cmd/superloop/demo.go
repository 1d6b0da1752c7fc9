package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/demo"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/script"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/recovery/sandbox"
)

func (a *app) demo(c *cli.Context) error {
	for _, flag := range []string{"exit-on-escalation", "auto-answer"} {
		if c.Bool(flag) && !c.Bool("escalate") {
			return failf(exitUsage, "superloop demo --escalate --"+flag, "--%s needs --escalate: nothing else asks an operator", flag)
		}
	}
	if c.Bool("exit-on-escalation") && c.Bool("auto-answer") {
		return failf(exitUsage, "superloop demo --escalate --auto-answer", "--exit-on-escalation and --auto-answer exclude each other: leave, or answer?")
	}
	dir := c.String("dir")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("superloop-demo-%08x", rand.Uint32()))
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return failf(exitUsage, "superloop demo --dir "+text.Paste(dir+"-2"), "%s exists already", dir)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, `A scratch repository: %s
Its spec asks for a greeting; a scripted agent plays planner, implementer, tester and reviewer.
Its build is broken by what is installed. No agent is allowed to mend that.

`, dir)
	if err := demo.Make(c.Context, a.disk, demo.Options{Dir: dir, Exe: exe, Escalate: c.Bool("escalate")}); err != nil {
		return err
	}
	a.repoFlag = dir // the commands that are hinted at name it: the operator is elsewhere
	cfg, err := a.config(dir, "")
	if err != nil {
		return err
	}
	progress, err := a.progress(c)
	if err != nil {
		return err
	}
	o := a.options(c, dir, cfg, demo.LoopID)
	o.Observer = progress
	if !o.ExitOnEscalation {
		desk := &demoDesk{app: a, ctx: c.Context, Progress: progress, talk: progress.Talk, dir: dir, exe: exe, auto: c.Bool("auto-answer")}
		if c.Bool("json") {
			desk.talk = func(text string) { fmt.Fprint(a.stderr, text) }
		}
		defer desk.running.Wait()
		o.Observer = desk
	}
	s, err := local.Run(c.Context, o)
	progress.Close()
	switch {
	case err != nil:
		return err
	case s.Status != loop.Completed:
		return a.verdict(c, s, dir)
	case c.Bool("json"):
		return nil
	}
	return a.tellDemo(dir, exe, s, c.Bool("auto-answer"))
}

// playAgent is the scripted agent: `superloop __agent SCENARIO` plays a scenario file as the child process of a role.
// See docs/scenarios.md.
func (a *app) playAgent(c *cli.Context) error {
	if code := script.Main(c.Args().Slice()); code != 0 {
		return silent(code)
	}
	return nil
}

// demoAnswerer is the name under which --auto-answer answers. No operator has this name.
const demoAnswerer = "demo"

// demoDesk observes the loop of the demo. When the loop asks a question, demoDesk prints the commands with which the
// operator can answer, or answers the question itself (--auto-answer).
type demoDesk struct {
	render.Progress
	app      *app
	ctx      context.Context // of the demo; the goroutine that answers ends with it
	talk     func(text string)
	dir, exe string
	auto     bool
	running  sync.WaitGroup
}

// Event implements local.Observer.
func (d *demoDesk) Event(ev journal.Event, s loop.State) {
	d.Progress.Event(ev, s)
	switch {
	case ev.Event != "recovery_escalated":
	case !d.auto:
		d.talk(d.typed())
	default:
		d.running.Go(func() {
			if err := d.answer(ev.Fields); err != nil && d.ctx.Err() == nil {
				d.talk("\nThe demo could not answer: " + render.Clean(err.Error()) + "\n" + d.typed())
			}
		})
	}
}

// answer prints the question that the event is about and approves it. It writes the same record in the same way as the
// process of an operator.
func (d *demoDesk) answer(event json.RawMessage) error {
	var asked struct {
		ID string `json:"escalation_id"`
	}
	if err := text.Decode(event, &asked); err != nil {
		return err
	}
	paths, err := d.app.paths(d.dir, demo.LoopID)
	if err != nil {
		return err
	}
	store := d.app.questions(place{paths, demo.LoopID})
	// The loop records the id in the journal before it writes the question, so the question may not exist yet.
	rec, err := awaitQuestion(d.ctx, store, func(rec escalation.Record) bool { return rec.Question.ID == asked.ID })
	if err != nil {
		return err
	}
	if rec.Question.Command == nil || string(rec.Question.Command.Text) != demo.Remedy {
		return errors.New("this is not the question that the demo is about; an operator has to answer it")
	}
	d.talk(fmt.Sprintf("\n%s\n--auto-answer: no operator answers this. The demo approves it under the name %q, as an operator would with\n  %s\n\n",
		escalation.Describe(rec, 0), demoAnswerer, rec.Actions().Approve))
	_, err = store.Answer(d.ctx, escalation.AnswerRequest{Method: escalation.Approve, ID: asked.ID, Digest: rec.Digest, Note: "demo --auto-answer",
		By: byProcess(demoAnswerer)})
	return err
}

// self returns how an operator types this program: by its full path if PATH does not find it, or by go run. The program has that path
// at least until the demo ends.
func (a *app) self(exe string) string {
	if _, err := lookPath(a.env)("superloop"); err == nil {
		return "superloop"
	}
	if strings.Contains(exe, string(filepath.Separator)+"go-build") { // go run removes it at its end
		return "go run ./cmd/superloop"
	}
	return text.Paste(exe)
}

// typed returns the text that says how to answer the demo's question from another terminal.
func (d *demoDesk) typed() string {
	self := d.app.self(d.exe)
	dir := text.Paste(d.dir)
	flags := fmt.Sprintf("--repo %s --loop %s", dir, demo.LoopID)
	return fmt.Sprintf(`
The loop waits for you, and costs nothing while it does. Type one of these in a second terminal:

  %[1]s approve-recovery %[2]s
      shows what would run and why you are asked, asks once more, and lets it run, once

  %[1]s reject-recovery %[2]s --note 'not now'
      goes on without it; nothing else mends this repository, so the loop will get stuck

  cd %[3]s && %[4]s
  %[1]s resolve-recovery %[2]s --note 'installed again'
      you mend it yourself, and say so

Ctrl-C leaves and keeps the question; %[1]s run --repo %[3]s goes on.

`, self, flags, dir, demo.Remedy)
}

// played holds the figures that tellDemo takes from the journal of a demo.
type played struct {
	roles, red, recoveries int
	level                  string         // the sandbox level at which the command ran
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

// tellDemo prints what happened in the demo according to its journal, where to look, and which commands to type next.
func (a *app) tellDemo(dir, exe string, s loop.State, auto bool) error {
	p := played{auto: auto}
	if err := journal.Read(loopFile(dir, demo.LoopID, "events.jsonl"), 0, p.add); err != nil {
		return err
	}
	self, there := a.self(exe), text.Paste(dir)
	recoveries, question, inbox := fmt.Sprintf("%d recoveries", p.recoveries), "", ""
	if p.recoveries == 1 {
		recoveries = "1 recovery"
	}
	if p.answered != nil { // without an answer there was no question
		question = "    escalation.json    the question, and its answer\n"
		inbox = "  " + self + " inbox\n"
	}
	fmt.Fprintf(a.stdout, `
The loop completed in %[1]s: %[2]s, the check was red %[3]d time(s), %[4]s, %[5]s of work.
What happened:
  1. Somebody had taken an update back, and nobody had installed again. The implementer's code was right.
  2. superloop ran the check itself. It was red: %[6]s
     An agent that may not touch deps/ would have met that again in every iteration.
  3. The tester found the cause. It changed nothing: it wrote down which command would fix it, in recovery.json.
%[7]s  5. The check was green, the reviewer gave the promise, the evidence was there: completed, and committed. Red, the
     promise would have counted for nothing.

Where to look:
  %[8]s/.superloop/loops/%[9]s
    events.jsonl       everything that happened, one JSON object a line
    proposals/         what was proposed, and what was decided about it
%[14]s    test-output.txt    what the check printed
    logs/iter-1/       what each role was asked and what it said, and what the command printed
    run-summary.json   each iteration and its gates

What to type next:
  %[10]s events --repo %[11]s --event 'recovery_*'
  %[10]s policy check --repo %[11]s --command '%[12]s'
  %[10]s stats --repo %[11]s
  %[10]s undo --repo %[11]s --list
%[13]s
And in a repository of your own, with your own agents:
  %[10]s init
`, render.Number(s.Iteration, "iteration"), render.Number(p.roles, "role run"), p.red, recoveries, render.Duration(msec(s.ActiveMS)),
		demo.Failure, p.remedied(), dir, demo.LoopID+"/", self, there, demo.Remedy, inbox, question)
	return nil
}

// remedied returns step 4 of the text: how the failure was repaired.
func (p *played) remedied() string {
	held := "confined by " + render.Clean(p.level)
	if p.level == "" || p.level == string(sandbox.None) {
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
		by = "--auto-answer approved it here, as " + by + ", where else an operator does"
	case p.answered.Edit != nil:
		by += " put a command of their own in its place"
	default:
		by += " approved it"
	}
	return fmt.Sprintf("%s\n     %s. superloop kept what it would delete, ran it once,\n     %s, and ran the check again at once.\n", asked, by, held)
}

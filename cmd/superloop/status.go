package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/cmd/superloop/internal/screen"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/registry"
)

// standing is the state of one loop, as status --json prints it.
type standing struct {
	loop.View
	Supervisor *local.Holder `json:"supervisor"` // null: no supervisor runs the loop
	Next       string        `json:"next"`
	Question   *openQuestion `json:"question,omitempty"` // what the loop waits for, from the question's record
	// SubStatus is escalation.AwaitingPermission, or "". Hold is what the agent of a running loop is held for, or nil.
	SubStatus string           `json:"sub_status,omitempty"`
	Hold      *escalation.Hold `json:"hold,omitempty"`
}

type openQuestion struct {
	ID      string    `json:"id"`
	Digest  string    `json:"digest"`
	State   string    `json:"state"`
	Expires time.Time `json:"expires_at"`
	By      string    `json:"by,omitempty"` // who has answered
}

// questionOf reads the question that the loop waits for. It returns nil if there is none, or if the record is about
// another question.
func (a *app) questionOf(p place, v loop.View) *openQuestion {
	if v.Human == nil {
		return nil
	}
	rec, err := a.questions(p).Load()
	if err != nil || rec.Question.ID != v.Human.Question {
		return nil
	}
	return shownQuestion(rec)
}

func shownQuestion(rec escalation.Record) *openQuestion {
	q := openQuestion{ID: rec.Question.ID, Digest: rec.Digest, State: string(rec.State), Expires: rec.Question.Expires}
	if rec.Answer != nil {
		q.By = rec.Answer.By.String()
	}
	return &q
}

func (a *app) status(c *cli.Context) error {
	_, loops, err := a.chosenLoops(c, false)
	if err != nil {
		return err
	}
	form, err := a.form(c, a.stdout)
	if err != nil {
		return err
	}
	if c.Bool("watch") {
		return a.watchStatus(c, loops, form)
	}
	all, err := a.standings(loops)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if c.IsSet("loop") || len(all) == 1 {
			return render.JSON(a.stdout, all[0])
		}
		return render.JSON(a.stdout, map[string]any{"loops": all})
	}
	for _, s := range all {
		summary(s, time.Now()).Print(a.stdout, form)
	}
	return nil
}

func (a *app) standings(loops []place) ([]standing, error) {
	var all []standing
	for _, p := range loops {
		view, err := local.ReadView(p.Paths)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			view = loop.View{Version: loop.StateVersion, LoopID: p.id, Status: loop.Pending}
		case err != nil:
			return nil, failf(exitFailed, "superloop events --verify --loop "+p.id, "reading %s: %w; the journal holds the truth, the next run writes it anew", p.File("state.json"), err)
		}
		s := standing{View: view, Question: a.questionOf(p, view)}
		s.Supervisor, _ = local.Supervisor(p.Paths)
		if rec, err := a.questions(p).Load(); err == nil && s.Supervisor != nil && view.Status == loop.Running && rec.Question.Run == view.RunID {
			if s.Hold = rec.Hold(time.Now()); s.Hold != nil {
				s.SubStatus = escalation.AwaitingPermission
				s.Question = shownQuestion(rec)
			}
		}
		s.Next = a.next(p, view, s.Question, s.Supervisor != nil)
		all = append(all, s)
	}
	return all, nil
}

// decided returns the kick or the cancellation that waits for a supervisor, nil if there is none.
func decided(p place, v loop.View) *control.Intent {
	ins, _ := control.Submitted(p.Paths) // the supervisor reports a file that cannot be read
	if i := slices.IndexFunc(ins, func(in control.Intent) bool { return in.RunID == v.RunID }); i >= 0 {
		return &ins[i]
	}
	return nil
}

// next returns the command that the operator should type now, "" if there is nothing to do. q is the question that the
// loop waits for, or nil.
func (a *app) next(p place, v loop.View, q *openQuestion, supervised bool) string {
	in, by := decided(p, v), ""
	open := q != nil && q.State == string(escalation.Pending)
	switch {
	case in != nil:
		by = fmt.Sprintf("the %s of %s", in.Kind, in.By)
	case q != nil && !open:
		by = "the answer of " + cmp.Or(q.By, "an operator")
	}
	m, branch := v.Next(loop.Circumstances{Supervised: supervised, Open: open, Decided: in != nil}), ""
	if v.Human == nil && open { // the agent of the loop asks, and the loop itself does not
		m = loop.MoveApprove
	}
	if _, err := os.Lstat(p.OwnTree()); err == nil {
		branch = p.OwnBranch()
	}
	line := m.Command(v, loop.Typing{Repo: a.repoFlag, Branch: branch, Config: relTo(p.Repo, a.configPath(p.Repo, p.id)), By: by})
	if m == loop.MoveRun {
		line = a.orResume(p, line)
	}
	return a.here(line)
}

// orResume adds to a command that runs the loop how the daemon goes on with it, if a daemon runs and was told to pause or
// to stop the loop.
func (a *app) orResume(p place, run string) string {
	_, served := server.Daemon(p.State)
	e, err := registry.Store{Disk: a.disk, State: p.State}.Get(p.Repo, p.id)
	if !served || err != nil || e.Wanted != registry.Paused && e.Wanted != registry.Stopped {
		return run
	}
	command, more, _ := strings.Cut(strings.TrimSuffix(run, ")"), "   (")
	return command + "   (" + strings.TrimPrefix(more+"; superloop resume --loop "+p.id+" lets the daemon do it)", "; ")
}

// summary returns what an operator reads about a loop.
func summary(s standing, now time.Time) render.Standing {
	if s.Hold != nil && !now.Before(s.Hold.Until) {
		s.Hold = nil
	}
	out := render.Standing{Loop: s.LoopID, Status: s.Status, Where: ", has not run yet", Question: s.Question != nil && s.Question.State == string(escalation.Pending)}
	if s.Status != loop.Pending {
		out.Where = where(s, now)
	}
	line := func(name, value string) {
		if value != "" {
			tone := map[string]screen.Tone{"because": render.StatusTone(s.Status), "next": screen.Strong}[name]
			out.Facts = append(out.Facts, render.Fact{Name: name, Value: value, Tone: tone})
		}
	}
	line("because", cmp.Or(s.Detail, s.Reason))
	if h := s.Hold; h != nil {
		line("permission", fmt.Sprintf("asked since %s; the agent is held until %s: %s", h.Since.Local().Format(time.TimeOnly), h.Until.Local().Format(time.TimeOnly), h.What))
	}
	if s.Recovery != nil && s.Recovery.Attempt.Command != "" {
		line("recovery", fmt.Sprintf("%d (%s; %s): %s", s.Recovery.N, escalation.Kinds(s.Recovery.Category, s.Recovery.Severity, s.Recovery.Attempt.Confidence),
			s.Recovery.Verdict, text.Display(s.Recovery.Attempt.Command)))
		for _, e := range s.Recovery.Evidence[:min(len(s.Recovery.Evidence), 3)] {
			line("evidence", e)
		}
	}
	if s.Seen != nil {
		line("proposal", fmt.Sprintf("the %s is about to propose: %s (%s)", s.Seen.Role, text.Display(s.Seen.Command), s.Seen.Verdict))
	}
	line("gates", gatesLine(s.View))
	line("spent", spentLine(s.Spent))
	if s.Stuck.Count > 0 {
		line("stuck", fmt.Sprintf("%d of %d iterations without a change", s.Stuck.Count, s.Stuck.Threshold))
	}
	switch {
	case s.Supervisor != nil:
		line("supervisor", s.Supervisor.String())
	case s.Status != loop.Pending && !s.Status.Ended():
		line("supervisor", "none is alive; nothing is lost, the next run goes on")
	}
	line("next", s.Next)
	return out
}

func where(s standing, now time.Time) string {
	text := ""
	if s.Hold != nil {
		text = ", awaiting permission"
	}
	text += fmt.Sprintf(", iteration %d", s.Iteration)
	if s.Max > 0 {
		text += fmt.Sprintf(" of %d", s.Max)
	}
	active := msec(s.ActiveMS)
	if s.Status == loop.RateLimited {
		text += fmt.Sprintf(", %s goes on at %s (in %s)", s.Role, s.Until.Local().Format(time.DateTime), render.Duration(max(0, s.Until.Sub(now))))
	}
	if s.Status == loop.Running && s.Supervisor != nil {
		active += now.Sub(s.ActiveSince)
		switch {
		case !s.Until.IsZero():
			text += fmt.Sprintf(", %s is tried again in %s", s.Role, render.Duration(s.Until.Sub(now)))
		case s.Role != "":
			text += fmt.Sprintf(", %s for %s", s.Role, render.Duration(now.Sub(s.UpdatedAt)))
			if s.Attempt > 1 {
				text += fmt.Sprintf(" (attempt %d)", s.Attempt)
			}
		case s.At != "":
			text += ", " + strings.ReplaceAll(s.At, "_", " ")
		}
	}
	return text + ", active " + render.Duration(active)
}

// spentLine says what the run has cost so far, "" if no role has reported that.
func spentLine(s loop.Spent) string {
	if s.Runs == 0 || s.UnknownTokens == s.Runs && s.UnknownCost == s.Runs {
		return ""
	}
	cost := fmt.Sprintf("$%.4f", s.CostUSD)
	switch {
	case s.UnknownCost == s.Runs:
		cost = "cost unknown"
	case s.UnknownCost > 0:
		cost = fmt.Sprintf("at least %s (%s unknown)", cost, render.Number(s.UnknownCost, "run"))
	}
	return fmt.Sprintf("%s, %s in %s", cost, render.Number(int(s.Tokens), "token"), render.Number(s.Runs, "role run"))
}

// gatesLine shows the gates of this iteration, or those of the previous one while this one has none.
func gatesLine(v loop.View) string {
	g, of := v.Gates, ""
	if g.Promise == "" && v.LastGates.Promise != "" {
		g, of = v.LastGates, fmt.Sprintf(" (iteration %d)", v.Iteration-1)
	}
	var out []string
	for _, x := range [][2]string{{"promise", g.Promise}, {"tests", g.Tests}, {"checklist", g.Checklist}, {"validation", g.Validation},
		{"prerequisites", g.Prerequisites}, {"evidence", g.Evidence}, {"approval", g.Approval}} {
		if x[1] != "" {
			out = append(out, x[0]+"="+x[1])
		}
	}
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, " ") + of
}

// watchStatus prints the loops again whenever their state changes, until no supervisor runs them. On a terminal it also
// prints them each second, because the durations grow.
func (a *app) watchStatus(c *cli.Context, loops []place, form screen.Form) error {
	tty := ttyOf(a.stdout) != nil
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	last := ""
	for {
		all, err := a.standings(loops)
		if err != nil {
			return err
		}
		var b strings.Builder
		ended := true
		for _, s := range all {
			ended = ended && (s.Status.Ended() || s.Supervisor == nil)
			if c.Bool("json") {
				line, err := json.Marshal(s)
				if err != nil {
					return err
				}
				b.Write(append(line, '\n'))
				continue
			}
			at := time.Now()
			if !tty {
				at = s.UpdatedAt // a pipe gets a block per change, not per second
			}
			summary(s, at).Print(&b, form)
		}
		if b.String() != last {
			last = b.String()
			if tty && !c.Bool("json") {
				fmt.Fprint(a.stdout, "\x1b[H\x1b[2J")
			}
			fmt.Fprint(a.stdout, last)
		}
		if ended {
			return nil
		}
		select {
		case <-c.Context.Done():
			return nil
		case <-tick.C:
		}
	}
}

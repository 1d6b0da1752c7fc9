package effects

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/plan"
)

const maxGuardDiff = 32 << 10 // bounds the diff of changed inputs in a question, in bytes; the archive has all of it

func (a *Approvals) question(ctx context.Context, s loop.State) (escalation.Question, error) {
	h := *s.Human
	now := a.Clock().UTC().Truncate(time.Millisecond)
	q := escalation.Question{ID: escalation.NewID(), Loop: a.LoopID, Run: s.RunID, Iteration: s.Iteration,
		Type: escalation.Type(h.Type), Repo: a.Paths.Repo, Reason: h.Text, Rule: h.Class, Manual: a.manual(s),
		Created: now, Expires: now.Add(patience(a.Settings().Config))}
	if h.Type == loop.EscalationRunner {
		q.Reason = fmt.Sprintf("The %s cannot run: runner %s, %s.", h.Role, h.Runner, h.Class)
		if h.Text != "" {
			q.Errors = []string{h.Text}
		}
	}
	if h.About == loop.AboutCompletion {
		a.aboutCompletion(s, &q)
		return q, nil
	}
	r := s.Recovery
	if r == nil {
		a.aboutFailure(s, &q)
		return q, nil
	}
	j, err := a.Executor.Judge(ctx, r.Attempt, budget(s, r.Attempt))
	if err != nil {
		return q, err
	}
	q.Errors, q.Rule = r.Errors, r.Rule
	cmd := escalation.NewCommand(r.Attempt)
	cmd.Network, cmd.Source, cmd.Role = j.Policy.Settings.NetworkOf(r.Attempt.Command), r.Source, r.Role
	cmd.Category, cmd.Severity, cmd.ErrorPattern, cmd.RootCause, cmd.Evidence = r.Category, r.Severity, r.Pattern, r.RootCause, r.Evidence
	cmd.GuardDiff = j.Diff[:min(len(j.Diff), maxGuardDiff)]
	cmd.Judge(j.Policy)
	cmd.Binding = bindingOf(j)
	q.Command = &cmd
	q.Options = append(q.Options, otherOptions(s, r.Attempt.Command)...)
	cmd.ProposedAt = r.ProposedAt
	if r.Else != nil {
		cmd.Fallback = r.Else
		q.Options = append(q.Options, escalation.Option{ID: "fallback", Label: "the proposal's fallback", Command: r.Else.Command})
	}
	return q, nil
}

// manual returns the command line that repairs the cause of a question, or shows it, so that it can be pasted in any
// directory. A repair of the repository names the directory for which the rules have made it.
func (a *Approvals) manual(s loop.State) string {
	h := *s.Human
	switch {
	case h.About == loop.AboutPreflight:
		return a.typed("doctor", " --checks --loop "+a.LoopID)
	case h.About != loop.AboutCommit && h.Class != loop.ClassRemedy:
		return h.Fix
	}
	dir := a.Paths.Repo
	if d := s.Diagnosis; d != nil {
		if i := slices.IndexFunc(d.Options, func(o plan.Choice) bool { return o.Command == h.Fix }); i >= 0 {
			dir = filepath.Join(dir, d.Options[i].WorkingDir)
		}
	}
	return "cd " + text.Paste(dir) + " && " + h.Fix
}

const maxDetails = 8 << 10 // bounds the text of a question besides its reason, in bytes
const maxTail = 2 << 10    // bounds how much of a log a question looks at, in bytes
const maxSaid = 12         // bounds how much of it a question shows, in lines

// aboutFailure collects all that is known of a failure in one question: the attempts with their runners and outcomes,
// the root cause with its evidence, and where the operator can read on.
func (a *Approvals) aboutFailure(s loop.State, q *escalation.Question) {
	h, resp := *s.Human, s.Response
	var b strings.Builder
	switch {
	case h.About == loop.AboutPreflight:
		q.Reason = "The iteration cannot begin: " + h.Text + "."
		for _, f := range findings(resp) {
			if f.Learned {
				fmt.Fprintf(&b, "Check %s was learned from a failure. If it is wrong: %s\n", f.ID, a.typed("doctor", " --retire "+f.ID))
			}
		}
	case h.Class == loop.ClassUnreadable:
		q.Reason = "The shell cannot read a configured test command: " + h.Text + "."
		fmt.Fprintf(&b, "Correct tests.commands in .superloop/config.json: then the tests run again at once, and no role was paid for it. Look with: %s\n", a.typed("validate", ""))
	case h.Class == loop.ClassRemedy:
		a.aboutRemedy(s, q, &b)
	case h.About == loop.AboutCommit:
		q.Reason = "The work is done, and its commit fails: " + h.Text + "."
		b.WriteString("When it is mended, superloop commits again, and no role runs. Ending the loop leaves the work in the files, without a commit.\n")
	case h.About == loop.AboutTests:
		q.Reason = "It comes back: " + h.Text + "."
		q.Manual = ""
		for _, f := range s.TestFailures {
			q.Errors = append(q.Errors, fmt.Sprintf("%s: exit code %d", f.Command, f.ExitCode))
		}
	case resp.Policy != nil:
		if h.Type == failures.TypeRole {
			q.Reason = fmt.Sprintf("The %s has failed %s in iteration %d: %s.", h.Role, loop.Times(max(resp.Policy.Runs, 1)), s.Iteration, h.Text)
		}
		q.Errors = append(q.Errors, resp.Policy.Tell...)
	}
	if c := resp.Cause; c != nil && c.Role == h.Role && c.Type != string(failures.CauseUnknown) {
		fmt.Fprintf(&b, "Cause (%s, by %s, confidence %.1f): %s", c.Type, c.By, c.Confidence, failures.Possibly(c.Summary, c.Sure))
		if c.Location != "" {
			fmt.Fprintf(&b, " (%s)", c.Location)
		}
		b.WriteString("\n")
		if c.Instruction != "" {
			fmt.Fprintf(&b, "To do about it (%s): %s\n", c.Fix, c.Instruction)
		}
		for _, e := range c.Evidence {
			fmt.Fprintf(&b, "  %s\n", e)
		}
		fmt.Fprintf(&b, "All of it: %s\n", a.Paths.Rel(a.Paths.File(RootCauseFile)))
	}
	if resp.Policy != nil && h.Role != loop.TestsTask && h.Type == failures.TypeRole {
		files := a.RoleFiles(s.Iteration, h.Role, s.Roles[h.Role].Attempt)
		if said := lastWords(files.Last, files.Log); said != "" {
			fmt.Fprintf(&b, "What it said last:\n%s\n", said)
		}
	}
	if h.Role != "" && h.Role != loop.TestsTask && h.About != loop.AboutPreflight {
		fmt.Fprintf(&b, "Its log: %s\n", a.typed("logs", " --loop "+a.LoopID+" --role "+h.Role))
	}
	q.Details = b.String()
	if len(q.Details) > maxDetails {
		q.Details = strings.ToValidUTF8(q.Details[:maxDetails], "")
	}
}

// lastWords returns what a role said last: the end of its last message, or else of what it printed for people. Lines of
// JSON are the stream of an agent CLI, which superloop logs shows.
func lastWords(last, log string) string {
	for _, file := range []string{last, log} {
		tail, _, err := door.Ends(file, 0, maxTail)
		if err != nil {
			continue
		}
		var lines []string
		for line := range strings.Lines(tail) {
			if l := strings.TrimSpace(line); l != "" && !strings.HasPrefix(l, door.LeftOut) && l[0] != '{' && !(strings.HasSuffix(l, "}") && strings.Contains(l, `":`)) {
				lines = append(lines, l)
			}
		}
		if len(lines) > 0 {
			return strings.Join(lines[max(0, len(lines)-maxSaid):], "\n")
		}
	}
	return ""
}

// aboutRemedy fills in the question about a failure that rules know a command for, in a loop in which superloop executes
// nothing. It shows the lines that would let superloop run the command.
func (a *Approvals) aboutRemedy(s loop.State, q *escalation.Question, b *strings.Builder) {
	h := *s.Human
	q.Reason = "The tests fail, and it is not the code: " + h.Text + "."
	for _, f := range s.TestFailures {
		q.Errors = append(q.Errors, fmt.Sprintf("%s: exit code %d", f.Command, f.ExitCode))
	}
	b.WriteString("When it is mended, the tests run again, and no role was paid for it. The next time the same failure is the roles' to look at.\n")
	entry, err := json.Marshal(h.Fix)
	if err == nil {
		fmt.Fprintf(b, "To have superloop run it by itself, and ask you about any other command, put this into .superloop/config.json:\n  \"recovery\": {\"auto_approve\": [%s]}\n", entry)
	}
	if d := s.Diagnosis; d != nil {
		for _, e := range d.Evidence {
			fmt.Fprintf(b, "  %s\n", e)
		}
	}
}

// findings returns what keeps the iteration from beginning.
func findings(r loop.Response) []failures.Finding {
	if r.Environment == nil {
		return nil
	}
	return r.Environment.Findings
}

// otherOptions returns the other commands that rules suggest, for the operator to choose from.
func otherOptions(s loop.State, but string) []escalation.Option {
	var out []escalation.Option
	if g := s.Diagnosis; g != nil {
		for _, o := range g.Options {
			if o.Command != but {
				out = append(out, escalation.Option{ID: o.ID, Label: labelled(o), Command: o.Command})
			}
		}
	}
	return out
}

// aboutCompletion fills in the question whether the loop is done. It lists the verdicts of the gates and the files that
// tell what was done.
func (a *Approvals) aboutCompletion(s loop.State, q *escalation.Question) {
	q.Reason = fmt.Sprintf("All gates of iteration %d pass. Is the loop done?", s.Iteration)
	if note := s.Unseen(); note != "" {
		q.Reason += " Look at the work yourself: " + note + "."
	}
	q.Rule = ""
	q.Manual = ""
	var b strings.Builder
	for _, g := range NamedGates(s.Gates) {
		fmt.Fprintf(&b, "%s: %s\n", g[0], g[1])
	}
	for _, name := range []string{"review.md", "test-report.md", "evidence.json", "gate-summary.txt"} {
		if exists(a.Paths.File(name)) {
			fmt.Fprintf(&b, "read: %s\n", a.Paths.Rel(a.Paths.File(name)))
		}
	}
	b.WriteString("If it is not done, the next planner reads your note.\n")
	q.Details = b.String()
}

// labelled returns the label of an option with what became of it before, if that is known.
func labelled(o plan.Choice) string {
	if o.Experience == "" {
		return o.Label
	}
	return o.Label + " (" + o.Experience + ")"
}

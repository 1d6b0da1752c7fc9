package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

func (a *app) answer(c *cli.Context, method escalation.Method) error {
	q, err := a.question(c)
	if err != nil && !errors.Is(err, escalation.ErrNothingPending) {
		return a.notAnswered(q, err)
	}
	open := err == nil && q.rec.State == escalation.Pending
	req := a.answerOf(c, method)
	req.ID, req.Digest = c.String("id"), c.String("digest")
	if c.IsSet("edit") {
		req.Edit = &escalation.EditedCommand{Text: []byte(c.String("edit"))}
	}
	if method == escalation.Approve && open {
		if err := a.confirm(c, q.rec, &req); err != nil {
			return err
		}
	}
	var list *rewrite
	if c.Bool("remember") && open {
		if list, err = a.rememberable(c, q.rec, req); err != nil {
			return err
		}
		req.ID = cmp.Or(req.ID, q.rec.Question.ID) // the command that is remembered is the command that is approved
	}
	return a.submit(c, q, req, list)
}

// asked is a loop with its store of questions and the record of its latest question.
type asked struct {
	place
	store escalation.Store
	rec   escalation.Record
}

// question reads the question of the loop that --loop names, or of the repository's only loop.
func (a *app) question(c *cli.Context) (q asked, err error) {
	p, err := a.theLoop(c)
	if err != nil {
		return q, err
	}
	return a.questionIn(c.Context, p)
}

// questionIn reads the question of a loop.
func (a *app) questionIn(ctx context.Context, p place) (q asked, err error) {
	q.place, q.store = p, a.questions(p)
	q.rec, err = a.presentQuestion(ctx, q)
	return q, err
}

// questions returns the store that holds the questions of a loop.
func (a *app) questions(p place) escalation.Store {
	return escalation.Store{Disk: a.disk, Dir: p.Questions(), Loop: p.id}
}

func (a *app) answerOf(c *cli.Context, method escalation.Method) escalation.AnswerRequest {
	by := byProcess(a.who(c))
	if a.by != nil {
		by = *a.by
	}
	return escalation.AnswerRequest{Method: method, Note: c.String("note"), By: by}
}

// byProcess describes an operator who answers by a command: the user's name, and the uid of this process.
func byProcess(user string) escalation.By {
	uid := os.Getuid()
	return escalation.By{Channel: escalation.CLI, UID: &uid, User: user, Method: "process"}
}

// submit records an answer, then adds the command of list (nil: none) to auto_approve, and prints what the answer does.
func (a *app) submit(c *cli.Context, q asked, req escalation.AnswerRequest, list *rewrite) error {
	rec, said, err := a.record(c.Context, q, req)
	if err != nil {
		return err
	}
	if list != nil {
		if err := list.write(c.Context, a.disk); err != nil {
			return failf(exitFailed, "", "the command is approved and runs once; it was not remembered: %w", err)
		}
	}
	return a.told(c, rec, "%s", said)
}

// record records an answer and returns what it does.
func (a *app) record(ctx context.Context, q asked, req escalation.AnswerRequest) (escalation.Record, string, error) {
	rec, err := q.store.Answer(ctx, req)
	if err != nil {
		return rec, "", a.notAnswered(q, err)
	}
	return rec, fmt.Sprintf("%s: %s\n%s", q.id, answerText(rec), a.takenUp(q.place, "the answer")), nil
}

// askPatience bounds the time between the moment in which a loop announces a question and the moment in which the
// question is on the disk. A few writes lie between the two, and the disk may be busy.
const askPatience = 2 * time.Second

// presentQuestion reads the loop's question. If a supervisor has announced a question in state.json and has not written
// it to the disk yet, presentQuestion waits for the question, for askPatience at most.
func (a *app) presentQuestion(ctx context.Context, q asked) (escalation.Record, error) {
	limit := time.Now().Add(askPatience)
	return awaitQuestion(ctx, q.store, func(rec escalation.Record) bool {
		if rec.State == escalation.Pending || time.Now().After(limit) {
			return true
		}
		view, err := local.ReadView(q.Paths)
		asks := err == nil && (view.Status == loop.AwaitingHuman || view.Status == loop.AwaitingApproval) && (view.Human == nil || view.Human.Question == "" || view.Human.Question != rec.Question.ID)
		_, alive := local.Supervisor(q.Paths)
		return !asks || !alive
	})
}

// awaitQuestion reads a loop's question again and again, until right accepts the record, reading fails, or ctx ends.
// right gets an empty record while there is no question.
func awaitQuestion(ctx context.Context, store escalation.Store, right func(escalation.Record) bool) (escalation.Record, error) {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		rec, err := store.Load()
		if err != nil && !errors.Is(err, escalation.ErrNothingPending) || right(rec) {
			return rec, err
		}
		select {
		case <-ctx.Done():
			return rec, ctx.Err()
		case <-look.C:
		}
	}
}

// confirm shows an operator on a terminal the command that would run, and asks for a yes, unless --json or --yes is
// given. After a yes, req names the record that was shown, so no record that has replaced it is approved. confirm
// judges the command of --edit first, and refuses one that cannot run at all.
func (a *app) confirm(c *cli.Context, rec escalation.Record, req *escalation.AnswerRequest) error {
	verdict := ""
	if req.Edit != nil {
		v, err := a.judgeEdit(c, rec, string(req.Edit.Text))
		if err != nil {
			return err
		}
		verdict = fmt.Sprintf("%s: %s", v.Decision, v.Reason)
	}
	in := ttyOf(a.stdin)
	if c.Bool("json") || c.Bool("yes") || in == nil {
		return nil
	}
	fmt.Fprint(a.stdout, escalation.Describe(rec, a.width()))
	what := "let this run"
	if req.Edit != nil {
		fmt.Fprintf(a.stdout, "\nyours instead: %s\nthe policy of it: %s\n", text.Display(string(req.Edit.Text)), verdict)
		what = "let yours run"
	}
	yes, err := a.ask(c.Context, in, what)
	if err != nil {
		return err
	}
	if !yes {
		return failf(exitFailed, "superloop reject-recovery --loop "+rec.Question.Loop, "not approved; the loop waits on")
	}
	if req.ID == "" && req.Digest == "" {
		req.Digest = rec.Digest
	}
	return nil
}

// ask prints a question to stderr and reports whether the answer from in is "y" or "yes". A signal ends the wait and
// then the process, so nothing ends the goroutine that still reads.
func (a *app) ask(ctx context.Context, in io.Reader, what string) (bool, error) {
	fmt.Fprintf(a.stderr, "%s? [y/N] ", what)
	typed := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // the text before a read error is the answer
		typed <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return false, ctx.Err()
	case line := <-typed:
		answer := strings.ToLower(strings.TrimSpace(line))
		return answer == "y" || answer == "yes", nil
	}
}

// notAnswered turns the error of an answer that was not accepted into a fault that tells the operator why.
func (a *app) notAnswered(q asked, err error) error {
	if q.id == "" {
		return err // there is no such loop
	}
	_, decided := errors.AsType[*escalation.DecidedError](err)
	_, other := errors.AsType[*escalation.MismatchError](err)
	_, late := errors.AsType[*escalation.ExpiredError](err)
	none, hint := errors.Is(err, escalation.ErrNothingPending), "superloop status --loop "+q.id
	view, verr := local.ReadView(q.Paths)
	if errors.Is(verr, fs.ErrNotExist) {
		view.Status = loop.Pending
	}
	switch {
	case none && view.Status == loop.Pending:
		return hasNotRun(q.id)
	case none:
		return failf(exitNothing, hint, "loop %s waits for no decision", q.id)
	case decided && view.Human == nil:
		return failf(exitNothing, hint, "loop %s does not wait for an approval, it is %s: %w", q.id, view.Status, err)
	case decided, late:
		return failf(exitNothing, hint, "%w", err)
	case other:
		return failf(exitNothing, "superloop inbox", "%w", err)
	}
	return err
}

func hasNotRun(id string) error {
	return failf(exitNothing, "superloop run --loop "+id, "loop %s has not run yet", id)
}

// answerText says who has answered, and what the loop does after this answer.
func answerText(rec escalation.Record) string {
	by, method := render.Clean(rec.Answer.By.User), rec.Answer.Method
	completion := rec.Question.Type == escalation.CompletionApproval
	switch run, ok := rec.Run(); {
	case rec.Question.Tool != nil && method == escalation.Approve:
		return fmt.Sprintf("approved by %s, the agent may do it once: now, or when it asks for the same again", by)
	case rec.Question.Tool != nil:
		return fmt.Sprintf("rejected by %s, the agent is refused and goes on", by)
	case completion && method == escalation.Approve:
		return fmt.Sprintf("iteration %d approved by %s", rec.Question.Iteration, by)
	case completion && method == escalation.Reject:
		return fmt.Sprintf("iteration %d rejected by %s", rec.Question.Iteration, by)
	case method == escalation.Approve && ok:
		return fmt.Sprintf("approved by %s, runs once: %s", by, text.Display(string(run.Text)))
	case method == escalation.Approve:
		return "approved by " + by
	case method == escalation.Reject:
		return fmt.Sprintf("rejected by %s, the loop goes on without it", by)
	}
	return fmt.Sprintf("repaired by %s, the loop looks again and goes on", by)
}

// takenUp returns the hint that the next run of the loop takes something up, for example an answer. It returns "" while
// a supervisor runs the loop, because that supervisor takes it up.
func (a *app) takenUp(p place, what string) string {
	if _, alive := local.Supervisor(p.Paths); alive {
		return ""
	}
	return "next: " + a.here(a.orResume(p, fmt.Sprintf("superloop run --loop %s   (no supervisor is running; the next run takes %s up)", p.id, what))) + "\n"
}

// judgeEdit judges the command of --edit by the loop's policy. An operator may approve it whatever the verdict is, but
// judgeEdit refuses a command that cannot run at all (too long, not UTF-8, empty): the question stays open.
func (a *app) judgeEdit(c *cli.Context, rec escalation.Record, text string) (recovery.Verdict, error) {
	policy, _ := recovery.Compile(recovery.Settings{}) // empty settings always compile
	// The supervisor reports a configuration that cannot be read. Here the empty policy judges then.
	if repo, err := a.repo(c); err != nil {
		return recovery.Verdict{}, err
	} else if cfg, err := a.config(repo, rec.Question.Loop); err == nil {
		if p, problems := cfg.Policy(rec.Question.Loop); p != nil && len(problems) == 0 {
			policy = p
		}
	}
	v := recovery.Decide(policy, recovery.Command{Text: text}, recovery.Facts{})
	if v.Decision == action.Invalid {
		return v, failf(exitFailed, "superloop status --loop "+rec.Question.Loop, "--edit: %s; the question is still open", v.Reason)
	}
	return v, nil
}

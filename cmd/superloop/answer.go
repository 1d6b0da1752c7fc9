package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
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
	"github.com/superloop/superloop/loop/control"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

// operator refuses a process that superloop itself has started: an agent may ask, and never answer.
func (a *app) operator() error {
	_, err := escalation.CheckCaller("/proc", os.Environ())
	var agent *escalation.AgentError
	if errors.As(err, &agent) {
		return failf(exitHuman, "", "%w", agent)
	}
	return err
}

func (a *app) answer(c *cli.Context, method escalation.Method) error {
	if err := a.operator(); err != nil {
		return err
	}
	q, err := a.question(c)
	if err != nil && !errors.Is(err, escalation.ErrNothingPending) {
		return a.notAnswered(q, err)
	}
	rec := q.rec
	req := a.answerOf(c, method)
	req.ID, req.Digest = c.String("id"), c.String("digest")
	if c.IsSet("edit") {
		req.Edit = &escalation.EditedCommand{Text: []byte(c.String("edit"))}
	}
	if method == escalation.Approve && err == nil && rec.State == escalation.Pending {
		if err := a.confirm(c, rec, &req); err != nil {
			return err
		}
	}
	var list *remembering
	if c.Bool("remember") && err == nil && rec.State == escalation.Pending {
		if list, err = a.rememberable(c, rec, req); err != nil {
			return err
		}
		if req.ID == "" {
			req.ID = rec.Question.ID // what is remembered is what is approved
		}
	}
	return a.submit(c, q, req, list)
}

// asked is the question of a loop, as it stands on the disk.
type asked struct {
	loop  string
	paths layout.Paths
	store escalation.Store
	rec   escalation.Record
}

// question is that of --loop, or of the only loop.
func (a *app) question(c *cli.Context) (q asked, err error) {
	if q.loop, q.paths, err = a.theLoop(c); err == nil {
		q.store = escalation.Store{Disk: a.disk, Dir: q.paths.Questions(), Loop: q.loop}
		q.rec, err = a.presentQuestion(c.Context, q.store, q.paths)
	}
	return q, err
}

func (a *app) answerOf(c *cli.Context, method escalation.Method) escalation.AnswerRequest {
	uid := os.Getuid()
	return escalation.AnswerRequest{Method: method, Note: c.String("note"),
		By: escalation.By{Channel: escalation.CLI, UID: &uid, User: a.who(c), Method: "process"}}
}

// submit records an answer, then what it adds to auto_approve (nil: nothing), and tells it.
func (a *app) submit(c *cli.Context, q asked, req escalation.AnswerRequest, list *remembering) error {
	rec, err := q.store.Answer(c.Context, req)
	if err != nil {
		return a.notAnswered(q, err)
	}
	if list != nil {
		if err := a.remember(list, req.By.User); err != nil {
			return failf(exitFailed, "", "the command is approved and runs once; it was not remembered: %w", err)
		}
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, rec)
	}
	a.tellAnswer(q.loop, q.paths, rec)
	return nil
}

// askPatience bounds the time between a loop's saying that it asks and the question's being there: a few writes to a
// disk, which may be busy.
const askPatience = 2 * time.Second

// presentQuestion reads the loop's question. A loop that says that it asks, and whose question is not on the disk yet,
// is being heard a moment too early.
func (a *app) presentQuestion(ctx context.Context, store escalation.Store, paths layout.Paths) (escalation.Record, error) {
	limit := time.NewTimer(askPatience)
	defer limit.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		rec, err := store.Load()
		if err == nil && rec.State == escalation.Pending || err != nil && !errors.Is(err, escalation.ErrNothingPending) {
			return rec, err
		}
		view, verr := local.ReadView(paths)
		asks := verr == nil && (view.Status == loop.AwaitingHuman || view.Status == loop.AwaitingApproval) && (view.Human == nil || view.Human.Question == "" || view.Human.Question != rec.Question.ID)
		if _, alive := a.supervisor(paths); !asks || !alive {
			return rec, err
		}
		select {
		case <-ctx.Done():
			return rec, ctx.Err()
		case <-limit.C:
			return rec, err
		case <-look.C:
		}
	}
}

// confirm shows what would run and asks, where there is a terminal; what was shown is what is approved then, whatever
// has taken its place meanwhile. An operator's own command is judged first: one that cannot run at all is refused.
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
	width := 0
	if f, ok := a.stdout.(*os.File); ok {
		width = columns(f)
	}
	fmt.Fprint(a.stdout, escalation.Describe(rec, width))
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

// ask wants a "y" from the terminal. A signal ends the wait, and with it the process: what still reads then is of no
// account.
func (a *app) ask(ctx context.Context, in io.Reader, what string) (bool, error) {
	fmt.Fprintf(a.stderr, "%s? [y/N] ", what)
	typed := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // what was typed before an error counts
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

// notAnswered is why an answer does not count.
func (a *app) notAnswered(q asked, err error) error {
	id := q.loop
	if id == "" {
		return err // there is no such loop
	}
	var decided *escalation.DecidedError
	var other *escalation.MismatchError
	var late *escalation.ExpiredError
	hint := "superloop status --loop " + id
	view, verr := local.ReadView(q.paths)
	status := view.Status
	if errors.Is(verr, fs.ErrNotExist) {
		status = loop.Pending
	}
	switch {
	case errors.Is(err, escalation.ErrNothingPending) && status == loop.Pending:
		return failf(exitNothing, "superloop run --loop "+id, "loop %s has not run yet", id)
	case errors.Is(err, escalation.ErrNothingPending):
		return failf(exitNothing, hint, "loop %s waits for no decision", id)
	case errors.As(err, &decided) && view.Human == nil:
		return failf(exitNothing, hint, "loop %s does not wait for an approval, it is %s: %w", id, status, err)
	case errors.As(err, &decided), errors.As(err, &late):
		return failf(exitNothing, hint, "%w", err)
	case errors.As(err, &other):
		return failf(exitNothing, "superloop inbox", "%w", err)
	}
	return err
}

func (a *app) tellAnswer(id string, paths layout.Paths, rec escalation.Record) {
	by := render.Clean(rec.Answer.By.User)
	switch run, ok := rec.Run(); {
	case rec.Question.Type == escalation.CompletionApproval && rec.Answer.Method != escalation.Resolve:
		verb := map[escalation.Method]string{escalation.Approve: "approved", escalation.Reject: "rejected"}[rec.Answer.Method]
		fmt.Fprintf(a.stdout, "%s: iteration %d %s by %s\n", id, rec.Question.Iteration, verb, by)
	case rec.Answer.Method == escalation.Approve && ok:
		fmt.Fprintf(a.stdout, "%s: approved by %s, runs once: %s\n", id, by, text.Display(string(run.Text)))
	case rec.Answer.Method == escalation.Approve:
		fmt.Fprintf(a.stdout, "%s: approved by %s\n", id, by)
	case rec.Answer.Method == escalation.Reject:
		fmt.Fprintf(a.stdout, "%s: rejected by %s, the loop goes on without it\n", id, by)
	default:
		fmt.Fprintf(a.stdout, "%s: repaired by %s, the loop looks again and goes on\n", id, by)
	}
	if _, alive := a.supervisor(paths); !alive {
		fmt.Fprintf(a.stdout, "next: superloop run --loop %s   (no supervisor is running; the next run takes the answer up)\n", id)
	}
}

// inboxItem is what inbox --json prints of one question.
type inboxItem struct {
	Loop    string             `json:"loop_id"`
	Repo    string             `json:"repo"`
	ID      string             `json:"id"`
	Digest  string             `json:"digest"`
	Type    string             `json:"type"`
	Reason  string             `json:"reason"`
	Command string             `json:"command,omitempty"`
	Errors  []string           `json:"errors,omitempty"`
	Details string             `json:"details,omitempty"`
	Since   time.Time          `json:"since"`
	Waiting int64              `json:"waiting_ms"`
	Blocks  bool               `json:"blocks"`
	Lapsed  bool               `json:"lapsed,omitempty"`
	Actions escalation.Actions `json:"actions"`
}

func (a *app) inbox(c *cli.Context) error {
	root, err := layout.StateRoot(a.env("XDG_STATE_HOME"))
	if err != nil {
		return err
	}
	items, damaged := escalation.Inbox(root, time.Now())
	list := []inboxItem{}
	for _, it := range items {
		q := it.Record.Question
		x := inboxItem{Loop: q.Loop, Repo: q.Repo, ID: q.ID, Digest: it.Record.Digest, Type: string(q.Type), Reason: q.Reason,
			Since: q.Created, Waiting: it.Waiting.Milliseconds(), Blocks: q.Blocking(), Lapsed: it.Lapsed, Actions: it.Record.Actions()}
		if q.Command != nil {
			x.Command = string(q.Command.Text)
		} else { // what approve-recovery would show of a command, there is nothing else to show it
			x.Errors, x.Details = q.Errors, q.Details
		}
		list = append(list, x)
	}
	if c.Bool("json") {
		if err := render.JSON(a.stdout, map[string]any{"waiting": list}); err != nil {
			return err
		}
	} else if err := a.report("inbox", list); err != nil {
		return err
	}
	if damaged != nil {
		return failf(exitFailed, "superloop status", "a record cannot be read: %w", damaged)
	}
	return nil
}

func (a *app) intent(c *cli.Context, kind string, view loop.View) control.Intent {
	var b [8]byte
	_, _ = rand.Read(b[:]) // does not fail on any system that Go runs on
	return control.Intent{ID: hex.EncodeToString(b[:]), Kind: kind, By: a.who(c), Note: c.String("note"),
		At: time.Now().UTC(), RunID: view.RunID}
}

// waitingLoop is the loop that a decision is about: --loop, or the only one, with what state.json says of it.
func (a *app) waitingLoop(c *cli.Context) (string, layout.Paths, loop.View, error) {
	id, paths, err := a.theLoop(c)
	if err != nil {
		return "", paths, loop.View{}, err
	}
	view, err := local.ReadView(paths)
	if errors.Is(err, fs.ErrNotExist) {
		return "", paths, view, failf(exitNothing, "superloop run --loop "+id, "loop %s has not run yet", id)
	}
	return id, paths, view, err
}

// theLoop is --loop, or the only loop, and its places.
func (a *app) theLoop(c *cli.Context) (string, layout.Paths, error) {
	repo, ids, err := a.chosenLoops(c)
	if err != nil {
		return "", layout.Paths{}, err
	}
	id, err := pick(c, ids)
	if err != nil {
		return "", layout.Paths{}, err
	}
	paths, err := a.paths(repo, id)
	return id, paths, err
}

// judgeEdit says what the policy makes of an operator's own command: an operator may run what it would not let run by itself.
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

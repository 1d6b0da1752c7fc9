package effects

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/result"
	"github.com/superloop/superloop/loop/stats"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/roles/agent"
)

// Channels holds the notification channels of a configuration.
type Channels struct {
	All []notify.Notifier
	// First and Second name the channels for each kind of message. superloop tells the channels of First at once. It
	// tells the channels of Second only if nobody has answered for escalate_after.
	First, Second map[notify.Kind][]string
}

// drainTime bounds how long a supervisor that leaves waits for the delivery of its messages, and endTime how long one
// waits whose loop has ended, since perhaps no other run follows. The other messages stay in the outbox, and the next run
// delivers them.
const (
	drainTime = 2 * time.Second
	endTime   = 10 * time.Second
)

// Outbox sends the loop's messages through a durable outbox and records the results of the deliveries. The loop never
// waits for a delivery. One goroutine at a time may call its methods, except for News, Opened and Ended.
type Outbox struct {
	*Host
	Journal  Journal
	Channels func(*config.Config) Channels // makes the notification channels that a configuration names; nil means none

	use      sync.Mutex     // guards the fields up to told: a role's questions come from goroutines of their own
	box      *notify.Outbox // nil if there are no channels
	channels Channels
	told     map[string]bool // ids of the messages that this supervisor has put into box
	ended    bool            // whether the loop's end is among them

	mu   sync.Mutex
	came []notify.Event
	news chan struct{} // capacity 1; a value means that came may hold events
}

// News returns a channel that receives a value when a delivery attempt has ended; see TellDeliveries.
func (o *Outbox) News() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.news == nil {
		o.news = make(chan struct{}, 1)
	}
	return o.news
}

// Configure takes the channels of the configuration in force. Without channels it opens no outbox. If the outbox cannot
// be opened, Configure logs the error, and the loop goes on.
func (o *Outbox) Configure() {
	if o.Channels == nil {
		return
	}
	o.use.Lock()
	defer o.use.Unlock()
	o.channels = o.Channels(o.Settings().Config)
	if o.box != nil {
		o.box.Configure(o.channels.All)
		for _, n := range o.channels.All {
			o.box.Retry(n.Name())
		}
		return
	}
	if len(o.channels.All) == 0 {
		return
	}
	box, err := notify.Open(notify.Options{Dir: o.Paths.Outbox(), Disk: o.Disk, Channels: o.channels.All,
		Redact: agent.Secrets(o.Env(), nil), OnEvent: o.take})
	if err != nil {
		o.Log.Error("nobody can be told of what needs a human", zap.Error(err))
		return
	}
	o.box = box
}

// Close waits at most drainTime, or endTime, for the deliveries that are under way, and records their results. The next
// run delivers the other messages.
func (o *Outbox) Close() {
	if o.box == nil {
		return
	}
	patience := drainTime
	if o.ended {
		patience = endTime
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	o.Warn("news are still in the outbox; the next run sends them", o.box.Close(ctx))
	o.Warn("a delivery could not be recorded", o.TellDeliveries())
}

// NextTry returns when the next delivery is due. ok is false if every message has been delivered, or given up.
func (o *Outbox) NextTry() (at time.Time, ok bool) {
	if o.box == nil {
		return at, false
	}
	return o.box.NextTry()
}

// take keeps the result of a delivery attempt. The goroutines of the box call it.
func (o *Outbox) take(ev notify.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.came = append(o.came, ev)
	if o.news == nil {
		o.news = make(chan struct{}, 1)
	}
	select {
	case o.news <- struct{}{}:
	default:
	}
}

type notificationFields struct {
	Notifier   string `json:"notifier"`
	Attempt    int    `json:"attempt"`
	Kind       string `json:"kind"`
	Escalation string `json:"escalation_id,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Final      bool   `json:"final,omitempty"`
}

// TellDeliveries records in the journal the results of the delivery attempts since the last call.
func (o *Outbox) TellDeliveries() error {
	o.mu.Lock()
	came := o.came
	o.came = nil
	o.mu.Unlock()
	for _, ev := range came {
		if ev.Loop != "" && ev.Loop != o.LoopID {
			continue
		}
		if err := o.Journal.Record(ev.Name, notificationFields{ev.Notifier, ev.Attempt, string(ev.Kind), ev.Escalation, ev.Reason, ev.Final}); err != nil {
			return err
		}
	}
	return nil
}

// announce puts a message into the outbox, once in the life of a supervisor. The box knows the messages of earlier
// supervisors. second selects the channels that are told only if nobody has answered for a while. A channel that is
// added to the configuration later does not receive the message.
func (o *Outbox) announce(m notify.Message, second bool) {
	o.use.Lock()
	defer o.use.Unlock()
	if o.box == nil || o.told[m.ID] {
		return
	}
	if o.told == nil {
		o.told = map[string]bool{}
	}
	o.told[m.ID] = true
	to := o.channels.First[m.Kind]
	if second {
		to = o.channels.Second[m.Kind]
	}
	if len(to) == 0 {
		return
	}
	if err := o.box.Enqueue(m, to...); err != nil {
		delete(o.told, m.ID) // the next call of announce tries again
		o.Log.Error("a human could not be told", zap.Error(err))
	}
}

func message(rec escalation.Record, kind notify.Kind, n int) notify.Message {
	q := rec.Question
	m := notify.Message{ID: q.ID + "/" + string(kind), Escalation: q.ID, Kind: kind, Loop: q.Loop, Repo: q.Repo, Iteration: q.Iteration,
		Type: string(q.Type), Status: string(rec.State), Reason: q.Reason, Digest: rec.Digest, Created: q.Created, Expires: q.Expires}
	if n > 0 {
		m.ID = fmt.Sprintf("%s/%d", m.ID, n)
	}
	if c := q.Command; c != nil {
		m.Command, m.WorkingDir = string(c.Text), c.WorkingDir
	}
	if a := rec.Answer; a != nil {
		m.By, m.At, m.Note = a.By.String(), a.At.UTC(), a.Note
	}
	m.Note = cmp.Or(m.Note, rec.Why)
	return m
}

// asking returns the message about an open question: with what is known of it, what the run has cost so far, and the ways
// to answer, the work by hand among them.
func (o *Outbox) asking(rec escalation.Record, s loop.State, kind notify.Kind, n int) notify.Message {
	m, q := message(rec, kind, n), rec.Question
	m.Facts = []string{"cost so far: " + cost(s.Spent)}
	for _, e := range q.Errors {
		if e != q.Reason {
			m.Facts = append(m.Facts, "failed: "+e)
		}
	}
	for line := range strings.Lines(q.Details) {
		m.Facts = append(m.Facts, strings.TrimSpace(line))
	}
	m.Ways = rec.Ways()
	own := escalation.Way{Does: "repair", Line: rec.Actions().Manual}
	switch c := q.Command; {
	case c != nil:
		m.Category, m.Severity, m.Confidence, m.RootCause, m.Evidence = c.Category, c.Severity, c.Confidence, c.RootCause, c.Evidence
		m.Diff = c.GuardDiff
		own.Does = "by hand"
	case q.Type == escalation.CompletionApproval:
		own = escalation.Way{Does: "look", Line: o.typed("diff", " --loop "+q.Loop)}
	case q.Rule == loop.ClassEnvironment || q.Rule == loop.ClassCommit:
		own.Does = "look"
	}
	if own.Line != "" {
		at := slices.IndexFunc(m.Ways, func(w escalation.Way) bool { return w.Does == "mended" })
		m.Ways = slices.Insert(m.Ways, max(at, 0), own)
	}
	return m
}

// cost says what a run has spent so far.
func cost(s loop.Spent) string {
	money, tokens := stats.Sum[float64]{Unknown: s.UnknownCost}, stats.Sum[int64]{Unknown: s.UnknownTokens}
	if s.Runs > s.UnknownCost {
		money.Known = &s.CostUSD
	}
	if s.Runs > s.UnknownTokens {
		tokens.Known = &s.Tokens
	}
	return fmt.Sprintf("%s, %s in %s", result.Cost(money), result.Tokens(tokens), counted(s.Runs, "role run", "role runs"))
}

// Opened announces an open escalation, and announces it again as it ages. It returns when the caller must call it
// again, at the latest when the escalation lapses.
func (o *Outbox) Opened(rec escalation.Record, s loop.State) time.Time {
	o.announce(o.asking(rec, s, notify.Opened, 0), false)
	q, now, set := rec.Question, o.Clock(), o.Settings().Config.Escalation
	next := q.Expires
	if every := set.RemindAfter; every > 0 {
		n := int(now.Sub(q.Created) / every)
		if n > 0 {
			o.announce(o.asking(rec, s, notify.Reminder, n), false)
		}
		next = earlier(next, q.Created.Add(time.Duration(n+1)*every))
	}
	if after := set.EscalateAfter; after > 0 {
		if at := q.Created.Add(after); now.Before(at) {
			next = earlier(next, at)
		} else {
			o.announce(o.asking(rec, s, notify.Aged, 0), true)
		}
	}
	return next
}

// Ended announces how an escalation ended, and withdraws the messages about it that have not been delivered yet.
func (o *Outbox) Ended(rec escalation.Record) {
	o.use.Lock()
	box := o.box
	o.use.Unlock()
	if box == nil {
		return
	}
	box.Withdraw(rec.Question.ID)
	m := message(rec, notify.Resolved, 0)
	o.announce(m, false)
	if after := o.Settings().Config.Escalation.EscalateAfter; after > 0 && !o.Clock().Before(rec.Question.Created.Add(after)) {
		m.ID += "/second"
		o.announce(m, true)
	}
}

// Held announces a change of the configuration that waits until the operator trusts it.
func (o *Outbox) Held(s loop.State, digest string, loosening int) {
	loop := ""
	if o.Paths.Owns(o.Settings().Config.Path) {
		loop = " --loop " + o.LoopID
	}
	o.announce(notify.Message{ID: "held/" + digest, Kind: notify.ConfigChangeHeld, Loop: o.LoopID, Repo: o.Paths.Repo,
		Iteration: s.Iteration, Type: string(escalation.PolicyChange), Status: "held", Digest: digest, Created: o.Clock().UTC(),
		Reason: fmt.Sprintf("config.json would allow more than was trusted (%s); that is not in force, and the loop goes on without it", counted(loosening, "change", "changes")),
		Facts:  []string{"cost so far: " + cost(s.Spent)},
		Ways: []escalation.Way{{Does: "look", Line: o.typed("config diff", loop)},
			{Does: "trust", Line: o.typed("config trust", loop+" --digest "+digest[:min(8, len(digest))])}}}, false)
}

// LoopEnded tells the channels that the loop has ended, with facts about what it did, and keeps that for the inbox.
func (o *Outbox) LoopEnded(s loop.State, facts []string) error {
	v := loop.ViewOf(s, 0, 0)
	reason := s.Detail
	if s.Status == loop.Completed || reason == "" {
		reason = fmt.Sprintf("%s after %s", strings.ReplaceAll(string(s.Status), "_", " "), counted(s.Iteration, "iteration", "iterations"))
		if s.Detail != "" {
			reason += "; " + s.Detail
		}
	}
	branch := ""
	if o.Settings().Loop.Git.Worktree {
		branch = o.Paths.OwnBranch()
	}
	e := escalation.Ended{Loop: o.LoopID, Repo: o.Paths.Repo, Run: s.RunID, Iteration: s.Iteration, Status: string(s.Status), Reason: reason, At: s.EndedAt.UTC(),
		Next: v.Next(loop.Circumstances{}).Command(v, loop.Typing{Repo: o.Paths.Repo, Branch: branch, Config: o.Settings().Config.Path})}
	o.announce(notify.Message{ID: fmt.Sprintf("end/%s/%d", s.RunID, s.EndedAt.UnixMilli()), Kind: notify.Ended, Loop: o.LoopID, Repo: o.Paths.Repo, Iteration: s.Iteration,
		Status: e.Status, Reason: e.Reason, Facts: facts, Next: e.Next, Created: e.At}, false)
	o.ended = true
	return e.Keep(o.Disk, o.Paths.Private)
}

// patience returns how long a question waits for an answer.
func patience(c *config.Config) time.Duration {
	if c.Escalation.ExpiresAfter > 0 {
		return c.Escalation.ExpiresAfter
	}
	return escalation.DefaultPatience
}

// Alerts sends messages for which no loop waits: failures that affect more than one role, and a runner that needs an
// operator while another runner does its work.
func (o *Outbox) Alerts(before, after loop.State, fact loop.Fact) {
	f, ok := fact.(loop.RoleEnded)
	if !ok || after.Plan.Respond == nil {
		return
	}
	for _, a := range f.Alerts {
		o.announce(notify.Message{ID: fmt.Sprintf("alert/%s/%s/%s/%d", a.Trigger, a.Severity, a.Category, a.At.UnixMilli()), Kind: notify.Alert,
			Loop: o.LoopID, Repo: o.Paths.Repo, Iteration: after.Iteration, Type: a.Trigger, Status: a.Severity, Category: a.Category,
			Reason: says(a), RootCause: a.Cause, Facts: []string{"cost so far: " + cost(after.Spent)}, Created: o.Clock().UTC(), Next: o.typed("stats", " --loop "+o.LoopID)}, false)
	}
	if f.Failure == nil || after.Human != nil || after.Pending == nil {
		return // the escalation, or the end of the loop, tells the operator
	}
	unfit := f.Failure.Blame == failures.BlameAccount || f.Failure.Blame == failures.BlameSettings
	l, was := after.Response.Policy, before.Response.Policy
	nobody := l != nil && l.Alerted && (was == nil || !was.Alerted)
	if !unfit && !nobody {
		return
	}
	m := notify.Message{ID: fmt.Sprintf("runner/%s/%s/%s/%s", after.RunID, after.Pending.ID, f.Runner, f.Failure.Kind), Kind: notify.Alert,
		Loop: o.LoopID, Repo: o.Paths.Repo, Iteration: after.Iteration, Type: loop.EscalationRunner, Status: "a runner needs an operator",
		Category: f.Failure.Category, Reason: fmt.Sprintf("%s: %s; another runner goes on", f.Failure.Agent, f.Failure.Why),
		Facts: []string{"cost so far: " + cost(after.Spent)}, Created: o.Clock().UTC(), Next: cmp.Or(f.Fix, o.typed("doctor", ""))}
	if nobody {
		m.Status = "no runner is fit"
		m.Reason = fmt.Sprintf("%s; the %s waits until %s", f.Failure.Why, f.Role, l.Until.UTC().Format(time.RFC3339))
	}
	o.announce(m, false)
}

func says(a failures.Alert) string {
	where := ""
	switch {
	case len(a.Tasks) == 1:
		where = " (all of " + a.Tasks[0] + ")"
	case len(a.Loops) > 0:
		where = " (loops " + strings.Join(a.Loops, ", ") + ")"
	}
	switch a.Trigger {
	case failures.TriggerCategory:
		return fmt.Sprintf("%d failures of the same kind, %s, since %s%s", a.Failures, a.Category, a.Since.UTC().Format(time.RFC3339), where)
	case failures.TriggerSilence:
		return fmt.Sprintf("no role has succeeded since %s, %d have failed%s", a.Since.UTC().Format(time.RFC3339), a.Failures, where)
	}
	return fmt.Sprintf("%d of %d role runs have failed since %s%s", a.Failures, a.Runs, a.Since.UTC().Format(time.RFC3339), where)
}

// counted says a number of things in words.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

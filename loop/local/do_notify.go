package local

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/roles/agent"
)

// Channels are the ways to people that a configuration names.
type Channels struct {
	All []notify.Notifier
	// First and Second are the names of those that are told of each kind of news:
	// at once, and only when nobody has answered for escalate_after.
	First, Second map[notify.Kind][]string
}

// drainTime is how long a supervisor that leaves waits for its news to get out;
// what is left is in the outbox and goes with the next run.
const drainTime = 2 * time.Second

// post is the loop's way to people: a durable outbox, and what came of its tries.
type post struct {
	outbox   *notify.Outbox
	channels Channels

	mu   sync.Mutex
	came []notify.Event
	news chan struct{} // capacity 1: there may be something in came
}

// openPost makes the loop's way to people.
func (d *driver) openPost() {
	d.post = &post{news: make(chan struct{}, 1)}
	d.cleanup = append(d.cleanup, func() {
		if d.post.outbox == nil {
			return
		}
		ctx, stop := context.WithTimeout(context.Background(), drainTime)
		defer stop()
		if err := d.post.outbox.Close(ctx); err != nil {
			d.log.Warn("news are still in the outbox; the next run sends them", zap.Error(err))
		}
		if err := d.tellDeliveries(); err != nil {
			d.log.Warn("a delivery could not be recorded", zap.Error(err))
		}
	})
	d.configurePost()
}

// configurePost takes the channels of the configuration in force. Without any
// there is no outbox; one that cannot be opened is said and stops no loop.
func (d *driver) configurePost() {
	p := d.post
	if p == nil || d.o.Channels == nil {
		return
	}
	p.channels = d.o.Channels(d.o.Config)
	if p.outbox != nil {
		p.outbox.Configure(p.channels.All)
		for _, n := range p.channels.All {
			p.outbox.Retry(n.Name())
		}
		return
	}
	if len(p.channels.All) == 0 {
		return
	}
	box, err := notify.Open(notify.Options{Dir: d.paths.Outbox(), Disk: d.o.Disk, Channels: p.channels.All,
		Redact: agent.Secrets(d.host.Env(), nil), OnEvent: p.take})
	if err != nil {
		d.log.Error("nobody can be told of what needs a person", zap.Error(err))
		return
	}
	p.outbox = box
}

// take notes what came of a try; it is called by the outbox's goroutines.
func (p *post) take(ev notify.Event) {
	p.mu.Lock()
	p.came = append(p.came, ev)
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
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

// tellDeliveries records what came of the tries so far.
func (d *driver) tellDeliveries() error {
	if d.post == nil {
		return nil
	}
	d.post.mu.Lock()
	came := d.post.came
	d.post.came = nil
	d.post.mu.Unlock()
	for _, ev := range came {
		if ev.Loop != "" && ev.Loop != d.o.LoopID {
			continue
		}
		if err := d.record(ev.Name, notificationFields{ev.Notifier, ev.Attempt, string(ev.Kind), ev.Escalation, ev.Reason, ev.Final}); err != nil {
			return err
		}
	}
	return nil
}

// announce puts news into the outbox; what was announced before is not again.
func (d *driver) announce(m notify.Message, second bool) {
	p := d.post
	if p == nil || p.outbox == nil {
		return
	}
	to := p.channels.First[m.Kind]
	if second {
		to = p.channels.Second[m.Kind]
	}
	if len(to) == 0 {
		return
	}
	if err := p.outbox.Enqueue(m, to...); err != nil {
		d.log.Error("a person could not be told", zap.Error(err))
	}
}

// message is the news that a question makes.
func message(rec escalation.Record, kind notify.Kind, n int) notify.Message {
	q, act := rec.Question, rec.Actions()
	m := notify.Message{ID: q.ID + "/" + string(kind), Escalation: q.ID, Kind: kind, Loop: q.Loop, Repo: q.Repo, Iteration: q.Iteration,
		Type: string(q.Type), Status: string(rec.State), Reason: q.Reason, Digest: rec.Digest, Created: q.Created, Expires: q.Expires,
		Actions: notify.Actions{Approve: act.Approve, Reject: act.Reject, Manual: act.Manual}}
	if n > 0 {
		m.ID = fmt.Sprintf("%s/%d", m.ID, n)
	}
	if c := q.Command; c != nil {
		m.Command, m.WorkingDir, m.Category, m.RootCause = string(c.Text), c.WorkingDir, c.Category, c.RootCause
	}
	if a := rec.Answer; a != nil {
		m.By, m.Note = a.By.String(), a.Note
	}
	return m
}

// announceOpen tells of an open question, and again as it ages. It returns when
// it is to be called next, at the latest when the question lapses.
func (d *driver) announceOpen(rec escalation.Record) time.Time {
	d.announceOnce(message(rec, notify.Opened, 0), false)
	q, now := rec.Question, d.o.Now()
	next := q.Expires
	if every := d.o.Config.Escalation.RemindAfter; every > 0 {
		n := int(now.Sub(q.Created) / every)
		if n > 0 {
			d.announceOnce(message(rec, notify.Reminder, n), false)
		}
		next = earlier(next, q.Created.Add(time.Duration(n+1)*every))
	}
	if after := d.o.Config.Escalation.EscalateAfter; after > 0 {
		if at := q.Created.Add(after); now.Before(at) {
			next = earlier(next, at)
		} else {
			d.announceOnce(message(rec, notify.Aged, 0), true)
		}
	}
	return next
}

// announceOnce spares the outbox what this supervisor has put there already.
func (d *driver) announceOnce(m notify.Message, second bool) {
	if d.post == nil || d.post.outbox == nil {
		return // whoever is configured later has not been told
	}
	if d.told == nil {
		d.told = map[string]bool{}
	}
	if !d.told[m.ID] {
		d.told[m.ID] = true
		d.announce(m, second)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// announceEnd tells what became of a question, and takes back what has not gone
// out of it yet.
func (d *driver) announceEnd(rec escalation.Record) {
	if d.post == nil || d.post.outbox == nil {
		return
	}
	d.post.outbox.Withdraw(rec.Question.ID)
	m := message(rec, notify.Resolved, 0)
	d.announceOnce(m, false)
	if after := d.o.Config.Escalation.EscalateAfter; after > 0 && !d.o.Now().Before(rec.Question.Created.Add(after)) {
		m.ID += "/second"
		d.announceOnce(m, true)
	}
}

// announceHeld tells of a change of the configuration that waits to be trusted.
func (d *driver) announceHeld(digest string, loosening int) {
	next := "superloop config trust --repo " + escalation.Quote(d.paths.Repo) + " --digest " + digest[:min(8, len(digest))]
	d.announceOnce(notify.Message{ID: "held/" + digest, Kind: notify.ConfigChangeHeld, Loop: d.o.LoopID, Repo: d.paths.Repo,
		Iteration: d.state.Iteration, Type: string(escalation.PolicyChange), Status: "held", Digest: digest, Created: d.o.Now().UTC(),
		Reason:  fmt.Sprintf("config.json would allow more than was trusted (%d changes); that is not in force", loosening),
		Actions: notify.Actions{Approve: next, Manual: "superloop config diff --repo " + escalation.Quote(d.paths.Repo)}}, false)
}

// patience is how long a question waits for an answer.
func patience(c *config.Config) time.Duration {
	if c.Escalation.ExpiresAfter > 0 {
		return c.Escalation.ExpiresAfter
	}
	return escalation.DefaultPatience
}

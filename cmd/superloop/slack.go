package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/escalation/slack"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
)

// clickGrace is how long clicks that are being answered may take when the run ends, or other people may answer from now
// on.
const clickGrace = 5 * time.Second

// slackSide is what a test puts in the place of Slack; empty outside of tests.
type slackSide struct {
	api   string   // in the place of https://slack.com/api/
	hosts []string // that may be answered besides Slack's
}

// clickDesk takes the answers that people click in Slack, for the life of a run, as the configuration in force says:
// who may answer, and how clicks come.
type clickDesk struct {
	app  *app
	repo string
	log  *zap.Logger

	mu      sync.Mutex
	force   config.Slack
	stop    []func() // ends what listens now
	closed  bool
	say     func(text string)
	running sync.WaitGroup
}

// speak says where an operator is told what is wrong; nil is stderr.
func (d *clickDesk) speak(say func(text string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.say = say
}

func (d *clickDesk) warn(format string, args ...any) {
	text := "warning: " + fmt.Sprintf(format, args...) + "\n"
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.say == nil {
		fmt.Fprint(d.app.stderr, text)
		return
	}
	d.say(text)
}

// follow makes what a configuration says of Slack the rule from now on. Whoever may answer no longer is refused from
// then on. It waits for no network.
func (d *clickDesk) follow(cfg *config.Config) {
	d.mu.Lock()
	next := cfg.Escalation.Slack
	if d.closed || reflect.DeepEqual(d.force, next) {
		d.mu.Unlock()
		return
	}
	d.force = next
	d.silence()
	if !next.Buttons() {
		d.mu.Unlock()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.stop = append(d.stop, cancel)
	d.mu.Unlock()
	if next.AppTokenEnv != "" {
		d.socket(ctx, next)
	}
	if next.Listen != "" {
		d.endpoint(ctx, next)
	}
}

// may reports whether a user may answer, by what is in force and by what the file says now: a loop takes a new
// configuration when its next iteration begins, and whoever is taken out of the list may not answer until then. A file
// that is broken takes nobody out.
func (d *clickDesk) may(user string) bool {
	d.mu.Lock()
	listed := slices.Contains(d.force.Users, user)
	d.mu.Unlock()
	file, err := d.app.config(d.repo)
	return listed && (err != nil || slices.Contains(file.Escalation.Slack.Users, user))
}

// close ends the desk; clicks that are being answered come to their end first, within clickGrace.
func (d *clickDesk) close() {
	d.mu.Lock()
	d.closed = true
	d.silence()
	d.mu.Unlock()
	d.running.Wait()
}

// silence ends what listens now. The caller has the lock.
func (d *clickDesk) silence() {
	for _, stop := range d.stop {
		stop()
	}
	d.stop = nil
}

// channels are the channels of a configuration that comes into force, and makes its people those who may answer.
func (d *clickDesk) channels(cfg *config.Config) effects.Channels {
	set, _ := d.app.channels(cfg)
	d.follow(cfg)
	return set
}

// listen takes clicks by one way until what begin gives has ended; the secret is in a variable. The way is recorded with
// the answer.
func (d *clickDesk) listen(s config.Slack, way, variable, trouble string, begin func(redact.Secret, *slack.Clicks) (serve func(), err error)) {
	secret := redact.Secret(d.app.env(variable))
	if secret == "" {
		return // run has warned of it
	}
	clicks, err := slack.NewClicks(slack.ClicksOptions{
		Users: s.Users, Teams: s.Teams, AnswerHosts: d.app.slack.hosts,
		Resolve: func(ctx context.Context, c slack.Click) slack.Outcome { return d.resolve(ctx, way, c) },
		OnClick: func(c slack.Click, o slack.Outcome, err error) {
			d.log.Info("a click in Slack", zap.String("user", c.UserID), zap.String("team", c.Team), zap.String("action", string(c.Action)),
				zap.String("escalation", c.ID), zap.String("status", string(o.Status)), zap.Error(err))
		},
	})
	if err != nil {
		d.warn("nobody can answer in Slack: %v", err)
		return
	}
	serve, err := begin(secret, clicks)
	if err != nil {
		d.warn("%s: %v", trouble, err)
		return
	}
	d.running.Go(func() {
		defer d.leave(clicks)
		serve()
	})
}

// socket listens through Socket Mode until ctx ends.
func (d *clickDesk) socket(ctx context.Context, s config.Slack) {
	const trouble = "nobody can answer in Slack"
	d.listen(s, "socket_mode", s.AppTokenEnv, trouble, func(token redact.Secret, clicks *slack.Clicks) (func(), error) {
		socket, err := slack.NewSocket(slack.SocketOptions{AppToken: token, Clicks: clicks, APIURL: d.app.slack.api, OnState: func(up bool, reason string) {
			d.log.Info("Slack's Socket Mode", zap.Bool("connected", up), zap.String("reason", reason))
		}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.AppTokenEnv, err)
		}
		return func() {
			if err := socket.Run(ctx); err != nil {
				d.warn("%s: %v", trouble, err)
			}
		}, nil
	})
}

// endpoint listens at the loopback address until ctx ends.
func (d *clickDesk) endpoint(ctx context.Context, s config.Slack) {
	d.listen(s, "signature", s.SigningSecretEnv, "no clicks are taken at "+s.Listen, func(secret redact.Secret, clicks *slack.Clicks) (func(), error) {
		handler, err := slack.NewHandler(secret, clicks)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.SigningSecretEnv, err)
		}
		listener, err := net.Listen("tcp", s.Listen)
		if err != nil {
			return nil, err
		}
		d.log.Info("clicks in Slack are taken", zap.Stringer("address", listener.Addr()))
		server := &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
			MaxHeaderBytes: 64 << 10, ErrorLog: log.New(io.Discard, "", 0)}
		d.mu.Lock()
		// At once, so that the next configuration can have the address.
		d.stop = append(d.stop, func() { _ = listener.Close(); _ = server.Close() })
		d.mu.Unlock()
		return func() {
			if err := server.Serve(listener); ctx.Err() == nil {
				d.warn("no more clicks are taken at %s: %v", s.Listen, notify.OneLine(err.Error(), 200))
			}
		}, nil
	})
}

// leave lets clicks come to their end.
func (d *clickDesk) leave(clicks *slack.Clicks) {
	ctx, cancel := context.WithTimeout(context.Background(), clickGrace)
	defer cancel()
	clicks.Close(ctx)
}

// resolve carries a click out: it answers the question that the message was about, and no other, in whichever loop of
// this repository asks it.
func (d *clickDesk) resolve(ctx context.Context, way string, c slack.Click) slack.Outcome {
	if !d.may(c.UserID) {
		return slack.Outcome{Status: slack.Refused, Text: "you may not answer any more"}
	}
	store, rec, err := d.question(c.ID)
	switch {
	case errors.Is(err, escalation.ErrNothingPending):
		return slack.Outcome{Status: slack.Unknown}
	case err != nil:
		return slack.Outcome{Status: slack.Failed, Text: err.Error()}
	case rec.Digest != c.Digest:
		return slack.Outcome{Status: slack.Outdated}
	case c.Action == slack.Details:
		o := slack.Outcome{Status: slack.Accepted, Text: escalation.Describe(rec, 0)}
		if rec.Lapsed(time.Now()) || rec.State != escalation.Pending {
			past := ended(rec)
			past.Text, o = o.Text, past
		}
		return o
	case rec.State != escalation.Pending:
		return ended(rec)
	}
	method := escalation.Reject
	if c.Action == slack.Approve {
		method = escalation.Approve
	}
	user := c.UserID
	if c.UserName != "" {
		user = fmt.Sprintf("%s (%s)", c.UserID, c.UserName)
	}
	answered, err := store.Answer(ctx, escalation.AnswerRequest{Method: method, ID: c.ID, Digest: c.Digest,
		By: escalation.By{Channel: escalation.Slack, User: user, Method: way}})
	if err == nil {
		return slack.Outcome{Status: slack.Accepted, Message: outcomeMessage(answered)}
	}
	return d.refused(c.ID, err)
}

// refused is why an answer does not count, for the operator who clicked.
func (d *clickDesk) refused(id string, err error) slack.Outcome {
	o := slack.Outcome{Status: slack.Failed, Text: err.Error()}
	decided, isDecided := errors.AsType[*escalation.DecidedError](err)
	_, other := errors.AsType[*escalation.MismatchError](err)
	_, late := errors.AsType[*escalation.ExpiredError](err)
	switch {
	case isDecided:
		o = slack.Outcome{Status: slack.AlreadyDecided, By: decided.First.By.String()}
	case late:
		o = slack.Outcome{Status: slack.Expired}
	case other:
		o = slack.Outcome{Status: slack.Outdated}
	case errors.Is(err, escalation.ErrNothingPending):
		o = slack.Outcome{Status: slack.Unknown}
	}
	if _, rec, err := d.question(id); err == nil && rec.Answer != nil {
		o.Message = outcomeMessage(rec)
	}
	return o
}

// ended is what there is to say of a question that waits no more.
func ended(rec escalation.Record) slack.Outcome {
	o := slack.Outcome{Status: slack.Outdated, Message: outcomeMessage(rec)}
	switch {
	case rec.Answer != nil:
		o.Status, o.By = slack.AlreadyDecided, rec.Answer.By.String()
	case rec.State == escalation.Expired || rec.Lapsed(time.Now()):
		o.Status = slack.Expired
	}
	return o
}

// question finds a question of this repository's loops by its whole id, with the store of its loop; one of before too.
// A record that cannot be believed hides no other loop's.
func (d *clickDesk) question(id string) (store escalation.Store, rec escalation.Record, err error) {
	ids, err := d.app.loopIDs(d.repo)
	if err != nil {
		return store, rec, err
	}
	loops, err := d.app.places(d.repo, ids...)
	if err != nil {
		return store, rec, err
	}
	none := escalation.ErrNothingPending
	for _, l := range loops {
		store = d.app.questions(l)
		rec, err := store.Load()
		switch {
		case err == nil && rec.Question.ID == id:
			return store, rec, nil
		case err != nil && !errors.Is(err, escalation.ErrNothingPending):
			none = err
		}
	}
	for _, l := range loops {
		store = d.app.questions(l)
		// What of the archive cannot be read is no answer to a click.
		records, _ := store.Archive()
		if i := slices.IndexFunc(records, func(r escalation.Record) bool { return r.Question.ID == id }); i >= 0 {
			return store, records[i], nil
		}
	}
	return store, rec, none
}

// outcomeMessage takes the place of the message that was clicked.
func outcomeMessage(rec escalation.Record) *notify.Message {
	q := rec.Question
	m := notify.Message{ID: q.ID + "/clicked", Escalation: q.ID, Kind: notify.Resolved, Loop: q.Loop, Repo: q.Repo, Iteration: q.Iteration,
		Type: string(q.Type), Status: string(rec.State), Digest: rec.Digest, Created: q.Created}
	if q.Command != nil {
		m.Command, m.WorkingDir = string(q.Command.Text), q.Command.WorkingDir
	}
	if rec.State == escalation.Pending { // its time is over, and nobody has written that down yet
		m.Status = string(escalation.Expired)
	}
	if rec.Answer != nil {
		m.By, m.Note = rec.Answer.By.String(), rec.Answer.Note
	}
	return &m
}

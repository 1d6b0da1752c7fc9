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

// clickGrace bounds how long superloop waits for clicks that are being answered, when the run ends or other settings of
// Slack come into force.
const clickGrace = 5 * time.Second

// slackSide holds addresses that a test uses in place of Slack's. It is empty outside of tests.
type slackSide struct {
	api   string   // replaces https://slack.com/api/
	hosts []string // hosts to which superloop may send answers besides Slack's
}

// clickDesk takes the answers that operators give by a click in Slack while a run lasts. The configuration in force
// says who may answer, and how Slack delivers clicks.
type clickDesk struct {
	app  *app
	repo string
	log  *zap.Logger

	mu      sync.Mutex
	force   config.Slack
	stop    []func() // ends the present listeners
	closed  bool
	say     func(text string)
	running sync.WaitGroup
}

// speak sets the function that shows warnings to the operator. nil stands for stderr.
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

// follow applies the Slack settings of a configuration. From then on clickDesk refuses a user whom the settings no
// longer list. follow does not wait for the network.
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

// may reports whether a user may answer. Both the configuration in force and the present file have to list the user. A
// loop takes up a new configuration only when its next iteration begins, and a user whom the operator has removed from
// the file must not answer until then. A broken file removes nobody.
func (d *clickDesk) may(user string) bool {
	d.mu.Lock()
	listed := slices.Contains(d.force.Users, user)
	d.mu.Unlock()
	file, err := d.app.config(d.repo, "")
	return listed && (err != nil || slices.Contains(file.Escalation.Slack.Users, user))
}

// close ends the listeners. It waits for clicks that are being answered, for clickGrace at most.
func (d *clickDesk) close() {
	d.mu.Lock()
	d.closed = true
	d.silence()
	d.mu.Unlock()
	d.running.Wait()
}

// silence ends the present listeners. The caller holds d.mu.
func (d *clickDesk) silence() {
	for _, stop := range d.stop {
		stop()
	}
	d.stop = nil
}

// channels returns the channels of a configuration that comes into force, and applies its Slack settings.
func (d *clickDesk) channels(cfg *config.Config) effects.Channels {
	set, _ := d.app.channels(cfg)
	d.follow(cfg)
	return set
}

// listen takes clicks from one source until the function that begin returns has ended. variable names the environment
// variable that holds the secret. The answer to a question records way. trouble begins the warning if the source cannot
// be used.
func (d *clickDesk) listen(s config.Slack, way, variable, trouble string, begin func(redact.Secret, *slack.Clicks) (serve func(), err error)) {
	secret := redact.Secret(d.app.env(variable))
	if secret == "" {
		return // run has warned that it is missing
	}
	clicks, err := slack.NewClicks(slack.ClicksOptions{
		Users: s.Users, Teams: s.Teams, AnswerHosts: d.app.slack.hosts,
		Resolve: func(ctx context.Context, c slack.Click) slack.Outcome { return d.resolve(ctx, way, c) },
		Owns: func(id string) bool {
			_, _, err := d.question(id)
			return err == nil
		},
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

// socket takes clicks through Slack's Socket Mode until ctx ends.
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
			if err := d.app.sockets.Run(ctx, socket); err != nil {
				d.warn("%s: %v", trouble, err)
			}
		}, nil
	})
}

// endpoint takes clicks by HTTP at the loopback address until silence closes the listener.
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
		// silence closes the listener at once, so that the next configuration can use the address.
		d.stop = append(d.stop, func() { _ = listener.Close(); _ = server.Close() })
		d.mu.Unlock()
		return func() {
			if err := server.Serve(listener); ctx.Err() == nil {
				d.warn("no more clicks are taken at %s: %v", s.Listen, notify.OneLine(err.Error(), 200))
			}
		}, nil
	})
}

// leave waits for clicks that are being answered, for clickGrace at most.
func (d *clickDesk) leave(clicks *slack.Clicks) {
	ctx, cancel := context.WithTimeout(context.Background(), clickGrace)
	defer cancel()
	clicks.Close(ctx)
}

// resolve carries a click out. It answers only the question that the clicked message was about, in whichever loop of
// this repository asks it. A click on Details changes nothing and shows the question.
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

// refused tells the operator who clicked why the answer does not count.
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

// ended describes the outcome of a question that no longer waits.
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

// question finds a question of this repository's loops by its whole id, and returns it with the store of its loop. It
// also finds earlier questions. A damaged record of one loop does not hide the questions of other loops.
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
		// A record of the archive that cannot be read does not matter to a click.
		records, _ := store.Archive()
		if i := slices.IndexFunc(records, func(r escalation.Record) bool { return r.Question.ID == id }); i >= 0 {
			return store, records[i], nil
		}
	}
	return store, rec, none
}

// outcomeMessage returns the message that replaces the clicked one and says what became of the question.
func outcomeMessage(rec escalation.Record) *notify.Message {
	q := rec.Question
	m := notify.Message{ID: q.ID + "/clicked", Escalation: q.ID, Kind: notify.Resolved, Loop: q.Loop, Repo: q.Repo, Iteration: q.Iteration,
		Type: string(q.Type), Status: string(rec.State), Digest: rec.Digest, Created: q.Created}
	if q.Command != nil {
		m.Command, m.WorkingDir = string(q.Command.Text), q.Command.WorkingDir
	}
	if rec.State == escalation.Pending { // the question has expired, and no process has recorded that yet
		m.Status = string(escalation.Expired)
	}
	if rec.Answer != nil {
		m.By, m.At, m.Note = rec.Answer.By.String(), rec.Answer.At.UTC(), rec.Answer.Note
	}
	return &m
}

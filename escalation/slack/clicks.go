package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/redact"
)

const (
	resolveTimeout = 30 * time.Second
	maxWaiting     = 64   // clicks that are being answered at the same time
	rememberClicks = 1000 // for telling a repeated delivery
	answerTries    = 3
	answerBackoff  = time.Second
)

// ClicksOptions say who may answer and what an answer does.
type ClicksOptions struct {
	Users   []string // the Slack user ids ("U012AB3CD") that may answer: at least one, and there is no word for everybody
	Teams   []string // the workspace ids ("T012AB3CD") that clicks may come from; none is any that the app is installed in
	Resolve Resolver
	// OnClick gets each click after it was answered, for the audit. err, without URL, says why the user got no answer.
	OnClick     func(c Click, o Outcome, err error)
	AnswerHosts []string // hosts besides Slack's own that answers may be sent to
}

// Clicks judges clicks, has them carried out, and answers them. A Socket and a handler may share it.
type Clicks struct {
	o    ClicksOptions
	stop context.Context
	halt context.CancelFunc
	seen seen

	mu     sync.Mutex
	closed bool
	active int
	tasks  sync.WaitGroup
}

// NewClicks checks the options.
func NewClicks(o ClicksOptions) (*Clicks, error) {
	if len(o.Users) == 0 {
		return nil, errors.New("slack buttons need at least one Slack user id that may answer (for example U012AB3CD)")
	}
	for _, id := range slices.Concat(o.Users, o.Teams) {
		if id == "" || strings.TrimFunc(id, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }) != "" {
			return nil, fmt.Errorf("%q is no Slack id: those look like U012AB3CD (a user) and T012AB3CD (a workspace), and a name does not do", id)
		}
	}
	if o.Resolve == nil {
		return nil, errors.New("slack buttons need a resolver")
	}
	if o.OnClick == nil {
		o.OnClick = func(Click, Outcome, error) {}
	}
	c := &Clicks{o: o, seen: seen{limit: rememberClicks}}
	c.stop, c.halt = context.WithCancel(context.Background())
	return c, nil
}

// Close takes no more clicks and waits for those that are being answered; when ctx ends they are cut short.
func (c *Clicks) Close(ctx context.Context) {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	done := make(chan struct{})
	go func() { c.tasks.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	c.halt()
	<-done
}

// take starts the answer to a callback. It drops what is not for superloop, what came before, and what is too much.
func (c *Clicks) take(cb slack.InteractionCallback) {
	if cb.Type != slack.InteractionTypeBlockActions {
		return
	}
	for _, action := range cb.ActionCallback.BlockActions {
		name, ours := strings.CutPrefix(action.ActionID, actionPrefix)
		if !ours || action.BlockID != buttonsBlock {
			continue
		}
		key := strings.Join([]string{cb.Team.ID, cb.User.ID, action.ActionTs, cb.TriggerID, action.ActionID, action.Value}, "\x00")
		c.mu.Lock()
		if c.closed || c.active >= maxWaiting || !c.seen.add(key) {
			c.mu.Unlock()
			return
		}
		c.active++
		c.tasks.Go(func() {
			c.handle(cb, Action(name), action.Value)
			c.mu.Lock()
			c.active--
			c.mu.Unlock()
		})
		c.mu.Unlock()
		return // one payload has one click
	}
}

func (c *Clicks) handle(cb slack.InteractionCallback, a Action, raw string) {
	click := Click{Action: a, UserID: cb.User.ID, UserName: notify.OneLine(cb.User.Name, footerField), Team: cmp.Or(cb.Team.ID, cb.User.TeamID)}
	outcome := c.judge(&click, raw)
	c.o.OnClick(click, outcome, c.answer(cb, click, outcome))
}

// judge gives what comes of a click. A panic of the resolver does not end the supervisor.
func (c *Clicks) judge(click *Click, raw string) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			o = Outcome{Status: Failed, Text: "internal error"}
		}
	}()
	// Who comes first: to others even the form of a good button is none of their business.
	if !slices.Contains(c.o.Users, click.UserID) || len(c.o.Teams) > 0 && !slices.Contains(c.o.Teams, click.Team) {
		return Outcome{Status: Foreign}
	}
	v, err := readValue(raw)
	if err != nil || !slices.Contains([]Action{Approve, Reject, Details}, click.Action) {
		return Outcome{Status: Malformed}
	}
	click.ID, click.Digest = v.ID, v.Digest
	ctx, cancel := context.WithTimeout(c.stop, resolveTimeout)
	defer cancel()
	return c.o.Resolve(ctx, *click)
}

func readValue(raw string) (v value, err error) {
	d := json.NewDecoder(strings.NewReader(raw))
	d.DisallowUnknownFields()
	err = d.Decode(&v)
	if _, more := d.Token(); err == nil && (more != io.EOF || len(raw) > maxValue || v.ID == "" || v.Digest == "") {
		err = errors.New("it is no value of a button of superloop")
	}
	return v, err
}

// answer tells the user, through the click's response URL. Slack takes five uses in half an hour; two at most are made.
func (c *Clicks) answer(cb slack.InteractionCallback, click Click, o Outcome) error {
	endpoint, err := c.responseURL(redact.Secret(cb.ResponseURL))
	if err != nil {
		return err
	}
	if o.Message != nil && o.Status != Foreign && o.Status != Malformed {
		msg := Build(*o.Message, Style{})
		msg.ReplaceOriginal = true
		if err := c.post(endpoint, msg); err != nil || o.Status == Accepted && click.Action != Details {
			return err // if it is nil, everybody sees the answer in the message now
		}
	}
	msg := message(o.words(click.Action), nil)
	msg.ResponseType = slack.ResponseTypeEphemeral
	return c.post(endpoint, msg)
}

func (c *Clicks) responseURL(raw redact.Secret) (*notify.Endpoint, error) {
	u, err := url.Parse(raw.Reveal())
	if err != nil || !slackHost(u.Hostname()) && !slices.Contains(c.o.AnswerHosts, u.Hostname()) {
		return nil, errors.New("the click has no response URL of Slack")
	}
	endpoint, err := notify.NewEndpoint(raw, notify.EndpointOptions{})
	if err != nil {
		return nil, errors.New("the click has a response URL that may not be used")
	}
	return endpoint, nil
}

func (c *Clicks) post(endpoint *notify.Endpoint, msg *slack.WebhookMessage) error {
	body, err := json.Marshal(msg)
	if err != nil {
		return errors.New("writing the answer as JSON failed")
	}
	for try := 1; ; try++ {
		reply, err := endpoint.Post(c.stop, nil, body)
		if err == nil {
			err = reply.Err()
		}
		temporary, again := errors.AsType[*notify.TemporaryError](err)
		if err == nil || !again || try == answerTries || c.stop.Err() != nil {
			return err
		}
		pause(c.stop, max(time.Duration(try)*answerBackoff, min(temporary.RetryAfter, resolveTimeout)))
	}
}

// seen remembers the last keys, up to its limit.
type seen struct {
	limit int
	keys  []string
}

// add reports whether key is new.
func (s *seen) add(key string) bool {
	if slices.Contains(s.keys, key) {
		return false
	}
	s.keys = append(s.keys, key)
	s.keys = s.keys[max(0, len(s.keys)-s.limit):]
	return true
}

// Action is what a button asks for.
type Action string

const (
	Approve Action = "approve"
	Reject  Action = "reject"
	Details Action = "details"
)

// Click is a press of a button by a user who may answer. Record UserID ("slack:U123"); UserName is the user's choice.
type Click struct {
	ID       string // of the escalation
	Digest   string // what the user saw; an answer to anything else is void
	Action   Action
	UserID   string
	UserName string
	Team     string
}

// Status is what became of a click.
type Status string

const (
	Accepted       Status = "accepted"        // this click decided it, or these are the details
	AlreadyDecided Status = "already_decided" // by Outcome.By
	Outdated       Status = "outdated"        // another command is pending now
	Expired        Status = "expired"
	Unknown        Status = "unknown" // no escalation of ours
	Refused        Status = "refused" // Outcome.Text says why
	Failed         Status = "failed"  // the answer could not be recorded; Outcome.Text says why
	// These never come from a Resolver: a user who may not answer, and a click that is not from a button of superloop.
	Foreign   Status = "foreign"
	Malformed Status = "malformed"
)

// Outcome is what a Resolver says of a click. Text is shown to the user, in a code block: the details, for Details.
type Outcome struct {
	Status Status
	By     string // who decided before
	Text   string
	// Message, if set, takes the place of the message that was clicked: usually the Resolved one.
	Message *notify.Message
}

// Resolver carries a click out. It must be idempotent, bound to Click.Digest, and end when ctx does (30 s).
type Resolver func(ctx context.Context, c Click) Outcome

// words is the answer to the user.
func (o Outcome) words(a Action) string {
	const unchanged = " Your click changed nothing"
	by := ""
	if o.By != "" {
		by = " by " + span(o.By, footerField)
	}
	said, known := map[Status]string{
		AlreadyDecided: "This was decided already" + by + "." + unchanged + ".",
		Outdated:       "This message is about a command that is no longer asked about; a newer question has taken its place." + unchanged + ".",
		Expired:        "This question has expired." + unchanged + ".",
		Unknown:        "This superloop does not know the question: it belongs to another one, or is long over." + unchanged + ".",
		Refused:        "superloop did not take this answer.",
		Foreign:        "You are not among the operators who may answer superloop here." + unchanged + "; ask the owner of the repository to add your Slack user id.",
		Malformed:      "superloop could not read this button." + unchanged + "; use the lines for the terminal.",
	}[o.Status]
	switch {
	case o.Status == Accepted && a == Approve:
		said = "Approved. superloop runs the command once."
	case o.Status == Accepted && a == Reject:
		said = "Rejected. The command does not run."
	case o.Status == Accepted:
		said = "Details:"
	case !known:
		said = "superloop could not record your answer. Please try again, or use the lines for the terminal."
	}
	if o.Text != "" {
		said += "\n" + fenced(o.Text)
	}
	return said
}

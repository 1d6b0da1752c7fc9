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
	"github.com/superloop/superloop/internal/text"
)

const (
	resolveTimeout = 30 * time.Second
	maxWaiting     = 64   // maximum number of clicks that are handled at the same time
	rememberClicks = 1000 // number of clicks remembered to detect a repeated delivery
	answerTries    = 3
	answerBackoff  = time.Second
)

// ClicksOptions say which users may answer, and what an answer does.
type ClicksOptions struct {
	Users   []string // the ids ("U012AB3CD") of the Slack users who may answer; at least one, and no id means everybody
	Teams   []string // the ids ("T012AB3CD") of the workspaces that clicks may come from; empty means any
	Resolve Resolver
	Owns    func(escalation string) bool // whether Resolve knows the escalation, for a Hub; nil means none
	// OnClick gets each click after Clicks has handled it, for the audit log. If the user got no reply, err says why,
	// without the URL.
	OnClick     func(c Click, o Outcome, err error)
	AnswerHosts []string // hosts other than Slack's to which replies may be sent
}

// Clicks checks who clicked, passes the click to the Resolver and replies to the user. A Socket and a handler may share
// one Clicks.
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

// NewClicks returns a Clicks, or an error if the options are not valid.
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

// Close stops taking clicks and waits for those that are being handled. When ctx ends, it cancels them.
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

// take starts the handling of a click in a callback. It drops a callback that is not for superloop, one that it has
// seen before, and one that exceeds maxWaiting.
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
		return // a payload has only one click
	}
}

func (c *Clicks) handle(cb slack.InteractionCallback, a Action, raw string) {
	click := Click{Action: a, UserID: cb.User.ID, UserName: notify.OneLine(cb.User.Name, footerField), Team: cmp.Or(cb.Team.ID, cb.User.TeamID)}
	outcome := c.judge(&click, raw)
	c.o.OnClick(click, outcome, c.answer(cb, click, outcome))
}

// judge returns the outcome of a click. A panic of the Resolver becomes the outcome Failed and does not end the
// supervisor.
func (c *Clicks) judge(click *Click, raw string) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			o = Outcome{Status: Failed, Text: "internal error"}
		}
	}()
	// Check the user first: other users shall not even learn whether a button is well-formed.
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
	err = text.Reason(d.Decode(&v))
	if _, more := d.Token(); err == nil && (more != io.EOF || len(raw) > maxValue || v.ID == "" || v.Digest == "") {
		err = errors.New("it is no value of a button of superloop")
	}
	return v, err
}

// answer tells the user the outcome through the response URL of the click. Slack allows five uses of the URL in half an
// hour; answer sends at most two messages (post may try each one again).
func (c *Clicks) answer(cb slack.InteractionCallback, click Click, o Outcome) error {
	endpoint, err := c.responseURL(redact.Secret(cb.ResponseURL))
	if err != nil {
		return err
	}
	if o.Message != nil && o.Status != Foreign && o.Status != Malformed {
		msg := Build(*o.Message, Style{})
		msg.ReplaceOriginal = true
		if err := c.post(endpoint, msg); err != nil || o.Status == Accepted && click.Action != Details {
			return err // after a success everybody sees the answer in the message
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

// seen remembers the last keys, as many as limit says.
type seen struct {
	limit int
	keys  []string
}

// add remembers the key and reports whether it is new.
func (s *seen) add(key string) bool {
	if slices.Contains(s.keys, key) {
		return false
	}
	s.keys = append(s.keys, key)
	s.keys = s.keys[max(0, len(s.keys)-s.limit):]
	return true
}

// Action is the action of a button.
type Action string

const (
	Approve Action = "approve"
	Reject  Action = "reject"
	Details Action = "details"
)

// Click is the click of a user on a button. For records use UserID ("slack:U123"), because users choose their UserName
// themselves.
type Click struct {
	ID       string // the id of the escalation
	Digest   string // the digest in the message that the user saw; the answer counts for nothing else
	Action   Action
	UserID   string
	UserName string
	Team     string
}

// Status is the outcome of a click.
type Status string

const (
	Accepted       Status = "accepted"        // this click decided the question, or the user asked for details
	AlreadyDecided Status = "already_decided" // Outcome.By decided it before
	Outdated       Status = "outdated"        // another command is pending now
	Expired        Status = "expired"
	Unknown        Status = "unknown" // superloop has no such escalation
	Refused        Status = "refused" // Outcome.Text says why
	Failed         Status = "failed"  // superloop could not record the answer; Outcome.Text says why
	// No Resolver returns these two. Foreign means that the user may not answer. Malformed means that the button is not
	// superloop's.
	Foreign   Status = "foreign"
	Malformed Status = "malformed"
)

// Outcome is a Resolver's result for a click. Clicks shows Text to the user in a code block; for the action Details it
// holds the details.
type Outcome struct {
	Status Status
	By     string // the operator who decided before
	Text   string
	// Message, if set, replaces the message that the user clicked. Usually it is the message of kind Resolved.
	Message *notify.Message
}

// Resolver performs the action of a click. It must be idempotent, must apply only to the question with Click.Digest,
// and must end when ctx does (after 30 s).
type Resolver func(ctx context.Context, c Click) Outcome

// words returns the reply to the user.
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

package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/redact"
)

const (
	metadataType = "superloop_message"
	detailsID    = "/details" // behind the id of a message, in the metadata of its details
	// How far a search for a message goes back before the time when it was enqueued, because Slack's clock is another one.
	searchBefore = time.Hour
	searchPage   = 50 // messages
	searchPages  = 10
)

var channelForm = pattern.Lazy(`^[CG][A-Z0-9]{2,31}$`)

// BotOptions configure a Bot. The zero value means the defaults.
type BotOptions struct {
	Style                  // Threaded is always set
	APIURL          string // replaces https://slack.com/api/
	EndpointOptions notify.EndpointOptions
}

// Bot is the notify.Recaller that posts with a bot token. It needs the scope chat:write. With channels:history (in a
// private channel groups:history) it finds after a crash what it has posted, so that no message comes twice.
type Bot struct {
	name    string
	channel string
	style   Style
	api     *api
}

// NewBot returns a Bot that posts to the channel of this id ("C012AB3CD"), or an error if an argument is not valid.
func NewBot(name string, token redact.Secret, channel string, o BotOptions) (*Bot, error) {
	switch {
	case !strings.HasPrefix(token.Reveal(), "xoxb-"):
		return nil, fmt.Errorf("channel %q: the token is no bot token, which begins with xoxb- (it is under OAuth & Permissions, Bot User OAuth Token)", name)
	case !channelForm().MatchString(channel):
		return nil, fmt.Errorf("channel %q: %q is no id of a Slack channel, which looks like C012AB3CD (in Slack: the channel's name, About, at the bottom)", name, channel)
	}
	api, err := newAPI(token, o)
	if err != nil {
		return nil, fmt.Errorf("channel %q: %w", name, err)
	}
	return &Bot{name: name, channel: channel, style: Style{Buttons: o.Buttons, Threaded: true}, api: api}, nil
}

// Name implements notify.Notifier.
func (b *Bot) Name() string { return b.name }

// Send implements notify.Notifier.
func (b *Bot) Send(ctx context.Context, m notify.Message) error {
	return b.Deliver(ctx, m, notify.Delivery{})
}

// receipt is what a Bot keeps of a message.
type receipt struct {
	TS      string `json:"ts"`
	Details bool   `json:"details,omitempty"` // whether its details are below it
}

func readReceipt(s string) (r receipt) {
	if s == "" || json.Unmarshal([]byte(s), &r) != nil || !isTS(r.TS) {
		return receipt{}
	}
	return r
}

// isTS reports whether s is the name that Slack gives to a message: seconds, a point, and six digits.
func isTS(s string) bool {
	seconds, rest, ok := strings.Cut(s, ".")
	_, bad := strconv.ParseUint(seconds, 10, 63)
	_, worse := strconv.ParseUint(rest, 10, 63)
	return ok && bad == nil && worse == nil && len(s) <= 32
}

// Deliver implements notify.Recaller. The answer to a question changes the messages about it, and stands in their
// thread. A reminder stands in the thread and in the channel. Everything else stands in the channel.
func (b *Bot) Deliver(ctx context.Context, m notify.Message, d notify.Delivery) error {
	keep := func(r receipt) {
		if raw, err := json.Marshal(r); err == nil && d.Keep != nil {
			d.Keep(string(raw))
		}
	}
	earlier, err := b.earlier(ctx, d)
	if err != nil {
		return err
	}
	p := post{Channel: b.channel, id: m.ID}
	if m.Kind == notify.Resolved {
		left, closed, err := b.change(ctx, m, earlier)
		if err != nil {
			return err
		}
		earlier, p.Broadcast = left, closed
	}
	if len(earlier) > 0 {
		p.Thread = earlier[0]
		p.Broadcast = p.Broadcast || m.Kind != notify.Resolved
	}
	at := readReceipt(d.Receipt)
	if at.TS == "" {
		if at.TS, err = b.once(ctx, m, p, Build(m, b.style), d); err != nil {
			return err
		}
		keep(at)
	}
	details := Below(m)
	if at.Details || details == nil || p.Thread != "" {
		return nil
	}
	below := post{Channel: b.channel, Thread: at.TS, id: m.ID + detailsID}
	if _, err := b.once(ctx, m, below, details, d); err != nil && !gone(err) {
		return err
	}
	at.Details = true
	keep(at)
	return nil
}

// earlier returns the timestamps of the messages about the same question, the oldest first. It looks for those of which
// it is not known whether they have arrived.
func (b *Bot) earlier(ctx context.Context, d notify.Delivery) (all []string, err error) {
	for _, s := range d.Earlier {
		at := readReceipt(s.Receipt).TS
		if at == "" {
			if at, err = b.find(ctx, s.ID, "", s.Since); err != nil {
				return nil, err
			}
		}
		if at != "" {
			all = append(all, at)
		}
	}
	return all, nil
}

// change shows in the messages about a question what became of it. It returns those that still exist, and whether one of
// them cannot be changed. To change a message twice has the effect of once.
func (b *Bot) change(ctx context.Context, m notify.Message, messages []string) (left []string, closed bool, err error) {
	for _, at := range messages {
		_, err := b.send(ctx, "chat.update", m, post{Channel: b.channel, TS: at, id: m.ID}, Build(m, b.style))
		switch {
		case gone(err):
			continue
		case fixed(err):
			closed = true
		case err != nil:
			return nil, false, err
		}
		left = append(left, at)
	}
	return left, closed, nil
}

// once posts a message, unless an earlier try has posted it, and returns its timestamp. If the thread is gone, the
// message itself goes to the channel.
func (b *Bot) once(ctx context.Context, m notify.Message, p post, msg *slack.WebhookMessage, d notify.Delivery) (string, error) {
	if d.Again {
		if at, err := b.find(ctx, p.id, p.Thread, d.Since); at != "" || err != nil {
			return at, err
		}
	}
	at, err := b.send(ctx, "chat.postMessage", m, p, msg)
	if gone(err) && p.id == m.ID && p.Thread != "" {
		p.Thread, p.Broadcast = "", false
		return b.once(ctx, m, p, msg, d)
	}
	return at, err
}

// post is the body of chat.postMessage and of chat.update.
type post struct {
	Channel   string        `json:"channel"`
	TS        string        `json:"ts,omitempty"`
	Thread    string        `json:"thread_ts,omitempty"`
	Broadcast bool          `json:"reply_broadcast,omitempty"`
	Text      string        `json:"text"`
	Blocks    *slack.Blocks `json:"blocks,omitempty"`
	Parse     string        `json:"parse"`
	Links     *bool         `json:"unfurl_links,omitempty"`
	Media     *bool         `json:"unfurl_media,omitempty"`
	Metadata  metadata      `json:"metadata"`
	id        string
}

type metadata struct {
	Type    string `json:"event_type"`
	Payload struct {
		ID string `json:"id"`
	} `json:"event_payload"`
}

// send calls a method that posts or changes a message. If Slack refuses the blocks, it sends plain text.
func (b *Bot) send(ctx context.Context, method string, m notify.Message, p post, msg *slack.WebhookMessage) (string, error) {
	p.Metadata.Type, p.Metadata.Payload.ID = metadataType, p.id
	p.Text, p.Blocks, p.Parse, p.Links, p.Media = msg.Text, msg.Blocks, msg.Parse, msg.UnfurlLinks, msg.UnfurlMedia
	a, err := b.api.send(ctx, method, p)
	if word, ok := errors.AsType[*refusedError](err); ok && slices.Contains(malformed, word.word) {
		p.Text, p.Blocks = fenced(notify.Text(m)), &slack.Blocks{BlockSet: []slack.Block{}}
		a, err = b.api.send(ctx, method, p)
	}
	if err != nil {
		return "", verdictOf(err)
	}
	if !isTS(a.TS) {
		return "", &notify.TemporaryError{Reason: "Slack's answer to " + method + " names no message"}
	}
	return a.TS, nil
}

// find returns the timestamp of the message with this id in its metadata, in the channel or in a thread, or "". Without
// the scope to read the channel, it finds nothing.
func (b *Bot) find(ctx context.Context, id, thread string, since time.Time) (string, error) {
	method, args := "conversations.history", url.Values{"channel": {b.channel}, "include_all_metadata": {"true"}, "limit": {strconv.Itoa(searchPage)}}
	args.Set("oldest", strconv.FormatInt(since.Add(-searchBefore).Unix(), 10))
	if thread != "" {
		method = "conversations.replies"
		args.Set("ts", thread)
	}
	for range searchPages {
		a, err := b.api.read(ctx, method, args)
		if _, refused := errors.AsType[*refusedError](err); refused && !passing(err) {
			return "", nil // the post itself reports what is wrong
		} else if err != nil {
			return "", verdictOf(err)
		}
		for _, m := range a.Messages {
			if m.Metadata.Type == metadataType && m.Metadata.Payload.ID == id && isTS(m.TS) {
				return m.TS, nil
			}
		}
		if a.Next.Cursor == "" {
			break
		}
		args.Set("cursor", a.Next.Cursor)
	}
	return "", nil
}

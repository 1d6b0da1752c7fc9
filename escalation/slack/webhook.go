// Package slack sends escalations to Slack and receives answers from Slack.
//
// Without an app, superloop needs only an incoming webhook: Build makes the blocks of a message, and Webhook posts
// them. The message has the command, the reason, and command lines to paste into a terminal. A webhook cannot change a
// message later and cannot receive clicks.
//
// With a bot token, Bot posts the same messages, puts the details below them, and changes them when the question has
// ended.
//
// With an app in the workspace, messages have buttons. Their clicks arrive through Socket Mode (Socket) or at a public
// address (NewHandler). Both pass them to one Clicks. Clicks checks whether the user may answer, calls the Resolver,
// and replies to the user. A click approves the command with a certain digest, whatever the message shows, so an old
// message cannot approve a new command.
//
// Any text of a Message may be hostile. It appears only in code blocks, with & < > escaped and invisible characters
// made visible. Each message tells Slack not to look for links and not to fetch any. No error and no event holds a
// webhook URL, a response URL, a token or a signing secret.
package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/slack-go/slack"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/redact"
)

// Webhook is the notify.Notifier for Slack's incoming webhooks. A post is a success only if the reply has the body
// "ok".
type Webhook struct {
	name     string
	endpoint *notify.Endpoint
	style    Style
}

// WebhookOptions configure a Webhook. The zero value means the defaults.
type WebhookOptions struct {
	Style
	notify.EndpointOptions
}

// NewWebhook returns a Webhook, or an error if the URL is not allowed. The URL may be of any endpoint that replies as
// Slack does. notify.NewWebhook is for the others.
func NewWebhook(name string, url redact.Secret, o WebhookOptions) (*Webhook, error) {
	endpoint, err := notify.NewEndpoint(url, o.EndpointOptions)
	if err != nil {
		return nil, fmt.Errorf("channel %q: %w", name, err)
	}
	return &Webhook{name: name, endpoint: endpoint, style: o.Style}, nil
}

// slackHost reports whether the host is one of Slack's incoming webhooks.
func slackHost(host string) bool {
	return strings.EqualFold(host, "hooks.slack.com") || strings.EqualFold(host, "hooks.slack-gov.com")
}

// ForURL returns the notifier for a URL: a Webhook of this package for Slack's hosts, a notify.Webhook for all others.
func ForURL(name string, raw redact.Secret, s Style, o notify.WebhookOptions) (notify.Notifier, error) {
	if u, err := url.Parse(strings.TrimSpace(raw.Reveal())); err == nil && slackHost(u.Hostname()) {
		return NewWebhook(name, raw, WebhookOptions{s, o.EndpointOptions})
	}
	return notify.NewWebhook(name, raw, o)
}

// Name implements notify.Notifier.
func (w *Webhook) Name() string { return w.name }

// malformed lists Slack's errors for a message with a wrong form.
var malformed = []string{"invalid_blocks", "invalid_blocks_format", "invalid_payload", "no_text", "msg_too_long", "msg_blocks_too_long"}

// Send implements notify.Notifier. If Slack refuses the blocks, Send posts the message once more, as plain text.
func (w *Webhook) Send(ctx context.Context, m notify.Message) error {
	word, err := w.post(ctx, Build(m, w.style))
	if err == nil || !slices.Contains(malformed, word) {
		return err
	}
	_, err = w.post(ctx, message(fenced(notify.Text(m)), nil))
	return err
}

// post sends one message. word is the body of Slack's reply.
func (w *Webhook) post(ctx context.Context, msg *slack.WebhookMessage) (word string, err error) {
	body, err := json.Marshal(msg)
	if err != nil {
		return "", &notify.PermanentError{Reason: "writing the message as JSON failed"}
	}
	reply, err := w.endpoint.Post(ctx, nil, body)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(reply.Body), verdict(reply)
}

var errorWord = pattern.Lazy(`^[a-z][a-z0-9_]{2,60}$`)

// verdict returns the error in a reply of Slack. Slack reports errors by a status 4xx with a word in the body. With
// status 200, only the body "ok" is a success, and another single word is a refusal. Any other body comes from a proxy,
// and a later try may succeed.
func verdict(r notify.Reply) error {
	if err := r.Err(); err != nil {
		return err
	}
	said := strings.TrimSpace(r.Body)
	switch {
	case !r.Whole:
		return &notify.TemporaryError{Reason: fmt.Sprintf("answer %d broke off, so it is not known whether Slack has the message", r.Status)}
	case said == "ok":
		return nil
	case errorWord().MatchString(said):
		return &notify.PermanentError{Reason: fmt.Sprintf("answer %d, but Slack refused the message: %s", r.Status, said)}
	}
	return &notify.TemporaryError{Reason: fmt.Sprintf("answer %d that is not Slack's %q: %s", r.Status, "ok", r.Said()), RetryAfter: r.RetryAfter}
}

const (
	maxBlocks    = 50   // Slack's limit
	maxValue     = 2000 // Slack's limit for the value of a button
	maxPieces    = 6    // number of sections that a command may fill
	footerField  = 80   // characters
	confirmField = 120  // characters
	confirmRoom  = 300  // Slack's limit
	sectionRoom  = 2400 // characters for foreign text; Slack's limit is 3000 for the whole section
	headerRoom   = 150  // Slack's limit for a header
	tick         = "```"

	// The prefix and the id of the buttons in Slack's payloads.
	actionPrefix = "superloop_"
	buttonsBlock = "superloop_answer"
)

// Style says which parts a message has. Buttons adds Approve, Reject and Details. Buttons need an app that receives
// their clicks. Without one, Slack shows a warning to a user who clicks. Threaded leaves out what Below holds.
type Style struct{ Buttons, Threaded bool }

// value is the value of a button.
type value struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
}

// Build makes the Slack message for m. It keeps within Slack's limits whatever m holds. Of a command that does not fit
// it shows the beginning and the end. Such a message has no Approve button, because nobody should approve a command
// without seeing all of it.
func Build(m notify.Message, s Style) *slack.WebhookMessage {
	b := &builder{}
	title := plain(notify.Title(m), headerRoom)
	b.add(slack.NewHeaderBlock(plainText(title)))
	b.status(m, s)
	whole := b.command(m)
	b.ways(m)
	if s.Buttons {
		b.buttons(m, whole)
	}
	b.footer(m)
	return message(title, b.blocks)
}

// message returns a message with a text, which must be free of active markup, and with the blocks, if there are any.
func message(text string, blocks []slack.Block) *slack.WebhookMessage {
	no := false
	msg := &slack.WebhookMessage{Text: text, Parse: "none", UnfurlLinks: &no, UnfurlMedia: &no}
	if len(blocks) > 0 {
		msg.Blocks = &slack.Blocks{BlockSet: blocks}
	}
	return msg
}

type builder struct{ blocks []slack.Block }

func (b *builder) add(block slack.Block) {
	if len(b.blocks) < maxBlocks {
		b.blocks = append(b.blocks, block)
	}
}

// text adds a section in superloop's own words. Foreign parts of it must be escaped.
func (b *builder) text(mrkdwn string) {
	b.add(slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, mrkdwn, false, true), nil, nil))
}

// section adds a section with a label and foreign text. It adds nothing if the text is blank.
func (b *builder) section(label, foreign string) {
	if strings.TrimSpace(foreign) != "" {
		b.text(label + "\n" + fenced(foreign))
	}
}

func (b *builder) status(m notify.Message, s Style) {
	with := func(label, foreign string) string {
		if foreign == "" {
			return label
		}
		return label + " (" + span(foreign, footerField) + ")"
	}
	why := with("*Why an operator is asked*", m.Type)
	switch m.Kind {
	case notify.Test:
		b.text("This channel works. Messages about loops that need an operator will arrive here.")
	case notify.ConfigChangeHeld:
		why = "*What is held, and why*"
	case notify.Alert:
		why = "*What is wrong* (nothing waits for an answer)"
	case notify.Ended:
		b.section("*How it ended*", m.Reason)
		b.section("*What it did*", strings.Join(m.Facts, "\n"))
		return
	case notify.Resolved:
		decided := "*Decision*: " + span(m.Status, footerField)
		if m.By != "" {
			decided += " by " + span(m.By, footerField)
		}
		if !m.At.IsZero() {
			decided += ", " + m.At.UTC().Format("2006-01-02 15:04 UTC")
		}
		b.text(decided)
		b.section("*Note*", m.Note)
		return
	}
	b.section(with("*What failed*", m.Kinds()), m.RootCause)
	if s.Threaded && threaded(m) {
		b.section(why, m.Reason)
	} else {
		b.section("*Evidence*", strings.Join(m.Evidence, "\n"))
		b.section(why, m.Reason)
		b.section("*What is known*", strings.Join(m.Facts, "\n"))
	}
	b.section("*Note*", m.Note)
}

// command adds the command and reports whether the message shows all of it.
func (b *builder) command(m notify.Message) bool {
	if m.Command == "" {
		return true
	}
	pieces, marks := fence(m.Command)
	label := "*Command*, to run in " + span(cmp.Or(m.WorkingDir, "."), footerField)
	if m.Kind == notify.Resolved {
		label = "*Command*"
	}
	pieces[0] = label + "\n" + pieces[0]
	whole := len(pieces) <= maxPieces
	if !whole { // keep the beginning and the end
		last := len(pieces) - 1
		pieces = append(pieces[:maxPieces-1:maxPieces-1], leftOut(pieces[maxPieces-1:last])+" before you decide._", pieces[last])
	}
	for _, piece := range pieces {
		b.text(piece)
	}
	if marks > 0 {
		b.text(":warning: " + notify.Escape(notify.MarksNote(marks)))
	}
	return whole
}

func (b *builder) buttons(m notify.Message, whole bool) {
	if m.Kind != notify.Opened && m.Kind != notify.Reminder && m.Kind != notify.Aged || m.Escalation == "" || m.Digest == "" {
		return
	}
	raw, err := json.Marshal(value{m.Escalation, m.Digest})
	if err != nil || len(raw) > maxValue {
		return
	}
	button := func(a Action, label string) *slack.ButtonBlockElement {
		return slack.NewButtonBlockElement(actionPrefix+string(a), string(raw), plainText(label))
	}
	var elements []slack.BlockElement
	if whole && m.Command != "" {
		sure := fmt.Sprintf("superloop runs the command of loop %s once. Digest: %s", notify.OneLine(m.Loop, footerField), notify.OneLine(m.Digest, confirmField))
		elements = append(elements, button(Approve, "Approve").WithStyle(slack.StylePrimary).
			WithConfirm(slack.NewConfirmationBlockObject(plainText("Run this command?"), plainText(plain(sure, confirmRoom)), plainText("Approve"), plainText("Back"))))
	}
	reject := "Reject"
	switch {
	case m.Type == string(escalation.ToolPermission):
	case m.Type == string(escalation.CompletionApproval):
		reject = "Not yet"
	case m.Command == "":
		reject = "End the loop"
	}
	elements = append(elements, button(Reject, reject).WithStyle(slack.StyleDanger), button(Details, "Details"))
	b.add(slack.NewActionBlock(buttonsBlock, elements...))
}

func (b *builder) footer(m notify.Message) {
	var parts []string
	part := func(label, foreign string, limit int) {
		if foreign != "" {
			parts = append(parts, label+" "+span(foreign, limit))
		}
	}
	part("loop", m.Loop, footerField)
	part("repository", m.Repo, 2*footerField)
	if m.Iteration > 0 {
		parts = append(parts, fmt.Sprintf("iteration %d", m.Iteration))
	}
	part("digest", m.Digest, footerField)
	if !m.Expires.IsZero() && m.Kind != notify.Resolved {
		parts = append(parts, "expires "+m.Expires.UTC().Format("2006-01-02 15:04 UTC"))
	}
	part("escalation", m.Escalation, footerField)
	if !m.Created.IsZero() {
		parts = append(parts, "since "+m.Created.UTC().Format(time.RFC3339))
	}
	if len(parts) > 0 {
		b.add(slack.NewContextBlock("", slack.NewTextBlockObject(slack.MarkdownType, strings.Join(parts, " | "), false, true)))
	}
}

func plainText(s string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.PlainTextType, s, false, false)
}

// plain makes s safe for a plain_text object: one line of at most limit characters (limit is at least 3). Slack may or
// may not decode entities there, so plain replaces the characters that would need them.
func plain(s string, limit int) string {
	s = strings.NewReplacer("<", "(", ">", ")", "&", "+").Replace(notify.OneLine(s, limit))
	if units := utf16.Encode([]rune(s)); len(units) > limit {
		return strings.TrimSuffix(string(utf16.Decode(units[:limit-3])), "\ufffd") + "..." // and no half of a pair
	}
	return s
}

// width returns the number of characters that Slack counts for r. It assumes UTF-16 units, as in JavaScript.
func width(r rune) int { return max(1, utf16.RuneLen(r)) }

// span returns s as inline code, on one line, with at most limit characters before escaping.
func span(s string, limit int) string {
	return "`" + notify.Escape(cmp.Or(strings.ReplaceAll(notify.OneLine(s, limit), "`", "'"), "-")) + "`"
}

// fenced returns s as one code block that fits into a section. If s is too long, the block ends with "...".
func fenced(s string) string {
	pieces, _ := fence(s)
	if len(pieces) == 1 {
		return pieces[0]
	}
	return strings.TrimSuffix(pieces[0], "\n"+tick) + "\n...\n" + tick
}

// fence splits s into code blocks that each fit into a section. marks is the number of replacements, as notify.Visible
// counts them.
func fence(s string) (pieces []string, marks int) {
	s, marks = notify.Visible(s)
	marks += strings.Count(s, tick) // three backticks in the text would end the block
	s = strings.ReplaceAll(s, tick, "``<U+0060>")
	for {
		n := fitting(s)
		if i := strings.LastIndexByte(s[:n], '\n'); n < len(s) && i > n/2 {
			n = i + 1 // prefer to split after a line, if the piece keeps more than half of its room
		}
		pieces = append(pieces, tick+"\n"+notify.Escape(strings.TrimSuffix(s[:n], "\n"))+"\n"+tick)
		if s = s[n:]; s == "" {
			return pieces, marks
		}
	}
}

// fitting returns how many bytes of s fit into a section after escaping.
func fitting(s string) int {
	room := sectionRoom
	for i, r := range s {
		switch r {
		case '&':
			room -= len("&amp;")
		case '<', '>':
			room -= len("&lt;")
		default:
			room -= width(r)
		}
		if room < 0 {
			return i
		}
	}
	return len(s)
}

// leftOut returns the note about the pieces that are missing in the middle of a long command.
func leftOut(pieces []string) string {
	n := 0
	for _, p := range pieces {
		n += len([]rune(p)) - 2*len(tick) - 2
	}
	return fmt.Sprintf("_About %d characters are left out here. Look at all of the command with superloop in a terminal", n)
}

package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/slack-go/slack"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/redact"
)

const maxAnswer = 8 << 20 // bytes; a page of searchPage messages with their blocks

// api calls Slack's Web API with a bot token.
type api struct {
	token   redact.Secret
	methods map[string]*notify.Endpoint
}

func newAPI(token redact.Secret, o BotOptions) (*api, error) {
	c := &api{token: token, methods: map[string]*notify.Endpoint{}}
	o.EndpointOptions.MaxReply = maxAnswer
	for _, method := range []string{"chat.postMessage", "chat.update", "conversations.history", "conversations.replies"} {
		e, err := notify.NewEndpoint(redact.Secret(cmp.Or(o.APIURL, slack.APIURL)+method), o.EndpointOptions)
		if err != nil {
			return nil, err
		}
		c.methods[method] = e
	}
	return c, nil
}

// answer is what superloop reads of an answer of the Web API.
type answer struct {
	OK       bool   `json:"ok"`
	Error    string `json:"error"`
	Needed   string `json:"needed"` // the scopes, for missing_scope
	TS       string `json:"ts"`
	Messages []struct {
		TS       string   `json:"ts"`
		Metadata metadata `json:"metadata"`
	} `json:"messages"`
	Next struct {
		Cursor string `json:"next_cursor"`
	} `json:"response_metadata"`
}

// refusedError is an answer that is not ok. word is Slack's name for the reason.
type refusedError struct{ word, needed string }

func (e *refusedError) Error() string { return e.word }

// send calls a method with a body in JSON, read one with a form.
func (c *api) send(ctx context.Context, method string, body any) (answer, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return answer{}, &notify.PermanentError{Reason: "writing the message as JSON failed"}
	}
	return c.call(ctx, method, "application/json; charset=utf-8", raw)
}

func (c *api) read(ctx context.Context, method string, args url.Values) (answer, error) {
	return c.call(ctx, method, "application/x-www-form-urlencoded", []byte(args.Encode()))
}

func (c *api) call(ctx context.Context, method, kind string, body []byte) (answer, error) {
	reply, err := c.methods[method].Post(ctx, http.Header{"Authorization": {"Bearer " + c.token.Reveal()}, "Content-Type": {kind}}, body)
	if err != nil {
		return answer{}, err
	}
	return readAnswer(reply)
}

// readAnswer returns the answer in a reply. The error is a *refusedError if Slack has refused the call, and a
// *notify.TemporaryError or a *notify.PermanentError if the reply is none of the Web API.
func readAnswer(r notify.Reply) (a answer, err error) {
	if err := r.Err(); err != nil {
		return a, err
	}
	if json.Unmarshal([]byte(r.Body), &a) != nil || !a.OK && !errorWord().MatchString(a.Error) {
		return answer{}, &notify.TemporaryError{Reason: fmt.Sprintf("answer %d that is not Slack's: %s", r.Status, r.Said()), RetryAfter: r.RetryAfter}
	}
	if !a.OK {
		return a, &refusedError{a.Error, a.Needed}
	}
	return a, nil
}

func refusedWith(err error, words ...string) bool {
	e, ok := errors.AsType[*refusedError](err)
	return ok && slices.Contains(words, e.word)
}

// gone reports whether the message, or the thread, does not exist any more. fixed reports whether it exists and cannot be
// changed. passing reports whether Slack has a trouble of its own.
func gone(err error) bool {
	return refusedWith(err, "message_not_found", "thread_not_found", "invalid_thread_ts", "cannot_reply_to_message")
}

func fixed(err error) bool { return refusedWith(err, "cant_update_message", "edit_window_closed") }

func passing(err error) bool {
	return refusedWith(err, "ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "message_limit_exceeded")
}

const (
	remakeToken = "install the app again, put its Bot User OAuth Token into the variable of token_env, and start superloop again"
	askAdmin    = "a rule of the workspace forbids it: ask its administrator"
)

// repairs says what an operator can do about an error that Slack would give again and again.
var repairs = map[string]string{
	"invalid_auth": remakeToken, "not_authed": remakeToken, "account_inactive": remakeToken, "token_revoked": remakeToken, "token_expired": remakeToken,
	"not_allowed_token_type": remakeToken,
	"channel_not_found":      "there is no such channel, or it is private and the app is not in it: check channel, and type /invite @APP there",
	"not_in_channel":         "the app is not in the channel: type /invite @APP there",
	"is_archived":            "the channel is archived: name another in channel",
	"restricted_action":      askAdmin, "restricted_action_read_only_channel": askAdmin, "restricted_action_thread_only_channel": askAdmin,
	"restricted_action_non_threadable_channel": askAdmin, "ekm_access_denied": askAdmin, "access_denied": askAdmin, "accesslimited": askAdmin,
	"org_login_required": askAdmin, "team_access_not_granted": askAdmin, "enterprise_is_restricted": askAdmin, "no_permission": askAdmin,
}

// failure is a refusal with what it means for the delivery.
type failure struct {
	error // a *notify.TemporaryError or a *notify.PermanentError
	cause *refusedError
}

func (f *failure) Unwrap() []error { return []error{f.error, f.cause} }

// verdictOf returns err as the error of a delivery. gone and fixed still know it.
func verdictOf(err error) error {
	e, ok := errors.AsType[*refusedError](err)
	if !ok {
		return err
	}
	repair := repairs[e.word]
	if e.word == "missing_scope" {
		repair = fmt.Sprintf("add the scope %s under OAuth & Permissions, and install the app again", cmp.Or(notify.OneLine(e.needed, footerField), "chat:write"))
	}
	switch {
	case passing(err):
		return &failure{&notify.TemporaryError{Reason: "Slack has a trouble: " + e.word}, e}
	case repair != "":
		return &failure{&notify.TemporaryError{Reason: "Slack refuses: " + e.word + "; " + repair, Repair: true}, e}
	}
	return &failure{&notify.PermanentError{Reason: "Slack refused the message: " + e.word}, e}
}

// threaded reports whether the details of m are a message of their own.
func threaded(m notify.Message) bool {
	return m.Kind == notify.Opened || m.Kind == notify.Reminder || m.Kind == notify.Aged
}

// Below makes the message that stands below m, in its thread: the evidence, what is known (the attempts, the end of the log), and
// how what the command reads differs from what was trusted. It returns nil if there is nothing of these. It keeps within
// Slack's limits: of a long text it shows the beginning and the end.
func Below(m notify.Message) *slack.WebhookMessage {
	if !threaded(m) {
		return nil
	}
	b := &builder{}
	b.long("*Evidence*", strings.Join(m.Evidence, "\n"))
	b.long("*What is known*", strings.Join(m.Facts, "\n"))
	b.long("*What it reads is not what was trusted*", m.Diff)
	if len(b.blocks) == 0 {
		return nil
	}
	return message("Details of "+plain(notify.Title(m), headerRoom), b.blocks)
}

// long adds foreign text in at most four sections.
func (b *builder) long(label, foreign string) {
	if strings.TrimSpace(foreign) == "" {
		return
	}
	pieces, _ := fence(foreign)
	if last := len(pieces) - 1; last > 2 {
		pieces = []string{pieces[0], leftOut(pieces[1:last]) + "._", pieces[last]}
	}
	pieces[0] = label + "\n" + pieces[0]
	for _, p := range pieces {
		b.text(p)
	}
}

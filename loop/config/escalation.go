package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/schemas"
)

// Escalation says how superloop reaches operators. Without the section, webhooks.on_escalation is the only channel.
type Escalation struct {
	// RemindAfter (default 30 min) is the interval at which superloop reminds the channels of an open question. After
	// EscalateAfter (default 2 h) superloop tells the channels of the second line. For both, 0 means never. After
	// ExpiresAfter (default 24 h) the question expires. superloop never takes a missing answer for an approval.
	RemindAfter   time.Duration `json:"remind_after"`
	EscalateAfter time.Duration `json:"escalate_after"`
	ExpiresAfter  time.Duration `json:"expires_after"`
	Channels      []Channel     `json:"-"` // sorted by name; Config.Channels adds that of webhooks
	Slack         Slack         `json:"slack"`
}

// The types of channels.
const (
	ChannelSlack   = "slack"
	ChannelWebhook = "webhook"
	ChannelCommand = "command"
	ChannelDiscord = "discord"
	ChannelTeams   = "teams"
	ChannelNtfy    = "ntfy"
	ChannelSMTP    = "smtp"
	// ChannelByURL means slack or webhook, depending on the URL's host. Only webhooks.on_escalation makes such a
	// channel.
	ChannelByURL = "by_url"

	OnEscalation = "on_escalation" // the name of the channel that webhooks.on_escalation makes
)

// The kinds of news that a channel can get.
const (
	TellEscalation = "escalation" // an operator is needed
	TellResolution = "resolution" // a question was answered or has expired
	TellReminder   = "reminder"   // nobody has answered a question yet
	TellConfig     = "config"     // superloop holds a change of the configuration
	TellAlert      = "alert"      // failures are more than a failure policy can deal with; nobody needs to answer
	TellEnd        = "end"        // a loop has ended: completed, stuck, at a limit, failed or cancelled
)

// Channel is one way in which superloop reaches operators.
type Channel struct {
	Name string `json:"-"`
	Type string `json:"type"`
	// URL is the address of every type but command. URLEnv names the variable that holds it. Exactly one is set, except
	// for slack with a token, which has neither.
	URL    redact.Secret `json:"url"`
	URLEnv string        `json:"url_env"`
	// TokenEnv names the variable with the bot token of slack, the access token of ntfy or the password of smtp.
	TokenEnv string `json:"token_env"`
	SlackID  string `json:"channel"` // the id of the channel in Slack; set if and only if a slack channel has TokenEnv
	// Priority is that of ntfy's messages that need somebody, 1 to 5. 0 means notify.NtfyUrgent.
	Priority int      `json:"priority"`
	From     string   `json:"from"` // the address of the sender, for smtp
	To       []string `json:"to"`   // the recipients, for smtp, in the order of the file
	// SecretEnv names the variable with the secret that signs a webhook's messages. If it is "", they are not signed.
	SecretEnv string `json:"secret_env"`
	// Command is the command line for the type command. It may hold a token, so it is a secret.
	Command redact.Secret `json:"command"`
	// Timeout bounds one try to deliver a message. The default is 5 s, or 30 s for command and smtp.
	Timeout time.Duration `json:"timeout"`
	Tell    []string      `json:"tell"`   // the kinds of news, in the order of the constants, each at most once; never empty
	Second  bool          `json:"second"` // whether the channel gets news only when nobody has answered for EscalateAfter
}

// Slack says who may answer questions by a click in Slack, and how superloop receives the clicks.
type Slack struct {
	// AppTokenEnv names the variable with the app-level token of Socket Mode. If it is "", there is no Socket Mode.
	AppTokenEnv string `json:"app_token_env,omitempty"`
	// SigningSecretEnv names the variable with the secret that signs the clicks that arrive at Listen.
	SigningSecretEnv string `json:"signing_secret_env,omitempty"`
	// Listen is the loopback address, host:port, at which superloop receives signed clicks. If it is "", superloop
	// listens nowhere.
	Listen string `json:"listen,omitempty"`
	// Users holds the ids of the Slack users who may answer. Teams holds the workspaces from which clicks may come; if
	// it is empty, they may come from any workspace. Both are sorted.
	Users []string `json:"users,omitempty"`
	Teams []string `json:"teams,omitempty"`
}

// Buttons reports whether superloop can receive clicks and at least one user may click.
func (s Slack) Buttons() bool { return len(s.Users) > 0 && (s.AppTokenEnv != "" || s.Listen != "") }

const postTimeout, commandTimeout = 5 * time.Second, 30 * time.Second

// everything returns all kinds of news that a channel can get.
func everything() []string {
	return []string{TellEscalation, TellResolution, TellReminder, TellConfig, TellAlert, TellEnd}
}

// Channels returns all channels: first the one of webhooks.on_escalation, then those of the escalation section by name.
func (c *Config) Channels() []Channel {
	var hooks struct {
		OnEscalation redact.Secret `json:"on_escalation"`
	}
	if c.Webhooks == nil || json.Unmarshal(c.Webhooks, &hooks) != nil || hooks.OnEscalation == "" {
		return slices.Clone(c.Escalation.Channels)
	}
	first := Channel{Name: OnEscalation, Type: ChannelByURL, URL: hooks.OnEscalation, Timeout: postTimeout, Tell: everything()}
	return append([]Channel{first}, c.Escalation.Channels...)
}

// SecretNames returns, sorted, the environment variables that hold secrets of the channels and of Slack. superloop
// passes them to no agent and no command, because a process that knows a signing secret can answer in an operator's
// name.
func (c *Config) SecretNames() []string {
	names := []string{c.Escalation.Slack.AppTokenEnv, c.Escalation.Slack.SigningSecretEnv}
	for _, ch := range c.Escalation.Channels {
		names = append(names, ch.URLEnv, ch.SecretEnv, ch.TokenEnv)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
}

func (b *builder) escalation() Escalation {
	in := struct {
		Escalation
		Channels map[string]Channel `json:"channels"`
	}{Escalation: Escalation{RemindAfter: 30 * time.Minute, EscalateAfter: 2 * time.Hour, ExpiresAfter: 24 * time.Hour}}
	b.into(b.file.Escalation, &in)
	e := in.Escalation
	for _, name := range slices.Sorted(maps.Keys(in.Channels)) {
		e.Channels = append(e.Channels, b.channel(name, in.Channels[name]))
	}
	b.slack(&e.Slack)
	b.times(e, b.file.Webhooks.OnEscalation != "")
	return e
}

// times refuses a question that never expires. It warns of reminders and channels of the second line that have no
// effect.
func (b *builder) times(e Escalation, webhook bool) {
	const at = "/escalation"
	if e.ExpiresAfter <= 0 {
		b.wrong(at+"/expires_after", Problem{Code: schemas.CodeOutOfRange, Found: "0", Allowed: "more than 0",
			Message: "a question cannot stay open for ever: what it is about changes; give expires_after a time, such as \"24h\""})
	}
	for _, t := range []struct {
		key  string
		d    time.Duration
		what string
	}{{"remind_after", e.RemindAfter, "nobody is ever reminded"}, {"escalate_after", e.EscalateAfter, "the second line is never told"}} {
		if ptr := at + "/" + t.key; b.present(ptr) && t.d > 0 && t.d >= e.ExpiresAfter {
			b.warn(ptr, CodeNoEffect, fmt.Sprintf("%s is not before expires_after (%s), so %s", t.key, e.ExpiresAfter, t.what))
		}
	}
	second := slices.IndexFunc(e.Channels, func(c Channel) bool { return c.Second })
	first := webhook || slices.ContainsFunc(e.Channels, func(c Channel) bool { return !c.Second })
	if second < 0 {
		return
	}
	ptr := at + Pointer("channels", e.Channels[second].Name, "second")
	switch {
	case e.EscalateAfter == 0:
		b.warn(ptr, CodeNoEffect, "escalate_after is 0, so this channel is never told anything")
	case !first:
		b.warn(ptr, CodeSuspicious, fmt.Sprintf("every channel is of the second line, so nobody is told before %s have passed", e.EscalateAfter))
	}
}

func (b *builder) channel(name string, c Channel) Channel {
	at := "/escalation" + Pointer("channels", name)
	c.Name = name
	if tell := c.Tell; tell == nil {
		c.Tell = everything()
	} else {
		c.Tell = slices.DeleteFunc(everything(), func(s string) bool { return !slices.Contains(tell, s) })
	}
	if name == OnEscalation {
		b.wrong(at, Problem{Code: CodeDuplicate, Found: quoted(name), Allowed: "another name",
			Message: "on_escalation is the name of the channel that webhooks.on_escalation makes; give this one another"})
	}
	switch {
	case b.present(at+"/timeout") && c.Timeout <= 0:
		b.wrong(at+"/timeout", Problem{Code: schemas.CodeOutOfRange, Found: "0", Allowed: "more than 0", Message: "a try needs a bound: give timeout a time, such as \"5s\""})
	case c.Timeout <= 0 && (c.Type == ChannelCommand || c.Type == ChannelSMTP):
		c.Timeout = commandTimeout
	case c.Timeout <= 0:
		c.Timeout = postTimeout
	}
	// The keys of each type besides those of all.
	own := map[string][]string{ChannelCommand: {"command"}, ChannelWebhook: {"url", "url_env", "secret_env"}, ChannelSlack: {"url", "url_env"},
		ChannelDiscord: {"url", "url_env"}, ChannelTeams: {"url", "url_env"}, ChannelNtfy: {"url", "url_env", "token_env", "priority"},
		ChannelSMTP: {"url", "url_env", "token_env", "from", "to"}}[c.Type]
	bot := c.Type == ChannelSlack && (b.present(at+"/token_env") || b.present(at+"/channel"))
	kind := "a channel of type " + c.Type
	if bot {
		own, kind = []string{"token_env", "channel"}, "a slack channel with a bot token"
	}
	for _, key := range []string{"url", "url_env", "secret_env", "token_env", "command", "channel", "priority", "from", "to"} {
		if len(own) > 0 && b.present(at+"/"+key) && !slices.Contains(own, key) {
			b.wrong(at+"/"+key, Problem{Code: schemas.CodeCombination, Found: quoted(key), Allowed: strings.Join(own, ", "),
				Message: fmt.Sprintf("%s has no %s; it has %s", kind, key, strings.Join(own, ", "))})
		}
	}
	switch {
	case c.Type == ChannelCommand:
		b.notifyCommand(at, c)
	case bot:
		for _, key := range own {
			if !b.present(at + "/" + key) {
				b.wrong(at+"/"+key, missingKey(key, kind+" needs token_env, the variable with the token (xoxb-...), and channel, the channel's id"))
			}
		}
	case len(own) > 0: // else the schema has refused the type
		b.notifyURL(at, c)
	}
	return c
}

func (b *builder) notifyCommand(at string, c Channel) {
	if !b.present(at + "/command") {
		b.wrong(at+"/command", missingKey("command", "a channel of type command needs the command that it runs"))
		return
	}
	if _, err := notify.NewCommand(c.Name, c.Command.Reveal(), notify.CommandOptions{}); err != nil {
		b.wrong(at+"/command", Problem{Code: CodeUnsplit, Found: "a command", Allowed: "words, of which the first is a program on the PATH or an absolute path", Message: err.Error()})
	}
}

func (b *builder) notifyURL(at string, c Channel) {
	given, named := b.present(at+"/url"), b.present(at+"/url_env")
	switch {
	case given && named:
		b.wrong(at+"/url_env", Problem{Code: schemas.CodeCombination, Found: "url and url_env", Allowed: "one of the two",
			Message: "url and url_env are both given; take one away"})
	case !given && !named:
		b.wrong(at+"/url", missingKey("url", fmt.Sprintf("a channel of type %s needs its url, or url_env, the name of the variable that holds it", c.Type)))
	case given:
		if err := usable(c); err != nil {
			b.wrong(at+"/url", Problem{Code: schemas.CodeBadFormat, Found: "a URL", Allowed: "https, or http to a loopback address; for smtp, smtps:// or smtp://", Message: err.Error()})
		}
	}
	if c.Type != ChannelSMTP {
		return
	}
	for _, key := range []string{"from", "to"} {
		if !b.present(at + "/" + key) {
			b.wrong(at+"/"+key, missingKey(key, "a mail needs from, the sender's address, and to, the list of the recipients' addresses"))
			return
		}
	}
	if _, err := notify.NewMail(c.Name, "smtp://localhost", notify.MailOptions{From: c.From, To: c.To}); err != nil {
		b.wrong(at, Problem{Code: schemas.CodeBadFormat, Found: "an address", Allowed: "addresses such as on-call@example.com", Message: err.Error()})
	}
}

// usable returns an error if the URL of a channel cannot be one of its type.
func usable(c Channel) (err error) {
	switch c.Type {
	case ChannelSMTP:
		_, err = notify.NewMail(c.Name, c.URL, notify.MailOptions{From: "a@localhost", To: []string{"a@localhost"}})
	case ChannelTeams:
		_, err = notify.NewTeams(c.Name, c.URL, notify.EndpointOptions{})
	case ChannelNtfy:
		_, err = notify.NewNtfy(c.Name, c.URL, notify.NtfyOptions{})
	default:
		_, err = notify.NewEndpoint(c.URL, notify.EndpointOptions{})
	}
	return err
}

func (b *builder) slack(s *Slack) {
	const at = "/escalation/slack"
	for _, names := range []*[]string{&s.Users, &s.Teams} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	if !b.present(at) {
		return
	}
	ways := s.AppTokenEnv != "" || s.Listen != ""
	switch {
	case !ways && !b.named(at+"/app_token_env") && !b.named(at+"/listen"):
		b.warn(at, CodeNoEffect, "neither app_token_env nor listen is given, so no click can arrive and messages have no buttons")
	case ways && len(s.Users) == 0:
		b.wrong(at+"/users", missingKey("users", "somebody must be allowed to answer, by the Slack user id"))
	}
	if s.Listen == "" {
		if s.SigningSecretEnv != "" {
			b.warn(at+"/signing_secret_env", CodeNoEffect, "it is for clicks that arrive at listen, which is not given")
		}
		return
	}
	if s.SigningSecretEnv == "" {
		b.wrong(at+"/signing_secret_env", missingKey("signing_secret_env", "clicks that arrive at listen are told from forged ones by their signature"))
	}
	if !loopbackAddress(s.Listen) {
		b.wrong(at+"/listen", Problem{Code: schemas.CodeBadFormat, Found: quoted(s.Listen), Allowed: "a loopback address and a port, such as 127.0.0.1:8765",
			Message: fmt.Sprintf("listen is %s; allowed: a loopback address and a port, such as 127.0.0.1:8765 (put a proxy with TLS before it)", quoted(s.Listen))})
	}
}

// loopbackAddress reports whether s is a loopback address in the form host:port.
func loopbackAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	_, noPort := strconv.ParseUint(port, 10, 16)
	return err == nil && noPort == nil && (strings.EqualFold(host, "localhost") || loopback(host))
}

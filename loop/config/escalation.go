package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/schemas"
)

// Escalation says how people are reached when a loop needs one. Without the
// section the times are the defaults, and the only channel is that of webhooks.
type Escalation struct {
	// RemindAfter is how long an open question waits until its channels are
	// reminded, EscalateAfter until the second line is told; 0 is never. After
	// ExpiresAfter the question lapses: silence is never consent. Defaults: 30 min,
	// 2 h, 24 h.
	RemindAfter, EscalateAfter, ExpiresAfter time.Duration
	// Channels by name, sorted; Config.Channels has that of webhooks too.
	Channels []Channel
	Slack    Slack
}

// Types of channels.
const (
	ChannelSlack   = "slack"
	ChannelWebhook = "webhook"
	ChannelCommand = "command"
	// ChannelByURL is slack or webhook, as the host of the URL says. It is the type
	// of the channel that webhooks.on_escalation makes and of no other.
	ChannelByURL = "by_url"
)

// What a channel can be told.
const (
	TellEscalation = "escalation" // a person is needed
	TellResolution = "resolution" // what became of it
	TellReminder   = "reminder"   // nobody has answered yet
	TellConfig     = "config"     // a change of the configuration is held
)

// OnEscalation is the name of the channel that webhooks.on_escalation makes.
const OnEscalation = "on_escalation"

// Channel is one way to reach people.
type Channel struct {
	Name string
	Type string
	// URL of the types slack and webhook, or URLEnv, the variable that holds it:
	// one of the two is set.
	URL    redact.Secret
	URLEnv string
	// SecretEnv is the variable with the secret that signs a webhook; "" signs
	// nothing.
	SecretEnv string
	// Command is the line of the type command. It may hold a token, so it is a
	// secret.
	Command redact.Secret
	// Timeout bounds one try: 5 s, or 30 s for a command, by default.
	Timeout time.Duration
	// Tell in the order of the constants, each at most once; never empty.
	Tell []string
	// Second: it is told only when nobody has answered for EscalateAfter.
	Second bool
}

// Slack is who may answer by a click, and how clicks arrive.
type Slack struct {
	// AppTokenEnv is the variable with the app-level token of Socket Mode; "": no
	// Socket Mode.
	AppTokenEnv string
	// Listen is the loopback address, host:port, at which signed clicks arrive; ""
	// is none. SigningSecretEnv is the variable with the secret that they are signed
	// with.
	SigningSecretEnv, Listen string
	// Users may answer, by their ids. Teams are the workspaces that clicks may come
	// from; none is any. Both are sorted.
	Users, Teams []string
}

// Buttons reports whether clicks can arrive and somebody may click.
func (s Slack) Buttons() bool { return len(s.Users) > 0 && (s.AppTokenEnv != "" || s.Listen != "") }

const (
	defaultRemindAfter   = 30 * time.Minute
	defaultEscalateAfter = 2 * time.Hour
	defaultExpiresAfter  = 24 * time.Hour
	defaultPost          = 5 * time.Second
	defaultCommand       = 30 * time.Second
)

// everything that a channel can be told.
func everything() []string {
	return []string{TellEscalation, TellResolution, TellReminder, TellConfig}
}

// Channels are all channels: that of webhooks first, then those of the
// escalation section by name.
func (c *Config) Channels() []Channel {
	var hooks struct {
		OnEscalation redact.Secret `json:"on_escalation"`
	}
	if c.Webhooks == nil || json.Unmarshal(c.Webhooks, &hooks) != nil || hooks.OnEscalation == "" {
		return slices.Clone(c.Escalation.Channels)
	}
	first := Channel{Name: OnEscalation, Type: ChannelByURL, URL: hooks.OnEscalation, Timeout: defaultPost, Tell: everything()}
	return append([]Channel{first}, c.Escalation.Channels...)
}

// SecretNames are the variables of superloop's environment that hold secrets of
// the channels and of Slack, sorted: no agent and no command may have them, since
// who knows a signing secret can answer in a person's name.
func (c *Config) SecretNames() []string {
	names := []string{c.Escalation.Slack.AppTokenEnv, c.Escalation.Slack.SigningSecretEnv}
	for _, ch := range c.Escalation.Channels {
		names = append(names, ch.URLEnv, ch.SecretEnv)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
}

type fileEscalation struct {
	RemindAfter   seconds                `json:"remind_after"`
	EscalateAfter seconds                `json:"escalate_after"`
	ExpiresAfter  seconds                `json:"expires_after"`
	Channels      map[string]fileChannel `json:"channels"`
	Slack         struct {
		AppTokenEnv      string   `json:"app_token_env"`
		SigningSecretEnv string   `json:"signing_secret_env"`
		Users            []string `json:"users"`
		Teams            []string `json:"teams"`
		Listen           string   `json:"listen"`
	} `json:"slack"`
}

type fileChannel struct {
	Type      string        `json:"type"`
	URL       redact.Secret `json:"url"`
	URLEnv    string        `json:"url_env"`
	SecretEnv string        `json:"secret_env"`
	Command   redact.Secret `json:"command"`
	Timeout   seconds       `json:"timeout"`
	Tell      []string      `json:"tell"`
	Second    bool          `json:"second"`
}

func (b *builder) escalation(f file) Escalation {
	in := f.Escalation
	e := Escalation{RemindAfter: in.RemindAfter.or(defaultRemindAfter), EscalateAfter: in.EscalateAfter.or(defaultEscalateAfter),
		ExpiresAfter: in.ExpiresAfter.or(defaultExpiresAfter)}
	for _, name := range slices.Sorted(maps.Keys(in.Channels)) {
		if !isComment(name) {
			e.Channels = append(e.Channels, b.channel(name, in.Channels[name]))
		}
	}
	e.Slack = b.slack(f)
	b.times(in, e, f.Webhooks.OnEscalation != "")
	return e
}

// times refuses a question that never ends, and warns of news that nobody gets.
func (b *builder) times(in fileEscalation, e Escalation, webhook bool) {
	const at = "/escalation"
	if in.ExpiresAfter.set && e.ExpiresAfter <= 0 {
		b.wrong(at+"/expires_after", Problem{Code: schemas.CodeOutOfRange, Found: "0", Allowed: "more than 0",
			Message: "a question cannot stay open for ever: what it is about changes; give expires_after a time, such as \"24h\""})
	}
	for _, t := range []struct {
		key  string
		in   seconds
		d    time.Duration
		what string
	}{{"remind_after", in.RemindAfter, e.RemindAfter, "nobody is ever reminded"},
		{"escalate_after", in.EscalateAfter, e.EscalateAfter, "the second line is never told"}} {
		b.longSeconds(at+"/"+t.key, t.in)
		if t.in.set && t.d > 0 && t.d >= e.ExpiresAfter {
			b.warn(at+"/"+t.key, CodeNoEffect, fmt.Sprintf("%s is not before expires_after (%s), so %s", t.key, e.ExpiresAfter, t.what))
		}
	}
	b.longSeconds(at+"/expires_after", in.ExpiresAfter)
	second := slices.IndexFunc(e.Channels, func(c Channel) bool { return c.Second })
	first := webhook || slices.ContainsFunc(e.Channels, func(c Channel) bool { return !c.Second })
	if second < 0 {
		return
	}
	ptr := at + pointer("channels", e.Channels[second].Name, "second")
	switch {
	case e.EscalateAfter == 0:
		b.warn(ptr, CodeNoEffect, "escalate_after is 0, so this channel is never told anything")
	case !first:
		b.warn(ptr, CodeSuspicious, fmt.Sprintf("every channel is of the second line, so nobody is told before %s have passed", e.EscalateAfter))
	}
}

func (b *builder) channel(name string, in fileChannel) Channel {
	at := "/escalation" + pointer("channels", name)
	c := Channel{Name: name, Type: in.Type, URL: in.URL, URLEnv: in.URLEnv, SecretEnv: in.SecretEnv, Command: in.Command, Second: in.Second, Tell: everything()}
	if in.Tell != nil {
		c.Tell = slices.DeleteFunc(everything(), func(s string) bool { return !slices.Contains(in.Tell, s) })
	}
	if name == OnEscalation {
		b.wrong(at, Problem{Code: CodeDuplicate, Found: quoted(name), Allowed: "another name",
			Message: "on_escalation is the name of the channel that webhooks.on_escalation makes; give this one another"})
	}
	usual := defaultPost
	if c.Type == ChannelCommand {
		usual = defaultCommand
	}
	if c.Timeout = in.Timeout.or(usual); c.Timeout <= 0 {
		b.wrong(at+"/timeout", Problem{Code: schemas.CodeOutOfRange, Found: "0", Allowed: "more than 0", Message: "a try needs a bound: give timeout a time, such as \"5s\""})
	}
	b.longSeconds(at+"/timeout", in.Timeout)
	foreign := func(key, why string) {
		if b.present(at + "/" + key) {
			b.wrong(at+"/"+key, Problem{Code: schemas.CodeCombination, Found: quoted(key), Allowed: "no " + key,
				Message: fmt.Sprintf("a channel of type %s has no %s: %s", c.Type, key, why)})
		}
	}
	switch c.Type {
	case ChannelCommand:
		for _, key := range []string{"url", "url_env", "secret_env"} {
			foreign(key, "it runs command")
		}
		b.notifyCommand(at, c)
	case ChannelSlack, ChannelWebhook:
		foreign("command", "it posts to its URL")
		if c.Type == ChannelSlack {
			foreign("secret_env", "Slack checks no signature")
		}
		b.notifyURL(at, c)
	}
	return c
}

func (b *builder) notifyCommand(at string, c Channel) {
	if !b.present(at + "/command") {
		b.wrong(at+"/command", missingKey("command", "a channel of type command needs the command that it runs"))
		return
	}
	if _, err := notify.NewCommand(c.Name, c.Command.Reveal(), notify.CommandOptions{}); err != nil && !b.named(at+"/command") {
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
	case given && !b.named(at+"/url"):
		if _, err := notify.NewEndpoint(c.URL, notify.EndpointOptions{}); err != nil {
			b.wrong(at+"/url", Problem{Code: schemas.CodeBadFormat, Found: "a URL", Allowed: "https, or http to a loopback address", Message: err.Error()})
		}
	}
}

func missingKey(key, why string) Problem {
	return Problem{Code: schemas.CodeMissingKey, Found: "nothing", Allowed: quoted(key), Message: fmt.Sprintf("%s: the key %s is missing", why, quoted(key))}
}

func (b *builder) slack(f file) Slack {
	const at = "/escalation/slack"
	in := f.Escalation.Slack
	s := Slack{AppTokenEnv: in.AppTokenEnv, SigningSecretEnv: in.SigningSecretEnv, Listen: in.Listen, Users: set(in.Users), Teams: set(in.Teams)}
	if !b.present(at) {
		return s
	}
	ways := s.AppTokenEnv != "" || s.Listen != ""
	switch {
	case !ways && !b.named(at+"/app_token_env") && !b.named(at+"/listen"):
		b.warn(at, CodeNoEffect, "neither app_token_env nor listen is given, so no click can arrive and messages have no buttons")
	case ways && len(s.Users) == 0 && !b.named(at+"/users"):
		b.wrong(at+"/users", missingKey("users", "somebody must be allowed to answer, by the Slack user id"))
	}
	if s.Listen == "" {
		if s.SigningSecretEnv != "" {
			b.warn(at+"/signing_secret_env", CodeNoEffect, "it is for clicks that arrive at listen, which is not given")
		}
		return s
	}
	if s.SigningSecretEnv == "" && !b.named(at+"/signing_secret_env") {
		b.wrong(at+"/signing_secret_env", missingKey("signing_secret_env", "clicks that arrive at listen are told from forged ones by their signature"))
	}
	if !loopbackAddress(s.Listen) {
		b.wrong(at+"/listen", Problem{Code: schemas.CodeBadFormat, Found: quoted(s.Listen), Allowed: "a loopback address and a port, such as 127.0.0.1:8765",
			Message: fmt.Sprintf("listen is %s; allowed: a loopback address and a port, such as 127.0.0.1:8765 (put a proxy with TLS before it)", quoted(s.Listen))})
	}
	return s
}

// set sorts names and leaves out repeated ones.
func set(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return slices.Compact(out)
}

// loopbackAddress reports whether s is host:port of this machine alone.
func loopbackAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

package trust

import (
	"maps"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/loop/config"
)

// Escalation says how superloop reaches operators, and who may answer. Its empty lists and maps are nil.
type Escalation struct {
	Channels map[string]Channel `json:"channels,omitempty"`
	Slack    config.Slack       `json:"slack,omitzero"`
}

// Channel is one way in which superloop reaches operators. A process that knows its URL or command can read or forge
// the messages, so these values are secrets.
type Channel struct {
	Type      string        `json:"type"`
	URL       string        `json:"url,omitempty"`
	URLEnv    string        `json:"url_env,omitempty"`
	SecretEnv string        `json:"secret_env,omitempty"`
	TokenEnv  string        `json:"token_env,omitempty"`
	SlackID   string        `json:"channel,omitempty"`
	Priority  int           `json:"priority,omitempty"`
	From      string        `json:"from,omitempty"`
	To        []string      `json:"to,omitempty"`
	Command   string        `json:"command,omitempty"`
	Timeout   time.Duration `json:"timeout_ns"`
	Tell      []string      `json:"tell"`
	Second    bool          `json:"second,omitempty"`
}

func escalationOf(c config.Escalation) Escalation {
	var e Escalation
	for _, ch := range c.Channels {
		if e.Channels == nil {
			e.Channels = map[string]Channel{}
		}
		e.Channels[ch.Name] = Channel{ch.Type, ch.URL.Reveal(), ch.URLEnv, ch.SecretEnv, ch.TokenEnv, ch.SlackID, ch.Priority, ch.From, slices.Clone(ch.To), ch.Command.Reveal(), ch.Timeout, list(ch.Tell), ch.Second}
	}
	e.Slack = c.Slack
	e.Slack.Users, e.Slack.Teams = orNone(c.Slack.Users), orNone(c.Slack.Teams)
	return e
}

// orNone returns a list sorted and without duplicates, or nil when it is empty.
func orNone(in []string) []string {
	if len(in) == 0 {
		return nil
	}
	return distinct(in)
}

// over returns c with its channels and its Slack section replaced by those of e. The times of c stay.
func (e Escalation) over(c config.Escalation) config.Escalation {
	c.Channels = nil
	for _, name := range slices.Sorted(maps.Keys(e.Channels)) {
		ch := e.Channels[name]
		c.Channels = append(c.Channels, config.Channel{Name: name, Type: ch.Type, URL: redact.Secret(ch.URL), URLEnv: ch.URLEnv,
			SecretEnv: ch.SecretEnv, TokenEnv: ch.TokenEnv, SlackID: ch.SlackID, Priority: ch.Priority, From: ch.From, To: slices.Clone(ch.To), Command: redact.Secret(ch.Command), Timeout: ch.Timeout, Tell: list(ch.Tell), Second: ch.Second})
	}
	c.Slack = e.Slack
	c.Slack.Users, c.Slack.Teams = slices.Clone(e.Slack.Users), slices.Clone(e.Slack.Teams)
	return c
}

// escalation compares the channels and the Slack sections. It returns the pinned ones, without the users who may no
// longer answer.
func (j *joiner) escalation(at string, p, n Escalation) Escalation {
	in := Escalation{Channels: maps.Clone(p.Channels)}
	for _, name := range sortedKeys(p.Channels, n.Channels) {
		a, had := p.Channels[name]
		b, has := n.Channels[name]
		path := at + "/channels" + config.Pointer(name)
		switch {
		case !had:
			j.looser(path, nil, b.shown(), newChannel)
		case !has:
			j.looser(path, a.shown(), nil, lostChannel)
		default:
			j.channel(path, a, b)
		}
	}
	in.Slack = j.slack(at+"/slack", p.Slack, n.Slack)
	return in
}

// channel records the differences between two channels with the same name. All of them are loosenings: the pinned
// channel stays in force as a whole.
func (j *joiner) channel(at string, p, n Channel) {
	for key, v := range map[string][2]string{"url": {p.URL, n.URL}, "command": {p.Command, n.Command}} {
		if v[0] != v[1] {
			j.looser(at+"/"+key, masked(v[0] != ""), masked(v[1] != ""), otherChannel)
		}
	}
	j.value(at+"/timeout", nil, p.Timeout.String(), n.Timeout.String(), "", otherChannel)
	j.value(at+"/second", nil, p.Second, n.Second, "", otherChannel)
	joined(j, at, p, n, func(string) rule { return rule{more: otherChannel} }, "url", "command", "timeout_ns", "second")
}

// slack compares the Slack sections. A user who is no longer in the file may no longer answer, at once. Every other
// change is held. For teams, an empty list means all teams.
func (j *joiner) slack(at string, p, n config.Slack) config.Slack {
	in := joined(j, at, p, n, func(string) rule { return rule{more: otherWayClick} }, "users", "teams")
	j.value(at+"/teams", nil, anys(p.Teams), anys(n.Teams), "", otherWayClick)
	users, _ := stringsOf(j.value(at+"/users", sets(fewer), anys(p.Users), anys(n.Users), fewerAnswer, moreAnswer))
	in.Users = orNone(users)
	return in
}

// shown returns a channel as a Change shows it, with its secrets masked.
func (c Channel) shown() any {
	for _, secret := range []*string{&c.URL, &c.Command} {
		if *secret != "" {
			*secret = redact.Mark
		}
	}
	return shown(c)
}

// protect compares what agents cannot write. A path that is no longer named stays protected, and what is opened anew
// stays closed.
func (j *joiner) protect(at string, p, n config.Protect) config.Protect {
	paths, _ := stringsOf(j.value(at+"/paths", sets(more), anys(p.Paths), anys(n.Paths), "agents can no longer write there", "agents could write there"))
	allow, _ := stringsOf(j.value(at+"/allow", sets(fewer), anys(p.Allow), anys(n.Allow), "agents no longer get it", "agents would get it"))
	return config.Protect{Paths: orNone(paths), Allow: orNone(allow)}
}

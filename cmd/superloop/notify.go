package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/escalation/slack"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
)

// The results of one attempt to send a message.
const (
	tryDelivered = "delivered"
	tryRefused   = "refused" // a second attempt would be refused, too
	tryFailed    = "failed"  // a loop would send the message again
	tryTimeout   = "timeout"
)

// tried is the result of sending the test message over one channel.
type tried struct {
	Channel  string `json:"channel"`
	Type     string `json:"type"`
	Status   string `json:"status"`
	Reason   string `json:"reason,omitempty"`
	Duration int64  `json:"duration_ms"`
}

func (a *app) notifyTest(c *cli.Context) error {
	t, err := a.trusted(c)
	if err != nil {
		return err
	}
	force, _, err := t.inForce()
	if err != nil {
		return err
	}
	chosen, err := chooseChannels(c, t, force)
	if err != nil {
		return err
	}
	m := notify.Message{ID: "test/" + escalation.NewID(), Kind: notify.Test, Repo: t.repo, Created: time.Now().UTC(), By: a.who(c),
		Reason: "somebody tries the channel with superloop notify test"}
	var verdicts []tried
	failed := 0
	for _, ch := range chosen {
		n, _ := a.channel(force, ch)
		v := try(c.Context, n, ch, m)
		if c.Context.Err() != nil {
			return c.Context.Err()
		}
		if v.Status != tryDelivered {
			failed++
		}
		verdicts = append(verdicts, v)
		if !c.Bool("json") {
			a.printTry(v)
		}
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, map[string]any{"ok": failed == 0, "channels": verdicts})
	}
	return failedUnless(failed == 0, err)
}

// chooseChannels returns the channels in force that the flags select: that of --channel, all with --all, or the only
// one.
func chooseChannels(c *cli.Context, t trusted, force *config.Config) ([]config.Channel, error) {
	all, name := force.Channels(), c.String("channel")
	names := channelNames(all)
	switch {
	case c.Bool("all") && c.IsSet("channel"):
		return nil, failf(exitUsage, "superloop notify test --all", "--channel and --all are both given")
	case len(all) == 0 && len(t.file.Channels()) > 0:
		return nil, failf(exitNotFound, "superloop config diff, then: "+t.trustLine(), "no channel of %s is in force: nobody has trusted them yet", t.name())
	case len(all) == 0:
		return nil, failf(exitNotFound, `put "webhooks": {"on_escalation": "https://..."} into `+t.name(), "there is no channel: nobody is told when a loop needs an operator")
	case c.Bool("all") || name == "" && len(all) == 1:
		return all, nil
	case name == "":
		return nil, failf(exitUsage, "superloop notify test --channel "+text.Paste(names[0])+"   (or --all)", "which channel? there are %s", strings.Join(names, ", "))
	}
	i := slices.Index(names, name)
	switch {
	case i >= 0:
		return all[i : i+1], nil
	case slices.Contains(channelNames(t.file.Channels()), name):
		return nil, failf(exitNotFound, "superloop config diff, then: "+t.trustLine(), "the channel %q is in the file and not in force: nobody has trusted it yet", name)
	}
	return nil, failf(exitNotFound, "superloop notify test --channel "+text.Paste(names[0]), "no channel %q; there are %s", name, strings.Join(names, ", "))
}

func channelNames(list []config.Channel) []string {
	var names []string
	for _, ch := range list {
		names = append(names, ch.Name)
	}
	return names
}

// try makes one attempt to send a message, and returns the result.
func try(ctx context.Context, n notify.Notifier, ch config.Channel, m notify.Message) tried {
	start := time.Now()
	err := n.Send(ctx, m)
	took := time.Since(start)
	v := tried{Channel: ch.Name, Type: ch.Type, Status: tryDelivered, Duration: took.Milliseconds()}
	if err == nil {
		return v
	}
	v.Status, v.Reason = tryFailed, err.Error()
	if _, refused := errors.AsType[*notify.PermanentError](err); refused {
		v.Status = tryRefused
	} else if took >= ch.Timeout {
		v.Status = tryTimeout
	}
	return v
}

func (a *app) printTry(v tried) {
	took, why := render.Duration(msec(v.Duration)), render.Clean(v.Reason)
	said := map[string]string{tryDelivered: "delivered in " + took, tryRefused: "refused: " + why, tryTimeout: "timeout after " + took + ": " + why,
		tryFailed: "failed: " + why + "   (a message is tried again, for a day)"}[v.Status]
	fmt.Fprintf(a.stdout, "%s: %s\n", v.Channel, said)
}

// channelRow is a channel in force. It holds no address: that can be a secret.
type channelRow struct {
	Channel string   `json:"channel"`
	Type    string   `json:"type"`
	Second  bool     `json:"second"`
	Tell    []string `json:"tell"`
	Lacks   string   `json:"lacks,omitempty"` // why it cannot work
}

// channelRows returns the channels of the configuration that is in force.
func (a *app) channelRows(c *cli.Context) ([]channelRow, error) {
	t, err := a.trusted(c)
	if err != nil {
		return nil, err
	}
	force, _, err := t.inForce()
	if err != nil {
		return nil, err
	}
	list := []channelRow{}
	for _, ch := range force.Channels() {
		row := channelRow{Channel: ch.Name, Type: ch.Type, Second: ch.Second, Tell: ch.Tell}
		if _, bad := a.channel(force, ch); len(bad) > 0 {
			row.Lacks = bad[0].Message
		}
		list = append(list, row)
	}
	return list, nil
}

func (a *app) notifyList(c *cli.Context) error {
	_, loops, err := a.chosenLoops(c, false)
	if err != nil {
		return err
	}
	list := []notify.Item{}
	for _, p := range loops {
		items, err := notify.List(p.Outbox())
		if err != nil {
			return err
		}
		for _, it := range items {
			it.Loop = cmp.Or(it.Loop, p.id)
			if c.Bool("all") || it.State != notify.Delivered && it.State != notify.Withdrawn {
				list = append(list, it)
			}
		}
	}
	out := map[string]any{"messages": list}
	// What waits is shown also while somebody edits the configuration.
	if out["channels"], err = a.channelRows(c); err != nil {
		out["channels"], out["channels_unknown"] = []channelRow{}, err.Error()
	}
	return a.report(c, out, "outbox", out)
}

// Codes of problems that a configuration has in superloop's present environment.
const (
	codeNoVariable = "no_variable" // an environment variable is not set
	codeNoChannel  = "no_channel"  // a channel has an invalid configuration
)

// kindsOf returns the kinds of messages that a word of a channel's tell stands for: first for a channel of the first
// line, then for a channel of the second line. The second line gets no message about a question before escalate_after
// has passed without an answer.
func kindsOf(tell string) [2][]notify.Kind {
	return map[string][2][]notify.Kind{
		config.TellEscalation: {{notify.Opened}, {notify.Aged}},
		config.TellResolution: {{notify.Resolved}, {notify.Resolved}},
		config.TellReminder:   {{notify.Reminder}, {notify.Reminder}},
		config.TellConfig:     {{notify.ConfigChangeHeld}, nil},
		config.TellAlert:      {{notify.Alert}, nil},
		config.TellEnd:        {{notify.Ended}, nil},
	}[tell]
}

// channels makes the channels of a configuration. A channel that cannot work is in set, too. Its messages fail with the
// reason, and superloop notify list shows them. problems lists the same reasons with their places in the file, and the
// variables that are missing for answers by a click in Slack.
func (a *app) channels(cfg *config.Config) (set effects.Channels, problems []config.Problem) {
	set = effects.Channels{First: map[notify.Kind][]string{}, Second: map[notify.Kind][]string{}}
	for _, ch := range cfg.Channels() {
		n, bad := a.channel(cfg, ch)
		problems = append(problems, bad...)
		set.All = append(set.All, n)
		line, at := set.First, 0
		if ch.Second {
			line, at = set.Second, 1
		}
		for _, tell := range ch.Tell {
			for _, kind := range kindsOf(tell)[at] {
				line[kind] = append(line[kind], ch.Name)
			}
		}
	}
	if s := cfg.Escalation.Slack; s.AppTokenEnv != "" {
		a.secret("/escalation/slack/app_token_env", s.AppTokenEnv, &problems)
	}
	if s := cfg.Escalation.Slack; s.Listen != "" {
		a.secret("/escalation/slack/signing_secret_env", s.SigningSecretEnv, &problems)
	}
	return set, problems
}

// channel makes one channel. If the channel cannot work, channel returns the problems, and a notifier that fails each
// message with the first of them.
func (a *app) channel(cfg *config.Config, ch config.Channel) (notify.Notifier, []config.Problem) {
	n, problems := a.liveChannel(cfg, ch)
	if len(problems) > 0 {
		n = deadChannel{ch.Name, problems[0].Message}
	}
	return n, problems
}

func (a *app) liveChannel(cfg *config.Config, ch config.Channel) (notify.Notifier, []config.Problem) {
	at := "/escalation/channels" + token(ch.Name)
	if ch.Name == config.OnEscalation {
		at = "/webhooks"
	}
	var problems []config.Problem
	url, secret, key := ch.URL, redact.Secret(""), redact.Secret("")
	if ch.URLEnv != "" {
		url = a.secret(at+"/url_env", ch.URLEnv, &problems)
	}
	if ch.SecretEnv != "" {
		secret = a.secret(at+"/secret_env", ch.SecretEnv, &problems)
	}
	if ch.TokenEnv != "" {
		key = a.secret(at+"/token_env", ch.TokenEnv, &problems)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	var n notify.Notifier
	var err error
	post := notify.EndpointOptions{Timeout: ch.Timeout}
	style := slack.Style{Buttons: cfg.Escalation.Slack.Buttons()}
	switch {
	case ch.Type == config.ChannelSlack && ch.SlackID != "":
		n, err = slack.NewBot(ch.Name, key, ch.SlackID, slack.BotOptions{Style: style, APIURL: a.slack.api, EndpointOptions: post})
	case ch.Type == config.ChannelSlack:
		n, err = slack.NewWebhook(ch.Name, url, slack.WebhookOptions{Style: style, EndpointOptions: post})
	case ch.Type == config.ChannelWebhook:
		n, err = notify.NewWebhook(ch.Name, url, notify.WebhookOptions{Secret: secret, EndpointOptions: post})
	case ch.Type == config.ChannelCommand:
		n, err = notify.NewCommand(ch.Name, ch.Command.Reveal(), notify.CommandOptions{Timeout: ch.Timeout, Env: without(cfg.SecretNames())})
	case ch.Type == config.ChannelByURL:
		n, err = slack.ForURL(ch.Name, url, style, notify.WebhookOptions{EndpointOptions: post})
	case ch.Type == config.ChannelDiscord:
		n, err = notify.NewDiscord(ch.Name, url, post)
	case ch.Type == config.ChannelTeams:
		n, err = notify.NewTeams(ch.Name, url, post)
	case ch.Type == config.ChannelNtfy:
		n, err = notify.NewNtfy(ch.Name, url, notify.NtfyOptions{Token: key, Priority: ch.Priority, EndpointOptions: post})
	case ch.Type == config.ChannelSMTP:
		n, err = notify.NewMail(ch.Name, url, notify.MailOptions{From: ch.From, To: ch.To, Password: key, Timeout: ch.Timeout})
	default:
		err = fmt.Errorf("channel %q is of no known type", ch.Name)
	}
	if err != nil {
		return nil, []config.Problem{{Pointer: at, Code: codeNoChannel, Message: err.Error()}}
	}
	return n, nil
}

// secret reads a secret from an environment variable. It adds a problem if the variable is not set.
func (a *app) secret(at, name string, problems *[]config.Problem) redact.Secret {
	value := strings.TrimSpace(a.env(name))
	if value == "" {
		*problems = append(*problems, config.Problem{Pointer: at, Code: codeNoVariable,
			Message: fmt.Sprintf("the variable %s is not set in superloop's environment", name)})
	}
	return redact.Secret(value)
}

// without returns superloop's environment without the variables of these names.
func without(names []string) []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}

// deadChannel replaces a channel that cannot work. It fails each message with the reason, for good.
type deadChannel struct{ name, why string }

func (d deadChannel) Name() string { return d.name }

func (d deadChannel) Send(context.Context, notify.Message) error {
	return &notify.PermanentError{Reason: d.why}
}

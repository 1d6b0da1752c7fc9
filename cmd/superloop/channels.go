package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/escalation/slack"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/effects"
)

// Codes of what the environment says against a configuration.
const (
	codeNoVariable = "no_variable" // a variable that is not set
	codeNoChannel  = "no_channel"  // a channel that cannot work
)

// kindsOf are the messages of a kind of news, for the first line and for the
// second. The second hears nothing until a question has aged.
func kindsOf(tell string, second bool) []notify.Kind {
	switch {
	case tell == config.TellEscalation && second:
		return []notify.Kind{notify.Aged}
	case tell == config.TellEscalation:
		return []notify.Kind{notify.Opened, notify.Alert}
	case tell == config.TellResolution:
		return []notify.Kind{notify.Resolved}
	case tell == config.TellReminder:
		return []notify.Kind{notify.Reminder}
	case tell == config.TellConfig && !second:
		return []notify.Kind{notify.ConfigChangeHeld}
	}
	return nil
}

// channels makes the channels of a configuration. One that cannot work is there too: its messages fail with the reason,
// where people look for them. problems say the same, with the places in the file.
func (a *app) channels(cfg *config.Config) (set effects.Channels, problems []config.Problem) {
	set = effects.Channels{First: map[notify.Kind][]string{}, Second: map[notify.Kind][]string{}}
	for _, ch := range cfg.Channels() {
		n, bad := a.channel(cfg, ch)
		if len(bad) > 0 {
			n = deadChannel{ch.Name, bad[0].Message}
		}
		problems = append(problems, bad...)
		set.All = append(set.All, n)
		line := set.First
		if ch.Second {
			line = set.Second
		}
		for _, tell := range ch.Tell {
			for _, kind := range kindsOf(tell, ch.Second) {
				line[kind] = append(line[kind], ch.Name)
			}
		}
	}
	return set, append(problems, a.slackProblems(cfg)...)
}

// channel makes one channel.
func (a *app) channel(cfg *config.Config, ch config.Channel) (notify.Notifier, []config.Problem) {
	at := "/escalation/channels" + token(ch.Name)
	if ch.Name == config.OnEscalation {
		at = "/webhooks"
	}
	var problems []config.Problem
	url, secret := ch.URL, redact.Secret("")
	if ch.URLEnv != "" {
		url = a.secret(at+"/url_env", ch.URLEnv, &problems)
	}
	if ch.SecretEnv != "" {
		secret = a.secret(at+"/secret_env", ch.SecretEnv, &problems)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	var n notify.Notifier
	var err error
	post := notify.EndpointOptions{Timeout: ch.Timeout}
	style := slack.Style{Buttons: cfg.Escalation.Slack.Buttons()}
	switch ch.Type {
	case config.ChannelSlack:
		n, err = slack.NewWebhook(ch.Name, url, slack.WebhookOptions{Style: style, EndpointOptions: post})
	case config.ChannelWebhook:
		n, err = notify.NewWebhook(ch.Name, url, notify.WebhookOptions{Secret: secret, EndpointOptions: post})
	case config.ChannelCommand:
		n, err = notify.NewCommand(ch.Name, ch.Command.Reveal(), notify.CommandOptions{Timeout: ch.Timeout, Env: without(cfg.SecretNames())})
	case config.ChannelByURL:
		n, err = slack.ForURL(ch.Name, url, style, notify.WebhookOptions{EndpointOptions: post})
	default:
		err = fmt.Errorf("channel %q is of no known type", ch.Name)
	}
	if err != nil {
		return nil, []config.Problem{{Pointer: at, Code: codeNoChannel, Message: err.Error()}}
	}
	return n, nil
}

// secret reads a variable; one that is not set is a problem.
func (a *app) secret(at, name string, problems *[]config.Problem) redact.Secret {
	value := strings.TrimSpace(a.env(name))
	if value == "" {
		*problems = append(*problems, config.Problem{Pointer: at, Code: codeNoVariable,
			Message: fmt.Sprintf("the variable %s is not set in superloop's environment", name)})
	}
	return redact.Secret(value)
}

// slackProblems are what the environment lacks for clicks.
func (a *app) slackProblems(cfg *config.Config) []config.Problem {
	var problems []config.Problem
	s := cfg.Escalation.Slack
	if s.AppTokenEnv != "" {
		a.secret("/escalation/slack/app_token_env", s.AppTokenEnv, &problems)
	}
	if s.Listen != "" {
		a.secret("/escalation/slack/signing_secret_env", s.SigningSecretEnv, &problems)
	}
	return problems
}

// without is superloop's environment without some variables.
func without(names []string) []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}

// deadChannel stands for a channel that cannot work.
type deadChannel struct{ name, why string }

func (d deadChannel) Name() string { return d.name }

func (d deadChannel) Send(context.Context, notify.Message) error {
	return &notify.PermanentError{Reason: d.why}
}

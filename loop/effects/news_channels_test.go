package effects

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/superloop/superloop/escalation/notify"
	"github.com/superloop/superloop/escalation/slack"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/testkit"
)

// newsChannels are channels of each type that really are sent to, and the text of what they got.
type newsChannels struct {
	all   []notify.Notifier
	file  string // where the command writes
	mails *testkit.MailServer
	got   map[string]*bytes.Buffer
}

// plainDir is a directory whose name needs no quotes in a command, wherever TMPDIR is.
func plainDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "superloop-news-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newNewsChannels(t *testing.T) *newsChannels {
	t.Helper()
	c := &newsChannels{file: filepath.Join(t.TempDir(), "told"), got: map[string]*bytes.Buffer{}, mails: testkit.NewMailServer(t, false, false)}
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		name, _, _ := strings.Cut(strings.Trim(req.URL.Path, "/"), "/")
		answer := "ok"
		switch name {
		case "slack":
			err = newsOfSlack(c.got[name], body)
		case "bot":
			answer = `{"ok":true,"ts":"1700000000.000001"}`
			err = newsOfSlack(c.got["slack bot"], body)
		case "webhook":
			newsOfWebhook(t, c.got[name], body)
		case "discord":
			answer = `{"id":"1"}`
			err = newsOfDiscord(c.got[name], body)
		case "teams":
			err = newsOfTeams(c.got[name], body)
		default:
			answer = `{"id":"1"}`
			err = newsOfNtfy(c.got["ntfy"], body)
		}
		if err != nil {
			t.Errorf("%s: %v in %s", name, err, body)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	add := func(n notify.Notifier, err error) {
		if err != nil {
			t.Fatal(err)
		}
		c.all = append(c.all, n)
		c.got[n.Name()] = &bytes.Buffer{}
	}
	url := func(path string) redact.Secret { return redact.Secret(server.URL + "/" + path) }
	style := slack.Style{Buttons: true}
	// cat has the JSON, which the webhook gets too.
	command, err := notify.NewCommand("command", `sh -c 'cat >/dev/null; printf "%s" "$1" >>"$TOLD"' tell {text}`,
		notify.CommandOptions{Env: append(os.Environ(), "TOLD="+c.file)})
	add(command, err)
	hook, err := notify.NewWebhook("webhook", url("webhook"), notify.WebhookOptions{})
	add(hook, err)
	team, err := slack.NewWebhook("slack", url("slack"), slack.WebhookOptions{Style: style})
	add(team, err)
	bot, err := slack.NewBot("slack bot", "xoxb-test", "C012AB3CD", slack.BotOptions{Style: style, APIURL: server.URL + "/bot/"})
	add(bot, err)
	discord, err := notify.NewDiscord("discord", url("discord"), notify.EndpointOptions{})
	add(discord, err)
	teams, err := notify.NewTeams("teams", url("teams"), notify.EndpointOptions{})
	add(teams, err)
	ntfy, err := notify.NewNtfy("ntfy", url("topic"), notify.NtfyOptions{})
	add(ntfy, err)
	mail, err := notify.NewMail("smtp", redact.Secret("smtp://"+c.mails.Addr), notify.MailOptions{From: "superloop@example.com", To: []string{"on-call@example.com"}})
	add(mail, err)
	return c
}

// newsOfDiscord, newsOfTeams, newsOfNtfy and newsOfMail write a message as a reader sees it.
func newsOfDiscord(out io.Writer, body []byte) error {
	var m struct {
		Content string
		Embeds  []struct{ Description string }
	}
	err := json.Unmarshal(body, &m)
	fmt.Fprintln(out, m.Content)
	for _, e := range m.Embeds {
		fmt.Fprintln(out, e.Description)
	}
	return err
}

func newsOfTeams(out io.Writer, body []byte) error {
	var m struct {
		Attachments []struct {
			Content struct {
				Body []struct {
					Inlines []struct{ Text, Weight string }
				}
			}
		}
	}
	err := json.Unmarshal(body, &m)
	for _, a := range m.Attachments {
		for _, b := range a.Content.Body {
			for _, run := range b.Inlines {
				fmt.Fprintf(out, "[%s] %s\n", cmp.Or(run.Weight, "text"), run.Text)
			}
		}
	}
	return err
}

func newsOfNtfy(out io.Writer, body []byte) error {
	var m struct {
		Title, Message string
		Priority       int
	}
	err := json.Unmarshal(body, &m)
	fmt.Fprintf(out, "[title, priority %d] %s\n%s", m.Priority, m.Title, m.Message)
	return err
}

func newsOfMail(t *testing.T, out io.Writer, mails []testkit.Mail) {
	t.Helper()
	last := mails[len(mails)-1]
	body, err := io.ReadAll(quotedprintable.NewReader(last.Body))
	if err != nil {
		t.Error(err)
	}
	fmt.Fprintf(out, "Subject: %s\n\n%s", last.Header.Get("Subject"), strings.ReplaceAll(string(body), "\r\n", "\n"))
}

// newsOfWebhook writes the fields of a webhook's body. "text" is what the command has on its command line.
func newsOfWebhook(t *testing.T, out io.Writer, body []byte) {
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil || fields["text"] == nil {
		t.Errorf("%v in %s", err, body)
	}
	delete(fields, "text")
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(fields); err != nil {
		t.Error(err)
	}
}

// newsOfSlack writes the blocks of a Slack message as a reader sees them, from the top to the bottom.
func newsOfSlack(out io.Writer, body []byte) error {
	type words struct {
		Text string `json:"text"`
	}
	var m struct {
		Thread string `json:"thread_ts"`
		Blocks []struct {
			Type     string `json:"type"`
			Text     words  `json:"text"`
			Elements []struct {
				Type string          `json:"type"`
				Text json.RawMessage `json:"text"`
			} `json:"elements"`
		} `json:"blocks"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	if m.Thread != "" {
		fmt.Fprintln(out, "--- below it:")
	}
	for _, b := range m.Blocks {
		fmt.Fprintf(out, "[%s] %s", b.Type, b.Text.Text)
		for _, e := range b.Elements {
			var label words
			var text string
			if json.Unmarshal(e.Text, &text) != nil {
				_ = json.Unmarshal(e.Text, &label)
				text = "<" + label.Text + ">"
			}
			fmt.Fprint(out, text)
		}
		fmt.Fprintln(out)
	}
	return nil
}

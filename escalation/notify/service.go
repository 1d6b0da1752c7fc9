package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/redact"
)

const maxServiceReply = 64 << 10 // bytes; Discord repeats the whole message

// Service is the Notifier for a service that takes a message as one JSON document: Discord, Teams, ntfy.
type Service struct {
	name     string
	endpoint *Endpoint
	header   http.Header
	build    func(Message) ([]byte, error)
	verdict  func(Reply) error
}

// Name implements Notifier.
func (s *Service) Name() string { return s.name }

// Send implements Notifier.
func (s *Service) Send(ctx context.Context, m Message) error {
	body, err := s.build(m)
	if err != nil {
		return &PermanentError{Reason: "writing the message as JSON failed"}
	}
	reply, err := s.endpoint.Post(ctx, s.header, body)
	if err != nil {
		return err
	}
	return s.verdict(reply)
}

func service(name, who string, url redact.Secret, o EndpointOptions) (*Service, error) {
	o.MaxReply = maxServiceReply
	endpoint, err := NewEndpoint(url, o)
	if err != nil {
		return nil, fmt.Errorf("channel %q: %w", name, err)
	}
	return &Service{name: name, endpoint: endpoint, verdict: func(r Reply) error { return r.accepted(who) }}, nil
}

// accepted returns the error in a reply of a service that answers a message with the message's id. A pause in the body
// counts as one in Retry-After does. Any other answer with a status 2xx comes from a proxy, and a later try may succeed.
func (r Reply) accepted(who string) error {
	var said struct {
		ID    string  `json:"id"`
		Pause float64 `json:"retry_after"` // seconds
	}
	readable := json.Unmarshal([]byte(r.Body), &said) == nil
	err := r.Err()
	if t, ok := errors.AsType[*TemporaryError](err); ok && readable && said.Pause > 0 {
		t.RetryAfter = max(t.RetryAfter, time.Duration(math.Ceil(min(said.Pause, longestAsked.Seconds())))*time.Second)
	}
	if err == nil && (!readable || said.ID == "") {
		return &TemporaryError{Reason: fmt.Sprintf("answer %d that is not %s's: %s", r.Status, who, r.Said())}
	}
	return err
}

// units returns the number of UTF-16 units of r. Services count the length of a text in them, or in characters, which
// are never more.
func units(r rune) int { return max(1, utf16.RuneLen(r)) }

// fit shortens s to limit, as width counts. It keeps the beginning, where the reason stands, and the end, where the ways
// to answer stand, and says between them how much is left out.
func fit(s string, limit int, width func(rune) int) string {
	total := 0
	for _, r := range s {
		total += width(r)
	}
	if total <= limit {
		return s
	}
	note := fmt.Sprintf("\n[about %d characters are left out here; superloop inbox shows all of it]\n", total-limit)
	room := (limit - len(note)) / 2
	head, tail := 0, len(s)
	for left := room; head < len(s); {
		r, size := utf8.DecodeRuneInString(s[head:])
		if left -= width(r); left < 0 {
			break
		}
		head += size
	}
	for left := room; tail > head; {
		r, size := utf8.DecodeLastRuneInString(s[:tail])
		if left -= width(r); left < 0 {
			break
		}
		tail -= size
	}
	return s[:head] + note + s[tail:]
}

// body returns Text without the title.
func body(m Message) string {
	_, rest, _ := strings.Cut(Text(m), "\n")
	return rest
}

// unlinked puts a mark into each URL in s, for services and programs that make links of what looks like one. It keeps no
// program from taking a bare host name for a link.
func unlinked(s string) string { return strings.ReplaceAll(s, "://", "<:>//") }

const (
	discordTitle = 200  // units
	discordBody  = 4000 // units; Discord's limit for the description of an embed is 4096
)

// NewDiscord returns the Notifier for a webhook of Discord. The whole message stands in code, where Discord knows no
// markup, and mentions nobody.
func NewDiscord(name string, url redact.Secret, o EndpointOptions) (*Service, error) {
	s, err := service(name, "Discord", url, o)
	if err != nil {
		return nil, err
	}
	q := s.endpoint.url.Query()
	q.Set("wait", "true") // else Discord answers before it has stored the message
	s.endpoint.url.RawQuery = q.Encode()
	s.build = func(m Message) ([]byte, error) {
		said := fit(strings.ReplaceAll(strings.TrimSuffix(body(m), "\n"), "```", "``<U+0060>"), discordBody, units)
		text := map[string]any{
			"content":          "`" + strings.ReplaceAll(fit(Title(m), discordTitle, units), "`", "'") + "`",
			"allowed_mentions": map[string]any{"parse": []string{}},
		}
		if said != "" {
			text["embeds"] = []any{map[string]any{"description": "```\n" + said + "\n```"}}
		}
		return json.Marshal(text)
	}
	return s, nil
}

const (
	teamsBody  = 10_000   // units
	teamsLines = 80       // blocks
	teamsBytes = 27 << 10 // Teams takes 28 KB
)

// NewTeams returns the Notifier for the URL of a Teams workflow ("When a Teams webhook request is received"). The
// message is an Adaptive Card of text runs, in which Teams knows no markup. It returns an error for the URL of an Office
// connector, which Microsoft has switched off.
func NewTeams(name string, url redact.Secret, o EndpointOptions) (*Service, error) {
	s, err := service(name, "Teams", url, o)
	if err != nil {
		return nil, err
	}
	if host := strings.ToLower(s.endpoint.Host()); host == "outlook.office.com" || strings.HasSuffix(host, ".webhook.office.com") {
		return nil, fmt.Errorf("channel %q: the URL is one of an Office connector, which Teams no longer has: make a workflow in the channel (Workflows, \"Send webhook alerts to a channel\") and take its URL", name)
	}
	s.verdict = Reply.Err // a workflow answers 202 with nothing
	s.build = func(m Message) ([]byte, error) {
		for limit := teamsBody; ; limit = limit * 3 / 4 {
			body, err := json.Marshal(card(m, limit))
			if err != nil || len(body) <= teamsBytes {
				return body, err
			}
		}
	}
	return s, nil
}

func card(m Message, limit int) any {
	line := func(s string, run map[string]any) map[string]any {
		run["type"], run["text"] = "TextRun", s
		return map[string]any{"type": "RichTextBlock", "spacing": "None", "inlines": []any{run}}
	}
	title := fit(unlinked(Title(m)), discordTitle, units)
	blocks := []any{line(title, map[string]any{"weight": "Bolder", "size": "Medium"})}
	lines := strings.Split(strings.TrimSuffix(fit(unlinked(body(m)), limit, units), "\n"), "\n")
	if extra := len(lines) - teamsLines; extra > 0 {
		gap := fmt.Sprintf("[%d lines are left out here; superloop inbox shows all of it]", extra+1)
		lines = append(append(lines[:teamsLines/2:teamsLines/2], gap), lines[len(lines)-teamsLines/2+1:]...)
	}
	for _, l := range lines {
		if l != "" {
			blocks = append(blocks, line(l, map[string]any{"fontType": "Monospace"}))
		}
	}
	return map[string]any{"type": "message", "attachments": []any{map[string]any{
		"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil,
		"content": map[string]any{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
			"fallbackText": title, "msteams": map[string]any{"width": "Full"}, "body": blocks},
	}}}
}

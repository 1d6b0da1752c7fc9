package notify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/redact"
)

const (
	ntfyTitle = 200  // bytes
	ntfyBody  = 3900 // bytes; ntfy makes a file of a message above 4096
	// NtfyUrgent is the priority of messages that need somebody, if the configuration names none: "high".
	NtfyUrgent = 4
)

var topicForm = pattern.Lazy(`^[-_A-Za-z0-9]{1,64}$`)

// NtfyOptions configure a channel for ntfy. The zero value means the defaults.
type NtfyOptions struct {
	Token    redact.Secret // an access token, if the topic is protected
	Priority int           // of messages that need somebody: 1 to 5; 0 is NtfyUrgent. The others have ntfy's default
	EndpointOptions
}

// NewNtfy returns the Notifier for a topic of ntfy. url is the server with the topic, https://ntfy.sh/TOPIC. The message
// is plain text without actions.
func NewNtfy(name string, url redact.Secret, o NtfyOptions) (*Service, error) {
	s, err := service(name, "ntfy", url, o.EndpointOptions)
	if err != nil {
		return nil, err
	}
	topic := strings.Trim(s.endpoint.url.Path, "/")
	if !topicForm().MatchString(topic) || s.endpoint.url.RawQuery != "" {
		return nil, fmt.Errorf("channel %q: the URL has no topic: write it as https://ntfy.sh/TOPIC, and the topic in letters, digits, '-' and '_', at most 64", name)
	}
	s.endpoint.url.Path, s.endpoint.url.RawPath = "/", ""
	if o.Token != "" {
		s.header = http.Header{"Authorization": {"Bearer " + o.Token.Reveal()}}
	}
	if o.Priority == 0 {
		o.Priority = NtfyUrgent
	}
	bytes := func(r rune) int { return len(string(r)) }
	s.build = func(m Message) ([]byte, error) {
		text := map[string]any{"topic": topic, "title": fit(unlinked(Title(m)), ntfyTitle, bytes), "message": fit(unlinked(body(m)), ntfyBody, bytes)}
		if m.Kind.asks() || m.Kind == Alert {
			text["priority"] = o.Priority
		}
		return json.Marshal(text)
	}
	return s, nil
}

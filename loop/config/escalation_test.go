package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/schemas"
)

// Every key of a channel, and of Slack, that names a variable names a secret, and agents get none of them.
func TestSecretNames(t *testing.T) {
	t.Parallel()
	var root struct {
		Defs map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(schemas.Source(schemas.Config), &root); err != nil {
		t.Fatal(err)
	}
	c, err := LoadBytes("/repo/.superloop/config.json", []byte(`{"runners": {"a": {"command": "a"}}, "loops": [], "escalation": {
 "channels": {"w": {"type": "webhook", "url_env": "CHANNEL_URL_ENV", "secret_env": "CHANNEL_SECRET_ENV"}, "b": {"type": "slack", "token_env": "CHANNEL_TOKEN_ENV", "channel": "C012AB3CD"}},
 "slack": {"app_token_env": "SLACK_APP_TOKEN_ENV", "signing_secret_env": "SLACK_SIGNING_SECRET_ENV", "listen": "127.0.0.1:1", "users": ["U1"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, def := range []string{"channel", "slack"} {
		for key := range root.Defs[def].Properties {
			if strings.HasSuffix(key, "_env") {
				want = append(want, strings.ToUpper(def+"_"+key))
			}
		}
	}
	slices.Sort(want)
	if got := c.SecretNames(); len(want) < 5 || !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

package slack

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/notify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secretPath is the part of a webhook's URL that nobody may see.
const secretPath = "/services/T0SECRET/B0SECRET/verysecretverysecret"

func server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func noSecret(t *testing.T, text string) {
	t.Helper()
	for _, part := range []string{"SECRET", "verysecret", "/services", "xapp-", "ticket"} {
		if strings.Contains(text, part) {
			t.Errorf("%q shows in %q", part, text)
		}
	}
}

const digest = "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"

// opened is a usual message.
func opened() notify.Message {
	created := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return notify.Message{
		ID: "e1:opened", Escalation: "e1", Kind: notify.Opened, Loop: "web", Repo: "/srv/shop", Iteration: 6,
		Type: "recovery_approval_required", Status: "pending", Reason: `the command matches require_human "*"`, Command: "bun install",
		WorkingDir: ".", Category: "dependency", Severity: "blocking", Confidence: "high", RootCause: "node_modules is missing", Digest: digest,
		Evidence: []string{"test-output.txt:3: no such module"},
		Ways:     []escalation.Way{{Does: "approve", Line: "superloop approve-recovery --loop web"}, {Does: "reject", Line: "superloop reject-recovery --loop web"}},
		Created:  created, Expires: created.Add(24 * time.Hour),
	}
}

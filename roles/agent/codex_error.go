package agent

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

// codexTexts classify what the CLI says in its events of failure: it has no
// other word for them. The first that matches counts. They are matched against
// one line in lower case with straight quotes.
var codexTexts = []struct {
	class class.Class
	text  func() *regexp.Regexp
}{
	{class.Limit, pattern.Lazy(`you've hit your usage limit|usage limit (?:has been )?reached|you've reached your usage limit`)},
	{class.Billing, pattern.Lazy(`quota exceeded|insufficient_quota|exceeded your current quota|out of credits|spend cap|workspace credit limit|with your chatgpt plan, upgrade`)},
	{class.Limit, pattern.Lazy(`rate limit (?:exceeded|reached)|(?:last|unexpected) status:? 429|rate_limit_exceeded|too many requests`)},
	{class.Budget, pattern.Lazy(`^budget reached`)},
	{class.Context, pattern.Lazy(`ran out of room in the model's context window|context_length_exceeded|exceeds the context window`)},
	{class.Model, pattern.Lazy(`model [^.]{0,80}(?:does not exist|is not supported|not found)|model_not_found|requires a newer version of codex`)},
	{class.Overloaded, pattern.Lazy(`model is at capacity|capacity (?:is )?unavailable|experiencing high demand|the server had an error|(?:last|unexpected) status:? 5\d\d|server_is_overloaded|overloaded_error`)},
	{class.Auth, pattern.Lazy(`(?:last|unexpected) status:? 40[13]|missing environment variable|not (?:logged|signed) in|codex login|please (?:log|sign) (?:in|out)|token could not be refreshed|session could not be refreshed`)},
	{class.Billing, pattern.Lazy(`(?:last|unexpected) status:? 402`)},
	{class.Config, pattern.Lazy(`(?:last|unexpected) status:? 404`)},
	{class.Refused, pattern.Lazy(`^invalid prompt|policy violation|violates? (?:our )?(?:usage )?polic|for safety reasons|content was flagged|has been flagged|cyber_policy|content_filter`)},
	{class.Network, pattern.Lazy(`waiting for network|stream disconnected before completion|idle timeout (?:waiting|sending)|connection failed|connection (?:refused|reset|closed)|error sending request|timed out|websocket closed|failed to lookup address`)},
	{class.Request, pattern.Lazy(`(?:last|unexpected) status:? 4\d\d|invalid_request_error|"code":"invalid_`)},
}

var straight = strings.NewReplacer("\u2018", "'", "\u2019", "'", "\u02bc", "'", "\u201c", `"`, "\u201d", `"`, "`", "'")

// codexClass is never given anything but the CLI's own words on a failure.
func codexClass(said string) class.Class {
	if said == "" {
		return class.None
	}
	plain := strings.ToLower(straight.Replace(text.Line(said, len(said))))
	for _, t := range codexTexts {
		if t.text().MatchString(plain) {
			return t.class
		}
	}
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal([]byte(said), &body) == nil && len(body.Error) > 0 {
		return class.Request // the answer to a request, as it came
	}
	return class.Unknown
}

// codexStarts are the texts of standard error when no turn begins.
var codexStarts = []struct {
	class class.Class
	text  func() *regexp.Regexp
}{
	{class.Session, pattern.Lazy(`no rollout found|thread/resume failed|(?i:no saved session found)`)},
	{class.Auth, pattern.Lazy(`(?i)not logged in|run .?codex login|missing environment variable`)},
	{class.Config, pattern.Lazy(`(?m)^error: |^Error loading config|^Not inside a trusted directory|^No prompt provided|^Error: (?:.*config|failed to load)`)},
}

// codexStart explains a run that ended badly before its first turn did anything.
func codexStart(stderr string, end proc.Result) (class.Class, string) {
	if end.Ended != proc.Exited || end.Signal == "" && end.Code == 0 {
		return class.None, ""
	}
	said := codexErrors(stderr)
	for _, s := range codexStarts {
		if s.text().MatchString(said) {
			return s.class, errorText(said)
		}
	}
	return class.None, ""
}

// codexErrors is standard error without what comes with every start.
func codexErrors(stderr string) string {
	var b strings.Builder
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "WARNING: ") || strings.HasPrefix(line, "Reading ") {
			continue
		}
		b.WriteString(line)
	}
	return strings.TrimSpace(b.String())
}

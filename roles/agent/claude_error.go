package agent

import (
	"regexp"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

// claudeWords are the CLI's words for what stopped a message (the field error),
// claudeDetails its finer ones (api_error), which only newer releases tell, and
// claudeReasons those for why a run ended (terminal_reason) that are none of
// success. A word that is in none of them says nothing.
var (
	claudeWords = map[string]class.Class{
		"authentication_failed": class.Auth, "oauth_org_not_allowed": class.Auth, "verification_required": class.Auth,
		"cloud_credential_error": class.Auth, "billing_error": class.Billing, "account_on_hold": class.Billing,
		"rate_limit": class.Limit, "overloaded": class.Overloaded, "model_not_found": class.Model, "invalid_request": class.Request,
	}
	claudeDetails = map[string]class.Class{
		"usage_limit_reached": class.Limit, "model_requires_usage_credits": class.Billing, "long_context_credits_required": class.Billing,
		"connection_failed": class.Network, "stream_idle_timeout": class.Network, "computer_slept": class.Network,
		"network_edge_blocked": class.Network, "no_response": class.Network, "gateway_content_type": class.Network,
		"message_over_context_limit": class.Context, "autocompact_thrashing": class.Context,
		"safety_monitor_blocked": class.Refused, "dlp_request_denied": class.Refused,
		"stored_login_refused": class.Auth, "oauth_refresh_store_refused": class.Auth, "provider_credentials": class.Auth,
		"gateway_signin_required": class.Auth, "gateway_session_expired": class.Auth, "api_key_auth_disabled": class.Auth,
		"org_disabled_credential":     class.Auth,
		"claude_code_version_too_old": class.Config, "tls_untrusted_ca": class.Config, "tls_cert_signature_failure": class.Config,
		"invalid_credential_header": class.Config, "effort_requires_thinking": class.Config, "advisor_incompatible": class.Config,
		"hook_denied":           class.Config,
		"tool_history_mismatch": class.Request, "pdf_too_large": class.Request, "pdf_password_protected": class.Request,
	}
	claudeReasons = map[string]class.Class{
		"max_turns": class.Turns, "budget_exhausted": class.Budget,
		"prompt_too_long": class.Context, "blocking_limit": class.Context, "rapid_refill_breaker": class.Context,
		"image_error": class.Request, "api_error": class.Unknown, "model_error": class.Unknown, "malformed_tool_use_exhausted": class.Unknown,
		"aborted_streaming": class.Unknown, "aborted_tools": class.Unknown, "structured_output_retry_exhausted": class.Unknown,
		"tool_deferred": class.Unknown, "tool_deferred_unavailable": class.Unknown, "turn_setup_failed": class.Unknown,
	}
	claudeSubtypes = map[string]class.Class{"error_max_turns": class.Turns, "error_max_budget_usd": class.Budget}
)

var (
	claudeOffline = pattern.Lazy(`(?i)unable to connect|can't reach|connection (?:refused|error|closed|reset|failed|timed out)|request timed out|\bE(?:CONN|NOTFOUND|HOST|NET|TIMEDOUT)|ENOTFOUND|fetch failed|socket hang up`)
	claudeBusy    = pattern.Lazy(`(?i)overloaded|internal server error`)
	claudeNoID    = pattern.Lazy(`No conversation found with session ID|--resume requires a valid session|Session ID \S+ is already in use`)
)

// claudeRetryClass is what a request failed of that the CLI repeats; without a
// status there was no answer.
func claudeRetryClass(word string, status int64) class.Class {
	switch failure, known := claudeWords[word]; {
	case known:
		return failure
	case status != 0:
		return statusClass(int(status))
	case word == "server_error":
		return class.Overloaded
	}
	return class.Network
}

// good: all four words on a turn's end say that it went well.
func (r claudeResult) good() bool {
	_, bad := claudeReasons[r.reason]
	return r.ended && !r.failed && !bad && r.status == 0 && (r.subtype == "success" || r.subtype == "")
}

func (r claudeResult) errorText() string {
	if r.text == "" {
		return r.problems
	}
	return r.text
}

// judge says whether the run is Done, and if not what went wrong.
func (s *claudeStream) judge(learned *Learned, end proc.Result) {
	r := s.result
	switch {
	case r.good():
		learned.Done = true
		return
	case r.ended:
		learned.Class, learned.ErrorText = s.failure(r), errorText(r.errorText())
	case s.limit != nil:
		learned.Class, learned.ErrorText = class.Limit, errorText(strings.TrimSpace(s.limit.Kind+" limit reached"))
	case s.retry.class != class.None: // ended while it waited
		learned.Class, learned.ErrorText = s.retry.class, s.retry.text
	default:
		learned.Class, learned.ErrorText = class.NoResult, errorText(s.stderr())
	}
	if learned.Class != class.Limit {
		return
	}
	learned.Limit = s.limit
	if s.limit == nil {
		learned.Limit = &Limit{ResetsAt: claudeReset(r.text, end.LastOutput)}
	}
	learned.Limit.Text = learned.ErrorText
}

// failure classifies a turn that ended badly, by the most particular word that
// the CLI gives. Of its texts only those that it writes in the agent's place
// are looked at, and only where it has no word.
func (s *claudeStream) failure(r claudeResult) class.Class {
	if failure := claudeReasons[r.reason]; failure != class.None && failure != class.Unknown {
		return failure
	}
	if failure, ok := claudeSubtypes[r.subtype]; ok {
		return failure
	}
	if failure, ok := claudeDetails[s.detail]; ok {
		return failure
	}
	switch {
	case r.stop == "refusal":
		return class.Refused
	case s.limit != nil:
		return class.Limit
	case claudeNoID().MatchString(r.problems):
		return class.Session
	}
	written := s.word != "" && r.failed // the text is the CLI's, not the agent's
	switch failure, ok := claudeWords[s.word]; {
	case failure == class.Request && (strings.HasPrefix(r.text, "Prompt is too long") || r.status == 413):
		return class.Context
	case ok:
		return failure
	case r.status != 0:
		return statusClass(int(r.status))
	case written && claudeOffline().MatchString(r.text):
		return class.Network
	case written && claudeBusy().MatchString(r.text):
		return class.Overloaded
	case s.retry.class != class.None:
		return s.retry.class
	case s.word == "server_error":
		return class.Overloaded
	}
	return class.Unknown
}

// claudeStarts are the texts of standard error when nothing comes on standard
// output.
var claudeStarts = []struct {
	class class.Class
	text  func() *regexp.Regexp
}{
	{class.Session, claudeNoID},
	{class.Auth, pattern.Lazy(`Not logged in|Please run /login|Invalid API key`)},
	{class.Config, pattern.Lazy(`(?m)^error: |^Error: (?:Settings file|Invalid MCP configuration|Input must be provided|Invalid session ID|When using --print|--)|cannot be used with root/sudo|requires --verbose|is invalid\.`)},
}

// claudeStart explains a run of which no event came. An output that is not the
// stream explains nothing if the program ended well.
func claudeStart(stderr string, end proc.Result) (class.Class, string) {
	if end.Ended != proc.Exited || end.Signal == "" && end.Code == 0 {
		return class.None, ""
	}
	for _, s := range claudeStarts {
		if at := s.text().FindStringIndex(stderr); at != nil {
			line := strings.LastIndexByte(stderr[:at[0]], '\n') + 1
			return s.class, errorText(stderr[line:])
		}
	}
	return class.None, ""
}

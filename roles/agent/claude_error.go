package agent

import (
	"strings"

	"github.com/superloop/superloop/internal/proc"
)

// claudeWords are the CLI's words for what stopped a message (the field error),
// claudeDetails its finer ones (api_error), which only newer releases tell, and
// claudeReasons those for why a run ended (terminal_reason) that are none of
// success. A word that is in none of them says nothing.
var (
	claudeWords = map[string]Class{
		"authentication_failed": ClassAuth, "oauth_org_not_allowed": ClassAuth, "verification_required": ClassAuth,
		"cloud_credential_error": ClassAuth, "billing_error": ClassBilling, "account_on_hold": ClassBilling,
		"rate_limit": ClassLimit, "overloaded": ClassOverloaded, "model_not_found": ClassModel, "invalid_request": ClassRequest,
	}
	claudeDetails = map[string]Class{
		"usage_limit_reached": ClassLimit, "model_requires_usage_credits": ClassBilling, "long_context_credits_required": ClassBilling,
		"connection_failed": ClassNetwork, "stream_idle_timeout": ClassNetwork, "computer_slept": ClassNetwork,
		"network_edge_blocked": ClassNetwork, "no_response": ClassNetwork, "gateway_content_type": ClassNetwork,
		"message_over_context_limit": ClassContext, "autocompact_thrashing": ClassContext,
		"safety_monitor_blocked": ClassRefused, "dlp_request_denied": ClassRefused,
		"stored_login_refused": ClassAuth, "oauth_refresh_store_refused": ClassAuth, "provider_credentials": ClassAuth,
		"gateway_signin_required": ClassAuth, "gateway_session_expired": ClassAuth, "api_key_auth_disabled": ClassAuth,
		"org_disabled_credential":     ClassAuth,
		"claude_code_version_too_old": ClassConfig, "tls_untrusted_ca": ClassConfig, "tls_cert_signature_failure": ClassConfig,
		"invalid_credential_header": ClassConfig, "effort_requires_thinking": ClassConfig, "advisor_incompatible": ClassConfig,
		"hook_denied":           ClassConfig,
		"tool_history_mismatch": ClassRequest, "pdf_too_large": ClassRequest, "pdf_password_protected": ClassRequest,
	}
	claudeReasons = map[string]Class{
		"max_turns": ClassTurns, "budget_exhausted": ClassBudget,
		"prompt_too_long": ClassContext, "blocking_limit": ClassContext, "rapid_refill_breaker": ClassContext,
		"image_error": ClassRequest, "api_error": ClassUnknown, "model_error": ClassUnknown, "malformed_tool_use_exhausted": ClassUnknown,
		"aborted_streaming": ClassUnknown, "aborted_tools": ClassUnknown, "structured_output_retry_exhausted": ClassUnknown,
		"tool_deferred": ClassUnknown, "tool_deferred_unavailable": ClassUnknown, "turn_setup_failed": ClassUnknown,
	}
	claudeSubtypes = map[string]Class{"error_max_turns": ClassTurns, "error_max_budget_usd": ClassBudget}
)

var (
	claudeOffline = lazily(`(?i)unable to connect|can't reach|connection (?:refused|error|closed|reset|failed|timed out)|request timed out|\bE(?:CONN|NOTFOUND|HOST|NET|TIMEDOUT)|ENOTFOUND|fetch failed|socket hang up`)
	claudeBusy    = lazily(`(?i)overloaded|internal server error`)
	claudeNoID    = lazily(`No conversation found with session ID|--resume requires a valid session|Session ID \S+ is already in use`)
)

// claudeRetryClass is what a request failed of that the CLI repeats; without a
// status there was no answer.
func claudeRetryClass(word string, status int64) Class {
	switch class, known := claudeWords[word]; {
	case known:
		return class
	case status != 0:
		return statusClass(int(status))
	case word == "server_error":
		return ClassOverloaded
	}
	return ClassNetwork
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
		learned.Class, learned.ErrorText = ClassLimit, errorText(strings.TrimSpace(s.limit.Kind+" limit reached"))
	case s.retry.class != ClassNone: // ended while it waited
		learned.Class, learned.ErrorText = s.retry.class, s.retry.text
	default:
		learned.Class, learned.ErrorText = ClassNoResult, errorText(s.stderr())
	}
	if learned.Class != ClassLimit {
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
func (s *claudeStream) failure(r claudeResult) Class {
	if class := claudeReasons[r.reason]; class != ClassNone && class != ClassUnknown {
		return class
	}
	if class, ok := claudeSubtypes[r.subtype]; ok {
		return class
	}
	if class, ok := claudeDetails[s.detail]; ok {
		return class
	}
	switch {
	case r.stop == "refusal":
		return ClassRefused
	case s.limit != nil:
		return ClassLimit
	case claudeNoID().MatchString(r.problems):
		return ClassSession
	}
	written := s.word != "" && r.failed // the text is the CLI's, not the agent's
	switch class, ok := claudeWords[s.word]; {
	case class == ClassRequest && (strings.HasPrefix(r.text, "Prompt is too long") || r.status == 413):
		return ClassContext
	case ok:
		return class
	case r.status != 0:
		return statusClass(int(r.status))
	case written && claudeOffline().MatchString(r.text):
		return ClassNetwork
	case written && claudeBusy().MatchString(r.text):
		return ClassOverloaded
	case s.retry.class != ClassNone:
		return s.retry.class
	case s.word == "server_error":
		return ClassOverloaded
	}
	return ClassUnknown
}

// claudeStarts are the texts of standard error when nothing comes on standard
// output.
var claudeStarts = []struct {
	class Class
	text  pattern
}{
	{ClassSession, claudeNoID},
	{ClassAuth, lazily(`Not logged in|Please run /login|Invalid API key`)},
	{ClassConfig, lazily(`(?m)^error: |^Error: (?:Settings file|Invalid MCP configuration|Input must be provided|Invalid session ID|When using --print|--)|cannot be used with root/sudo|requires --verbose|is invalid\.`)},
}

// claudeStart explains a run of which no event came. An output that is not the
// stream explains nothing if the program ended well.
func claudeStart(stderr string, end proc.Result) (Class, string) {
	if end.Ended != proc.Exited || end.Signal == "" && end.Code == 0 {
		return ClassNone, ""
	}
	for _, s := range claudeStarts {
		if at := s.text().FindStringIndex(stderr); at != nil {
			line := strings.LastIndexByte(stderr[:at[0]], '\n') + 1
			return s.class, errorText(stderr[line:])
		}
	}
	return ClassNone, ""
}

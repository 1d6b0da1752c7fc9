package agent

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

// geminiFailures are the events that say by themselves why a turn went wrong;
// the result after them tells no error, or even success.
var geminiFailures = map[string]class.Class{
	"Model stream ended without a finish reason.":                                                                                     class.Network,
	"Model stream ended with malformed function call.":                                                                                class.Unknown,
	"Model stream ended with unexpected tool call.":                                                                                   class.Unknown,
	"Invalid stream: The model returned an empty response or malformed tool call.":                                                    class.Overloaded,
	"The model returned an empty response with no text or thoughts. This may be a transient API issue; please try again.":             class.Overloaded,
	"The model returned reasoning thoughts but no final response text. If your context window is near capacity, try using /compress.": class.Unknown,
	"Model response was truncated because it exceeded the token limit. Try using /compress to free up context space.":                 class.Context,
	"The model response was blocked due to safety settings.":                                                                          class.Refused,
	"The model response was blocked due to recitation/copyright filters.":                                                             class.Refused,
	"The model response was blocked due to other policy settings.":                                                                    class.Refused,
	"Maximum session turns exceeded":                                                                                                  class.Turns,
	"Loop detected, stopping execution":                                                                                               class.Unknown,
}

// geminiTypes are the CLI's own errors, by the name that a result gives them.
var geminiTypes = map[string]class.Class{
	"FatalAuthenticationError": class.Auth, "UnauthorizedError": class.Auth, "ForbiddenError": class.Auth, "AccountSuspendedError": class.Auth,
	"FatalInputError": class.Config, "FatalSandboxError": class.Config, "FatalConfigError": class.Config, "FatalUntrustedWorkspaceError": class.Config,
	"FatalTurnLimitedError": class.Turns, "ModelNotFoundError": class.Model, "BadRequestError": class.Request,
	// Their texts quote tools and hooks, so nothing is read from them.
	"FatalToolExecutionError": class.Unknown, "no_space_left": class.Unknown, "FatalCancellationError": class.Unknown,
}

// geminiTools are those that an approval mode takes away.
var geminiTools = []string{"run_shell_command", "write_file", "replace", "web_fetch", "save_memory", "list_background_processes", "read_background_output"}

// geminiDenied reports whether a tool was refused by the CLI's permissions. A
// mode that forbids a tool does not offer it at all, so that a call of it fails
// as one of a tool that does not exist.
func geminiDenied(kind, message string) bool {
	switch kind {
	case "policy_violation", "path_not_in_workspace", "sandbox_expansion_required":
		return true
	case "unhandled_exception":
		return strings.HasSuffix(message, "requires user confirmation, which is not supported in non-interactive mode.")
	case "tool_not_registered":
		return slices.ContainsFunc(geminiTools, func(name string) bool { return strings.HasPrefix(message, `Tool "`+name+`" not found`) })
	case "invalid_tool_params":
		return strings.HasPrefix(message, "Access denied: plan path") || strings.HasPrefix(message, "Path not in workspace")
	}
	return false
}

// geminiFound is what an error says.
type geminiFound struct {
	class class.Class
	kind  string
	wait  time.Duration
}

// geminiError classifies what a result calls an error: by the CLI's own type of
// it, then by the provider's error in the text, by words that only the CLI and
// the provider use there, by what standard error reports of the same request,
// and last by the exit code.
func geminiError(kind, text, stderr string, end proc.Result) geminiFound {
	if failure, ok := geminiTypes[kind]; ok {
		return geminiFound{class: failure}
	}
	if failure, ok := geminiFailures[text]; ok {
		return geminiFound{class: failure}
	}
	report := geminiReport(stderr)
	found := geminiFound{wait: geminiWait(text)}
	if found.wait == 0 {
		found.wait = report.wait
	}
	if e, ok := parseGoogleError(text); ok {
		found.class, found.kind = e.class(), e.window()
		if wait := e.wait(); wait > 0 {
			found.wait = wait
		}
	}
	for _, next := range []func() class.Class{
		func() class.Class { return providerWords(text) },
		func() class.Class { return report.class },
		func() class.Class { return geminiExit(end) },
	} {
		if found.class == class.None || found.class == class.Unknown {
			found.class = next()
		}
	}
	if found.class == class.None {
		found.class = class.Unknown
	}
	if found.class == class.Limit && found.kind == "" && strings.Contains(text, "daily quota") {
		found.kind = "daily"
	}
	return found
}

// googleError is the error object of Google's APIs.
type googleError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Status  json.RawMessage `json:"status"`
	Details []struct {
		Reason     string            `json:"reason"`
		Metadata   map[string]string `json:"metadata"`
		RetryDelay string            `json:"retryDelay"`
		Violations []struct {
			QuotaID string `json:"quotaId"`
		} `json:"violations"`
	} `json:"details"`
}

// parseGoogleError finds the error object in a text such as
// `[API Error: {"error":{...}}]`; its message may hold another one.
func parseGoogleError(text string) (found googleError, ok bool) {
	for range 3 {
		_, rest, has := strings.Cut(text, "{")
		if !has {
			break
		}
		var body struct {
			Error googleError `json:"error"`
		}
		if json.NewDecoder(strings.NewReader("{"+rest)).Decode(&body) != nil || body.Error.Code == 0 && body.Error.Message == "" {
			break
		}
		inner, deeper := body.Error, ok
		if deeper && inner.Code == 0 {
			inner.Code = found.Code
		}
		found, ok = inner, true
		text = found.Message
	}
	return found, ok
}

func (e googleError) class() class.Class {
	if failure := providerWords(e.Message); failure != class.None {
		return failure
	}
	for _, d := range e.Details {
		switch d.Reason {
		case "API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED", "CONSUMER_INVALID", "SERVICE_DISABLED":
			return class.Auth
		case "INSUFFICIENT_G1_CREDITS_BALANCE", "BILLING_DISABLED":
			return class.Billing
		}
	}
	return statusClass(e.Code)
}

// window is the provider's word for the quota.
func (e googleError) window() string {
	for _, d := range e.Details {
		for _, v := range d.Violations {
			if v.QuotaID != "" {
				return v.QuotaID
			}
		}
		if limit := d.Metadata["quota_limit"]; limit != "" {
			return limit
		}
	}
	return ""
}

func (e googleError) wait() time.Duration {
	for _, d := range e.Details {
		for _, text := range []string{d.RetryDelay, d.Metadata["quotaResetDelay"]} {
			if wait, err := time.ParseDuration(text); err == nil && wait > 0 {
				return wait
			}
		}
	}
	return geminiWait(e.Message)
}

var (
	googleNoQuota = pattern.Lazy(`\blimit:\s*0(?:[^\d.]|\.(?:\D|$)|$)`)
	googleDelay   = pattern.Lazy(`(?i)(?:suggested retry after|please retry in|quota will reset after)\s+((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)`)
)

// providerWords goes by what a provider (Google most of all), or a CLI for it,
// says in an error. It is never asked about a text of the agent.
func providerWords(text string) class.Class {
	low := strings.ToLower(text)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(low, w) })
	}
	switch {
	case has("quota") && googleNoQuota().MatchString(low), has("insufficient credits", "insufficient_g1_credits", "billing account", "prepayment credits", "credit balance is too low"):
		return class.Billing // a quota of nothing is one that only payment lifts
	case has("api key not valid", "api key expired", "api_key_invalid", "unauthenticated", "permission_denied"):
		return class.Auth
	case has("suggested retry after", "please retry in", "exhausted your daily quota", "exhausted your capacity", "quota exceeded",
		"exceeded your current quota", "resource has been exhausted", "resource_exhausted", "to increase your limits, request a quota increase"):
		return class.Limit
	case has("exceeds the maximum number of tokens", "input token count"):
		return class.Context
	case has("is not found for api version", "model not found", "requested entity was not found"):
		return class.Model
	case has("overloaded", "internal error encountered", "currently unavailable"):
		return class.Overloaded
	case has("[api error: terminated]", "fetch failed", "econnre", "etimedout", "enotfound", "eai_again", "socket hang up", "other side closed", "premature close"):
		return class.Network
	}
	return class.None
}

func geminiWait(text string) time.Duration {
	m := googleDelay().FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	wait, _ := time.ParseDuration(m[1])
	return wait
}

var (
	geminiReportField = pattern.Lazy(`(?m)^  (status|code|retryDelayMs): (\d{1,12}),?$`)
	geminiReportName  = pattern.Lazy(`^Error when talking to Gemini API .*?\.json (\w+): `)
)

// geminiReport reads what standard error says of the request that failed last:
// the error as the runtime prints it, its fields one a line.
func geminiReport(stderr string) (found geminiFound) {
	const begin = "Error when talking to Gemini API "
	at := strings.LastIndex(stderr, begin)
	if at < 0 || at > 0 && stderr[at-1] != '\n' {
		return geminiFound{}
	}
	report := stderr[at:]
	for _, m := range geminiReportField().FindAllStringSubmatch(report, -1) {
		n, _ := strconv.ParseInt(m[2], 10, 64)
		if m[1] == "retryDelayMs" {
			found.wait = time.Duration(n) * time.Millisecond
		} else if failure := statusClass(int(n)); failure != class.Unknown {
			found.class = failure
		}
	}
	if m := geminiReportName().FindStringSubmatch(report); found.class == class.None && m != nil {
		found.class = map[string]class.Class{
			"TerminalQuotaError": class.Limit, "RetryableQuotaError": class.Limit, "ModelNotFoundError": class.Model,
			"ValidationRequiredError": class.Auth,
		}[strings.TrimLeft(m[1], "_")]
	}
	return found
}

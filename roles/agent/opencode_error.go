package agent

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

// opencodeOverflow is the error of a conversation that is too long; the CLI
// shortens it and goes on.
const opencodeOverflow = "ContextOverflowError"

// opencodeFailure is an error event.
type opencodeFailure struct {
	name, text, body, ref string
	status                int
	retryable             bool
	headers               map[string]string
	at                    time.Time
}

// learn puts the failure into what is learned of the run.
func (f *opencodeFailure) learn(learned *Learned, log opencodeLog, end proc.Result) {
	learned.StopReason = f.name
	text := f.text
	learned.Class = f.class()
	if cause := log.causes[f.ref]; cause != "" && learned.Class == class.Unknown {
		text = cause
		learned.Class = opencodeCause(cause)
	}
	learned.ErrorText = errorText(text)
	at := f.at
	if at.IsZero() {
		at = end.LastOutput
	}
	reset := resetOf(f.headers, at)
	if learned.Class == class.Limit || learned.Class == class.Overloaded && !reset.IsZero() {
		learned.Limit = &Limit{Kind: f.provider().limit(), Text: learned.ErrorText, ResetsAt: reset}
	}
}

func (f *opencodeFailure) class() class.Class {
	switch f.name {
	case "ProviderAuthError":
		return class.Auth
	case opencodeOverflow:
		return class.Context
	case "ContentFilterError":
		return class.Refused
	case "MessageAbortedError":
		return class.NoResult
	case "ProviderModelNotFoundError", "ModelNotFoundError":
		return class.Model
	case "ConfigInvalidError", "ConfigJsonError", "ConfigDirectoryTypoError":
		return class.Config
	case "APIError", "UnknownError":
		return f.apiClass()
	}
	return class.Unknown
}

// apiClass: the status says most, but providers use 400 for a bad key, 429 for
// an empty account, and put an error into a stream that has the status 200.
func (f *opencodeFailure) apiClass() class.Class {
	failure := f.provider().class()
	switch {
	case f.status == 400 && (failure == class.None || failure == class.Request):
		if words := providerWords(f.text); words == class.Auth || words == class.Context || words == class.Billing {
			return words
		}
	case (f.status == 429 || f.status == 0) && failure != class.None:
		return failure
	case f.status == 0 && f.name == "APIError" && f.retryable:
		return class.Network
	case f.status == 400 && (failure == class.Billing || failure == class.Auth || failure == class.Context):
		return failure
	}
	return statusClass(f.status)
}

// providerError is the error object of most providers, whichever of its fields
// they use.
type providerError struct {
	Type     string          `json:"type"`
	Code     json.RawMessage `json:"code"`
	Metadata struct {
		LimitName string `json:"limitName"`
	} `json:"metadata"`
}

func (f *opencodeFailure) provider() providerError {
	for _, text := range []string{f.body, f.text} {
		var outer struct {
			Error *providerError `json:"error"`
			providerError
		}
		if json.Unmarshal([]byte(text), &outer) == nil {
			if outer.Error != nil {
				if outer.Error.Metadata.LimitName == "" {
					outer.Error.Metadata = outer.Metadata
				}
				return *outer.Error
			}
			return outer.providerError
		}
	}
	return providerError{}
}

func (e providerError) words() []string { return []string{e.Type, strings.Trim(string(e.Code), `"`)} }

// class goes by the words that providers have for kinds of errors.
func (e providerError) class() class.Class {
	is := func(words ...string) bool {
		return slices.ContainsFunc(e.words(), func(w string) bool { return slices.Contains(words, w) })
	}
	switch {
	case is("insufficient_quota", "billing_error", "billing_not_active", "insufficient_credits", "CreditsError"):
		return class.Billing
	case is("authentication_error", "invalid_api_key", "permission_error", "AuthError"):
		return class.Auth
	case is("context_length_exceeded"):
		return class.Context
	case is("model_not_found"):
		return class.Model
	case is("rate_limit_error", "rate_limit_exceeded", "too_many_requests", "FreeUsageLimitError", "GoUsageLimitError", "SubscriptionUsageLimitError"):
		return class.Limit
	case is("overloaded_error", "server_error", "api_error", "internal_server_error", "timeout_error"):
		return class.Overloaded
	case is("invalid_request_error"):
		return class.Request
	}
	return class.None
}

// limit is the provider's word for the window of a limit.
func (e providerError) limit() string {
	if e.Metadata.LimitName != "" {
		return e.Metadata.LimitName
	}
	for _, w := range e.words() {
		if strings.HasSuffix(w, "UsageLimitError") {
			return w
		}
	}
	return ""
}

// opencodeLog is what the CLI's log on standard error told.
type opencodeLog struct {
	// causes are the errors behind "check server logs for details", by the
	// reference that the event has.
	causes map[string]string
	// last is the latest of them, and tried the request that failed last, while
	// no later one has succeeded; failed counts such requests.
	last, tried string
	failed      int
}

var (
	opencodeLogLine  = pattern.Lazy(`^timestamp=\S+ level=ERROR run=\S+ message=(?:"stream error"|failed) `)
	opencodeLogRef   = pattern.Lazy(` ref=(\S{1,64}) error=`)
	opencodeLogError = pattern.Lazy(` (?:error\.)?error=("(?:[^"\\]|\\.)*"|\S+)`)
)

// maxCauses bounds what is kept of a log that does not end.
const maxCauses = 64

func (o *opencodeLog) note(line []byte) {
	if !opencodeLogLine().Match(line) {
		return
	}
	m := opencodeLogError().FindSubmatch(line)
	if m == nil {
		return
	}
	text := string(m[1])
	if plain, err := strconv.Unquote(text); err == nil {
		text = plain
	}
	ref := opencodeLogRef().FindSubmatch(line)
	if ref == nil {
		o.tried = text
		o.failed++
		return
	}
	o.last = text
	if o.causes == nil {
		o.causes = map[string]string{}
	}
	if len(o.causes) < maxCauses {
		o.causes[string(ref[1])] = text
	}
}

// opencodeTried classifies the request that the CLI was going to repeat when it
// was ended. It repeats only what may pass: limits, a provider in trouble, and a
// broken connection.
func opencodeTried(text string) class.Class {
	low := strings.ToLower(text)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(low, w) })
	}
	switch {
	case has("exceeded your current quota", "insufficient_quota", "insufficient credits"):
		return class.Billing
	case has("rate limit", "rate_limit", "too many requests", "exhausted", "quota", "usage limit"):
		return class.Limit
	case has("unable to connect", "connectionrefused", "econn", "cannot connect", "socket connection", "connection reset", "fetch failed", "timed out"):
		return class.Network
	}
	return class.Overloaded
}

var opencodeMeant = pattern.Lazy(`Model not found: [^/\s]+/(\S+)\. Did you mean: ([^?]*)\?`)

// opencodeCause classifies an error of the CLI's own. A model that it calls not
// found and proposes in the same breath is one of a provider without a key.
func opencodeCause(text string) class.Class {
	if m := opencodeMeant().FindStringSubmatch(text); m != nil && slices.Contains(strings.Split(m[2], ", "), m[1]) {
		return class.Auth
	}
	name, _, _ := strings.Cut(text, ":")
	return (&opencodeFailure{name: name}).class()
}

// opencodeStart explains a run of which no event came: what is wrong with a
// command line or a setting is only on standard error.
func opencodeStart(end proc.Result, stderr string, log opencodeLog) (class.Class, string) {
	if end.Ended != proc.Exited || end.Signal != "" || end.Code == 0 {
		if log.tried != "" {
			return opencodeTried(log.tried), errorText(log.tried)
		}
		return class.None, ""
	}
	said := strings.TrimSpace(text.Uncoloured(stderr))
	if strings.HasPrefix(said, "opencode run [message..]") {
		return class.Config, "opencode does not take one of its arguments; it printed its help and not which one"
	}
	_, line, found := strings.Cut("\n"+said, "\nError: ")
	switch {
	case !found:
	case strings.HasPrefix(line, "Session not found"):
		return class.Session, errorText(line)
	case strings.HasPrefix(line, "Configuration is invalid"), strings.HasPrefix(line, "Config file at"),
		strings.HasPrefix(line, "You must provide a message"), strings.HasPrefix(line, "Failed to change directory"),
		strings.HasPrefix(line, "--"), strings.HasPrefix(line, "File not found"):
		return class.Config, errorText(line)
	default:
		return class.Unknown, errorText(line)
	}
	if log.last != "" {
		return opencodeCause(log.last), errorText(log.last)
	}
	return class.None, ""
}

package agent

import (
	"cmp"
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

// geminiRefusal is the kind and the message of a tool's error when the CLI's permissions refused it. A call of a tool
// that a mode forbids fails as one of a tool that does not exist.
var geminiRefusal = pattern.Lazy(`^(?:policy_violation|path_not_in_workspace|sandbox_expansion_required)\n` +
	`|^unhandled_exception\n(?s:.*)requires user confirmation, which is not supported in non-interactive mode\.$` +
	`|^tool_not_registered\nTool "(?:run_shell_command|write_file|replace|web_fetch|save_memory|list_background_processes|read_background_output)" not found` +
	`|^invalid_tool_params\n(?:Access denied: plan path|Path not in workspace)`)

func geminiDenied(kind, message string) bool {
	return geminiRefusal().MatchString(kind + "\n" + message)
}

// geminiFound is what an error says.
type geminiFound struct {
	class class.Class
	kind  string
	wait  time.Duration
}

// geminiError classifies the error of a result: by the CLI's own type of it, the provider's error in the text, words
// that only the CLI and the provider use there, what standard error reports of the same request, and the exit code.
func geminiError(kind, text, stderr string, end proc.Result) geminiFound {
	if own := cmp.Or(classOf("gemini.error", kind), classOf("gemini.event", text)); own != class.None {
		return geminiFound{class: own}
	}
	report := geminiReport(stderr)
	found := parseGoogleError(text)
	found.wait = cmp.Or(found.wait, geminiWait(text), report.wait)
	for _, next := range []class.Class{classOf("provider.text", text), report.class, geminiExit(end)} {
		if found.class == class.None || found.class == class.Unknown {
			found.class = next
		}
	}
	found.class = cmp.Or(found.class, class.Unknown)
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

// parseGoogleError finds the error object in a text such as `[API Error: {"error":{...}}]`; its message may hold
// another one. The kind is the provider's word for the quota.
func parseGoogleError(text string) (found geminiFound) {
	e, ok := googleError{}, false
	for range 3 {
		_, rest, has := strings.Cut(text, "{")
		var body struct {
			Error googleError `json:"error"`
		}
		if !has || json.NewDecoder(strings.NewReader("{"+rest)).Decode(&body) != nil || body.Error.Code == 0 && body.Error.Message == "" {
			break
		}
		body.Error.Code = cmp.Or(body.Error.Code, e.Code)
		e, ok, text = body.Error, true, body.Error.Message
	}
	if !ok {
		return found
	}
	found.class = classOf("provider.text", e.Message)
	for _, d := range e.Details {
		found.class = cmp.Or(found.class, classOf("google.reason", d.Reason))
		for _, v := range d.Violations {
			found.kind = cmp.Or(found.kind, v.QuotaID)
		}
		found.kind = cmp.Or(found.kind, d.Metadata["quota_limit"])
		for _, delay := range []string{d.RetryDelay, d.Metadata["quotaResetDelay"]} {
			wait, _ := time.ParseDuration(delay)
			found.wait = cmp.Or(found.wait, max(0, wait))
		}
	}
	found.class = cmp.Or(found.class, statusClass(e.Code))
	found.wait = cmp.Or(found.wait, geminiWait(e.Message))
	return found
}

var googleDelay = pattern.Lazy(`(?i)(?:suggested retry after|please retry in|quota will reset after)\s+((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)`)

func geminiWait(text string) (wait time.Duration) {
	if m := googleDelay().FindStringSubmatch(text); m != nil {
		wait, _ = time.ParseDuration(m[1])
	}
	return wait
}

var (
	geminiReportField = pattern.Lazy(`(?m)^  (status|code|retryDelayMs): (\d{1,12}),?$`)
	geminiReportName  = pattern.Lazy(`^Error when talking to Gemini API .*?\.json _*(\w+): `)
)

// geminiReport reads the report on standard error of the request that failed last, its fields one a line.
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
		} else if status := statusClass(int(n)); status != class.Unknown {
			found.class = status
		}
	}
	if m := geminiReportName().FindStringSubmatch(report); found.class == class.None && m != nil {
		found.class = classOf("gemini.report", m[1])
	}
	return found
}

// geminiExit classifies by the exit code alone.
func geminiExit(end proc.Result) class.Class {
	if end.Ended != proc.Exited || end.Signal != "" {
		return class.None
	}
	return classOf("gemini.exit", strconv.Itoa(end.Code))
}

// geminiStart explains a run without events by standard error.
func geminiStart(end proc.Result, stderr string) (class.Class, string) {
	if !failed(end) {
		return class.None, ""
	}
	// The help follows a bad flag; the noise comes with every start.
	stderr, _, usage := strings.Cut(text.Uncoloured(stderr), "Usage: gemini [options]")
	lines := slices.DeleteFunc(strings.Split(stderr, "\n"), geminiNoise().MatchString)
	said := strings.TrimSpace(strings.Join(lines, "\n"))
	found := geminiExit(end)
	switch {
	case end.Code == 42 && strings.HasPrefix(said, "Error resuming session:"):
		found = class.Session
	case end.Code == 1 && usage:
		found = class.Config
	}
	if found == class.None {
		return class.None, ""
	}
	return found, errorText(said)
}

var (
	geminiNoise   = pattern.Lazy(`^(?:Warning: |YOLO mode is enabled|Ripgrep is not available|\[STARTUP\])`)
	geminiAttempt = pattern.Lazy(`^Attempt \d+ failed(?: with status (\d{3})|: )`)
)

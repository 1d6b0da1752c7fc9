package agent

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

var geminiLines = paths{
	64: `type timestamp role severity status stats.total_tokens stats.input_tokens stats.input stats.cached stats.output_tokens
		stats.models.*.total_tokens stats.models.*.input_tokens`,
	256:       "session_id model tool_name tool_id error.type",
	512:       "parameters.command parameters.file_path parameters.description",
	64 << 10:  "message error.message",
	finalText: "content",
}.lazy()

type geminiStream struct {
	jsonLines
	said  *proc.HeadTail // the assistant's text since the last tool call
	spoke bool           // the model has answered at least once
	// reading is the directory that the role may only read; "" if it may write. breaches are the calls under way of
	// forbidden tools, by their ids. escaped describes the last such call that succeeded.
	reading  string
	breaches map[string]string
	escaped  string
	failure  string // the last event that says why the turn failed although no request failed
	// retrying and attempt are the class and the message of the failed attempt after which the CLI is waiting.
	retrying class.Class
	attempt  string
	pause    time.Duration // how long the CLI waits; 0 if it does not say

	ended     bool // the result event has come
	ok        bool
	at        time.Time
	errorType string
	errorText string
	usage     Usage
}

func (g gemini) Stream(req Request) Stream {
	if req.Asked != "" {
		return g.served(req)
	}
	s := &geminiStream{breaches: map[string]string{}, said: proc.NewHeadTail(finalHalf)}
	if req.Permissions == PermitRead {
		s.reading = req.WorkDir
	}
	s.note = s.failedAttempt
	s.read(geminiLines(), s.event)
	return s
}

// failedAttempt reads a line of standard error about a failed attempt. If the line has no status, the attempt failed at
// a quota. The length of the pause before the next attempt is on the same line or on a later one.
func (s *geminiStream) failedAttempt(line []byte) {
	if m := geminiAttempt().FindSubmatch(line); m != nil {
		s.retrying, s.attempt, s.pause = class.Limit, string(line), 0
		if status, err := strconv.Atoi(string(m[1])); err == nil {
			s.retrying = statusClass(status)
		}
		s.say(s.attempt)
	}
	if m := geminiPause().FindSubmatch(line); m != nil && s.retrying != class.None {
		ms, _ := strconv.ParseInt(string(m[1]), 10, 64)
		s.pause = time.Duration(ms) * time.Millisecond
	}
}

// Settled reports the run as finished after the result event. It reports the run as hopeless when the CLI sleeps for
// longWait or longer, and when its role may only read and a forbidden call has succeeded. superloop must end such a run
// before the model answers again, because the model can write from then on. Any other failure gemini gives up by itself
// within minutes.
func (s *geminiStream) Settled() Settled {
	return settledAs(s.ended && s.escaped == "", s.escaped != "" || s.pause >= longWait, false)
}

// geminiMarks are, by type of event, the field that shows that the event comes from this CLI.
var geminiMarks = map[string]string{
	"init": "session_id", "message": "role", "tool_use": "tool_name", "tool_result": "tool_id", "error": "severity", "result": "status",
}

func (s *geminiStream) event(e event) bool {
	kind := e.str("type")
	if _, ok := e.text(geminiMarks[kind]); !ok {
		return false
	}
	switch kind {
	case "init":
		s.session, s.model = e.str("session_id"), e.str("model")
	case "message":
		if v, ok := e.text("content"); ok && e.str("role") == "assistant" {
			_, _ = s.said.Write(whole(v, finalText))
			s.say(s.said.Capture().Text())
			s.spoke = true
		}
	case "tool_use":
		tool, id := e.str("tool_name"), e.str("tool_id")
		if breach := geminiBreach(tool, e.str("parameters.file_path"), s.reading); breach != "" && len(s.breaches) < maxBreaches {
			s.breaches[id] = breach
		}
		s.does(tool, cmp.Or(e.str("parameters.command"), e.str("parameters.file_path"), e.str("parameters.description")))
		s.said = proc.NewHeadTail(finalHalf)
		s.spoke = true
	case "tool_result":
		s.said = proc.NewHeadTail(finalHalf) // text after this belongs to a new message
		id := e.str("tool_id")
		if e.str("status") != "error" {
			s.escaped = cmp.Or(s.breaches[id], s.escaped)
		}
		delete(s.breaches, id)
		if geminiDenied(e.str("error.type"), e.str("error.message")) {
			s.denied++
		}
	case "error":
		s.say(e.str("message"))
		if classOf("gemini.event", e.str("message")) != class.None {
			s.failure = e.str("message")
		}
	case "result":
		s.result(e)
	}
	s.retrying, s.attempt, s.pause = class.None, "", 0
	return true
}

func (s *geminiStream) result(e event) {
	s.ended, s.ok = true, e.str("status") == "success"
	s.errorType, s.errorText = e.str("error.type"), e.str("error.message")
	s.at, _ = time.Parse(time.RFC3339Nano, e.str("timestamp"))
	s.say(strings.ReplaceAll(s.errorText, "\n", " "))
	s.usage = geminiUsage(e, s.spoke)
	most := int64(0)
	input := map[string]int64{}
	for v := range e.all("stats.models.*.input_tokens") {
		input[v.Keys[0]], _ = number(v)
	}
	for v := range e.all("stats.models.*.total_tokens") {
		total, _ := number(v)
		if output := total - input[v.Keys[0]]; output > most {
			most, s.model = output, v.Keys[0]
		}
	}
}

// maxBreaches bounds the forbidden calls that the stream remembers. So many calls are never under way.
const maxBreaches = 64

// geminiBreach describes the forbidden action of a call in a run whose role may only read in the directory reading; ""
// if the call is allowed. A relative path names a plan file, which the CLI keeps elsewhere.
func geminiBreach(tool, path, reading string) string {
	switch {
	case reading == "":
	case tool == "exit_plan_mode":
		return "left its read-only mode by itself (exit_plan_mode)"
	case (tool == "write_file" || tool == "replace") && filepath.IsAbs(path) && inside(path, reading):
		return "wrote " + path
	}
	return ""
}

// geminiUsage makes the kinds of tokens disjoint. input_tokens also counts the cached tokens. Only the total counts the
// thoughts, and with them the few tokens of tools that run at Google. If the result counts nothing although the model
// has answered, the usage is unknown, because the CLI counts a request only when its answer is complete.
func geminiUsage(e event, spoke bool) Usage {
	total, input := e.count("stats.total_tokens"), e.count("stats.input_tokens")
	if total == nil || *total == 0 && spoke {
		return Usage{}
	}
	u := Usage{Input: e.count("stats.input"), CacheRead: e.count("stats.cached"), Output: e.count("stats.output_tokens")}
	if u.Input == nil && input != nil {
		rest := max(0, *input-deref(u.CacheRead))
		u.Input = &rest
	}
	if input != nil && u.Output != nil {
		thoughts := max(0, *total-*input-*u.Output)
		output := *u.Output + thoughts
		u.Reasoning, u.Output = &thoughts, &output
	}
	return u
}

func (s *geminiStream) Finish(end proc.Result) Learned {
	learned := s.close()
	learned.FinalMessage, learned.Usage = captured(s.said, door.JoinCut), s.usage
	switch {
	case !s.known:
		learned.Class, learned.ErrorText = geminiStart(end, s.stderr())
	case s.escaped != "":
		learned.Class, learned.StopReason = class.Config, "read-only"
		learned.ErrorText = errorText("gemini " + s.escaped + " although it may only read; look at what it changed, and give this runner --policy=FILE with a rule that denies exit_plan_mode, write_file, replace and run_shell_command, or give this role another CLI")
	case !s.ended:
		learned.Class, learned.ErrorText = cmp.Or(s.retrying, class.NoResult), errorText(s.attempt)
		learned.limited("", waited(end.LastOutput, s.pause))
	case s.ok && s.failure == "":
		learned.Done, learned.StopReason = true, "success"
	default:
		learned.StopReason = "error"
		if s.errorType != "unknown" {
			learned.StopReason = cmp.Or(s.errorType, "error")
		}
		text := cmp.Or(s.errorText, s.failure)
		found := geminiError(s.errorType, text, s.stderr(), end)
		learned.Class, learned.ErrorText = found.class, errorText(cmp.Or(found.says, text))
		learned.limited(found.kind, waited(cmp.Or(s.at, end.LastOutput), found.wait))
	}
	return learned
}

// geminiRefusal matches the type and the message of a tool's error if the CLI's own permissions refused the call. The
// CLI reports a tool that a mode forbids as a tool that does not exist.
var geminiRefusal = pattern.Lazy(`^(?:policy_violation|path_not_in_workspace|sandbox_expansion_required)\n` +
	`|^unhandled_exception\n(?s:.*)requires user confirmation, which is not supported in non-interactive mode\.$` +
	`|^tool_not_registered\nTool "(?:run_shell_command|write_file|replace|web_fetch|save_memory|list_background_processes|read_background_output)" not found` +
	`|^invalid_tool_params\n(?:Access denied: plan path|Path not in workspace)`)

func geminiDenied(kind, message string) bool {
	return geminiRefusal().MatchString(kind + "\n" + message)
}

// geminiFound is the class of an error, the provider's name of the limit, the time to wait, and the provider's own words.
type geminiFound struct {
	class class.Class
	kind  string
	wait  time.Duration
	says  string
}

// geminiError classifies the error of a result. It uses, in this order, the CLI's own type of the error, the provider's
// error in the text, phrases that only the CLI and the provider use, the report on standard error about the same
// request, and the exit code.
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

// parseGoogleError finds the error object in a text such as `[API Error: {"error":{...}}]`. The object's message may
// hold another error object. The kind is the provider's name of the quota.
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
	found.class, found.says = classOf("provider.text", e.Message), e.Message
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

// geminiReport reads the report about the last failed request on standard error. The report has one field per line.
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

// geminiStart derives the class and the error text of a run without events from standard error.
func geminiStart(end proc.Result, stderr string) (class.Class, string) {
	if !failed(end) {
		return class.None, ""
	}
	// The CLI prints its help after the message about a bad flag. The lines that geminiNoise matches come at every
	// start.
	stderr, _, usage := strings.Cut(text.Uncoloured(stderr), "Usage: gemini [options]")
	said := without(geminiNoise(), stderr)
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
	geminiPause   = pattern.Lazy(`Retrying after (\d{1,9})ms\.\.\.`)
	geminiAttempt = pattern.Lazy(`^Attempt \d+ failed(?: with status (\d{3})|: )`)
)

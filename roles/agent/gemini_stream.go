package agent

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles"
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
	said  *proc.HeadTail // by the assistant since the last tool
	spoke bool           // the model has answered at all
	// reading is the directory in which the role may only read, and breaches are its calls under way of tools that it
	// must not have, by their ids; escaped says which of them went through.
	reading  string
	breaches map[string]string
	escaped  string
	failure  string // the last event that says why the turn went wrong although no request failed
	// retrying and attempt are the class and the words of the failed attempt after which the CLI is waiting.
	retrying class.Class
	attempt  string

	ended     bool // the result has come
	ok        bool
	at        time.Time
	errorType string
	errorText string
	usage     Usage
}

func (gemini) Stream(req Request) Stream {
	s := &geminiStream{breaches: map[string]string{}, said: proc.NewHeadTail(finalHalf)}
	if req.Permissions == PermitRead {
		s.reading = req.WorkDir
	}
	s.note = s.failedAttempt
	s.read(geminiLines(), s.event)
	return s
}

// failedAttempt takes a line of standard error. Without a status the failed attempt was one over a quota.
func (s *geminiStream) failedAttempt(line []byte) {
	m := geminiAttempt().FindSubmatch(line)
	if m == nil {
		return
	}
	s.retrying, s.attempt = class.Limit, string(line)
	if status, err := strconv.Atoi(string(m[1])); err == nil {
		s.retrying = statusClass(status)
	}
	s.say(s.attempt)
}

// Settled: what gemini cannot do it gives up by itself within minutes; but a run that got free has to be ended before
// its model answers again, since then it can write.
func (s *geminiStream) Settled() Settled {
	return settledAs(s.ended && s.escaped == "", s.escaped != "", false)
}

// geminiMarks are the fields by which an event is known to be of this CLI.
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
		s.said = proc.NewHeadTail(finalHalf) // what comes now is a new message
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
	s.retrying, s.attempt = class.None, ""
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

// maxBreaches bounds the calls that are remembered; so many are never under way.
const maxBreaches = 64

// geminiBreach says what a call does, if it goes through, that a role which may only read in that directory must not
// do; "" is nothing. A relative path names a plan, which is kept elsewhere.
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

// geminiUsage makes the kinds disjoint: input_tokens counts the cached ones too, and the thoughts are only in the
// total. (So are the few tokens of tools that run at Google.) A result that counts nothing although the model has
// spoken tells nothing: the CLI counts a request when its answer is complete.
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
	learned.FinalMessage, learned.Usage = captured(s.said, roles.JoinCut), s.usage
	switch {
	case !s.known:
		learned.Class, learned.ErrorText = geminiStart(end, s.stderr())
	case s.escaped != "":
		learned.Class, learned.StopReason = class.Config, "read-only"
		learned.ErrorText = errorText("gemini " + s.escaped + " although it may only read; look at what it changed, and give this runner --policy=FILE with a rule that denies exit_plan_mode, write_file, replace and run_shell_command, or give this role another CLI")
	case !s.ended:
		learned.Class, learned.ErrorText = cmp.Or(s.retrying, class.NoResult), errorText(s.attempt)
	case s.ok && s.failure == "":
		learned.Done, learned.StopReason = true, "success"
	default:
		learned.StopReason = "error"
		if s.errorType != "unknown" {
			learned.StopReason = cmp.Or(s.errorType, "error")
		}
		text := cmp.Or(s.errorText, s.failure)
		found := geminiError(s.errorType, text, s.stderr(), end)
		learned.Class, learned.ErrorText = found.class, errorText(text)
		learned.limited(found.kind, waited(cmp.Or(s.at, end.LastOutput), found.wait))
	}
	return learned
}

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
	geminiAttempt = pattern.Lazy(`^Attempt \d+ failed(?: with status (\d{3})|: )`)
)

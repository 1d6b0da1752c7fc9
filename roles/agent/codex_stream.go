package agent

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

var codexLines = paths{
	64:               "type item.type item.status usage.*",
	128:              "item.tool",
	256:              "thread_id item.changes.*.path item.query",
	512:              "item.command",
	2 * maxErrorText: "message error.message",
	finalText:        "item.text",
}.lazy()

// codexNames are the names of codex's counters. The input includes both kinds of cached tokens, the output the
// reasoning.
var codexNames = counterNames{"input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens", "reasoning_output_tokens"}

// codexStream reads the stream of `codex exec --json`. An item of type error is a warning. An event of type error
// announces a retry. It ends the run only if turn.failed follows or the process ends. The usage is that of the whole
// thread so far, without its sub-agents, and comes only with a turn that succeeds. Recover finds the rest.
type codexStream struct {
	jsonLines
	resumed bool
	resume  *Session
	zone    *time.Location

	said      string // the last message of the agent
	began     bool   // a turn has begun
	worked    bool   // the model has answered
	completed bool
	failed    bool
	refused   bool   // the turn could not begin
	failure   string // the message of turn.failed
	error     string // the message of the last event of type error, unless the model has answered since
	attempt   int64  // the number of the retry, from error
	pause     codexPause
	usage     Usage // usage of the thread
	agents    bool  // the run has sub-agents, whose usage no event tells
	took      time.Duration
}

func (c codex) Stream(req Request) Stream {
	s := &codexStream{resumed: req.Resume != nil || c.line(req).own, resume: req.Resume, zone: zoneOf(req)}
	s.note = s.logged
	if req.Asked == "" {
		s.read(codexLines(), s.event)
		return s
	}
	if req.Asked == permit.Enforce { // each run is a conversation of its own
		s.resumed, s.resume = false, nil
	}
	s.read(codexServed(), s.served)
	return s
}

// codexPause is the sleep of the CLI before it repeats a request, from its log. It is zero once the model has answered.
type codexPause struct {
	length time.Duration
	until  time.Time
	reason string // why the last request failed
}

var codexRetry = pattern.Lazy(`^(\S+) .*\bcodex_core::responses_retry: .*\(\d+/\d+ in (\S+)\)\.\.\. .*\bsampling_error=(.*)`)

// logged reads a line of standard error.
func (s *codexStream) logged(line []byte) {
	m := codexRetry().FindStringSubmatch(text.Uncoloured(string(line)))
	if m == nil {
		return
	}
	s.pause = codexPause{reason: m[3]}
	s.pause.length, _ = time.ParseDuration(m[2])
	at, _ := time.Parse(time.RFC3339Nano, m[1])
	s.pause.until = waited(at, s.pause.length)
}

func (s *codexStream) event(e event) bool {
	kind := e.str("type")
	switch kind {
	case "thread.started":
		s.session = e.str("thread_id")
		return s.session != ""
	case "turn.started":
		s.began, s.completed, s.failed = true, false, false
	case "turn.completed":
		s.completed, s.failed = true, false
		s.usage = disjoint(e.counters("usage.*", codexNames))
	case "turn.failed":
		s.completed, s.failed = false, true
		s.failure = e.str("error.message")
		s.say(s.failure)
	case "item.started", "item.updated", "item.completed":
		s.item(e, kind)
	case "error":
		s.error = e.str("message")
		s.attempt = codexAttempt(s.error)
		s.say(s.error)
	default:
		return strings.HasPrefix(kind, "item.") || strings.HasPrefix(kind, "turn.") || strings.HasPrefix(kind, "thread.")
	}
	return true
}

func (s *codexStream) item(e event, kind string) {
	item := e.str("item.type")
	if item == "" || item == "error" {
		return
	}
	s.works(kind == "item.completed" && e.str("item.status") == "declined")
	s.shows(e, item, "item.")
}

// works notes that the model has answered.
func (s *codexStream) works(declined bool) {
	s.worked, s.error, s.attempt, s.pause = true, "", 0, codexPause{}
	if declined {
		s.denied++
	}
}

// shows says what an item is about. at is the path of the item, with its dot.
func (s *codexStream) shows(e event, item, at string) {
	switch item {
	case "agent_message", "reasoning":
		said := e.message(at + "text")
		if item == "agent_message" {
			s.said = cmp.Or(said, s.said)
		}
		s.say(said)
	case "command_execution":
		s.say("$ " + strings.ReplaceAll(e.str(at+"command"), "\n", " "))
	case "file_change":
		s.say("change: " + e.str(at+"changes.*.path"))
	case "mcp_tool_call", "collab_tool_call":
		s.agents = s.agents || item == "collab_tool_call"
		s.say("tool: " + e.str(at+"tool"))
	case "web_search":
		s.say("search: " + e.str(at+"query"))
	}
}

// disjoint subtracts the cached tokens from the input.
func disjoint(u Usage) Usage {
	if u.Input != nil {
		input := max(0, *u.Input-deref(u.CacheRead)-deref(u.CacheWrite))
		u.Input = &input
	}
	return u
}

// codexAgain matches the announcement of a retry. Its second group is why the last request failed.
var codexAgain = pattern.Lazy(`(?s)^Reconnecting\.\.\. (?:(\d+)/\d+)?(?: \((.*)\)$)?`)

// codexAttempt returns the number of the retry that an error announces; 0 if the CLI does not retry.
func codexAttempt(text string) int64 {
	m := codexAgain().FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.ParseInt(m[1], 10, 64)
	return max(1, n)
}

// Settled reports the run as finished after its turn ended. It reports the run as hopeless when a login is refused a
// second time, because the first retry may find a renewed login, and when the CLI sleeps for longWait or longer.
func (s *codexStream) Settled() Settled {
	hopeless := s.attempt > 1 && codexClass(s.error).NeedsPerson() || s.pause.length >= longWait && codexClass(s.pause.reason).Waits()
	return settledAs(s.completed || s.failed, hopeless, s.worked)
}

func (s *codexStream) Finish(end proc.Result) Learned {
	s.took = end.Duration
	learned := s.close()
	if !learned.Structured {
		learned.Class, learned.ErrorText = codexStart(s.stderr(), end)
		return learned
	}
	learned.FinalMessage = s.said
	if _, told := s.usage.Total(); told {
		learned.Totals = &Totals{Usage: s.usage}
		learned.Usage = s.since(s.usage)
	} else if s.continued() {
		learned.Totals = s.resume.Totals
	}
	said := cmp.Or(codexAgain().ReplaceAllString(s.error, "$2"), s.error, s.pause.reason)
	if s.failed {
		said = cmp.Or(s.failure, s.error)
	}
	switch {
	case s.completed:
		learned.Done = true
	case s.refused:
		learned.Class, learned.ErrorText = cmp.Or(classOf("codex.start", said), codexClass(said)), errorText(said)
	case said != "":
		learned.Class, learned.ErrorText = codexClass(said), errorText(said)
	case s.failed:
		learned.Class = class.Unknown
	default:
		if learned.Class, learned.ErrorText = codexStart(s.stderr(), end); learned.Class == class.None {
			learned.Class, learned.ErrorText = class.NoResult, errorText(codexErrors(s.stderr()))
		}
	}
	reset := s.pause.until
	if s.failed || reset.IsZero() {
		reset = resetIn(said, end.LastOutput, s.zone)
	}
	learned.limited("", reset)
	return learned
}

// since returns the usage of this run, given the thread's counters now. Counters that decreased belong to a new thread.
func (s *codexStream) since(now Usage) Usage {
	switch {
	case !s.resumed, s.resume != nil && !s.continued():
		return now
	case s.resume == nil || s.resume.Totals == nil:
		return Usage{}
	}
	if used, ok := now.minus(s.resume.Totals.Usage); ok {
		return used
	}
	return now
}

// continued reports whether the thread is the session to resume. For an id that is no UUID the CLI begins a new thread.
func (s *codexStream) continued() bool {
	return s.resume != nil && (s.session == "" || s.session == s.resume.ID)
}

var straight = strings.NewReplacer("\u2018", "'", "\u2019", "'", "\u02bc", "'", "\u201c", `"`, "\u201d", `"`, "`", "'")

// codexClass classifies a failure. said is always the CLI's own message about it.
func codexClass(said string) class.Class {
	if said == "" {
		return class.None
	}
	plain := strings.ToLower(straight.Replace(text.Line(said, len(said))))
	if found := classOf("codex.text", plain); found != class.None {
		return found
	}
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal([]byte(said), &body) == nil && len(body.Error) > 0 {
		return class.Request // the unchanged body of the provider's answer
	}
	return class.Unknown
}

// codexStart derives the class and the error text of a run that failed before its first turn from standard error.
func codexStart(stderr string, end proc.Result) (class.Class, string) {
	said := codexErrors(stderr)
	if found := classOf("codex.start", said); failed(end) && found != class.None {
		return found, errorText(said)
	}
	return class.None, ""
}

var codexNoise = pattern.Lazy(`^(?:WARNING: |Reading |\S+Z +WARN |\S+Z +ERROR codex_app_server: (?:Codex could not find bubblewrap|Project-local config)|    1\. /| +To load project-local config)`)

// codexErrors returns standard error without the lines that come at every start.
func codexErrors(stderr string) string { return without(codexNoise(), text.Uncoloured(stderr)) }

var codexServed = paths{
	64:               "id method params.item.type params.item.status params.turn.status params.tokenUsage.total.* params.willRetry",
	128:              "params.item.tool",
	256:              "params.threadId result.thread.id result.model params.item.changes.*.path params.item.query",
	512:              "params.item.command",
	2 * maxErrorText: "error.message params.error.message params.error.additionalDetails params.turn.error.message",
	finalText:        "params.item.text params.item.summary.*",
}.lazy()

// codexServedNames are the counters of `codex app-server`.
var codexServedNames = counterNames{"inputTokens", "outputTokens", "cachedInputTokens", "cacheWriteInputTokens", "reasoningOutputTokens"}

// codexItems are the names that `codex exec` has for items.
var codexItems = map[string]string{"agentMessage": "agent_message", "reasoning": "reasoning", "commandExecution": "command_execution", "fileChange": "file_change",
	"mcpToolCall": "mcp_tool_call", "collabAgentToolCall": "collab_tool_call", "webSearch": "web_search"}

// served reads the output of `codex app-server`, of which codexClient is the other reader. It tells the same as the events of
// `codex exec`, of sub-agents too, and the usage after each answer of the model.
func (s *codexStream) served(e event) bool {
	method, thread := e.str("method"), e.str("params.threadId")
	if method == "" {
		return s.replied(e)
	}
	if thread != "" && thread != s.session { // of a sub-agent
		return true
	}
	switch method {
	case "turn/started":
		s.began, s.completed, s.failed = true, false, false
	case "turn/completed":
		s.completed = e.str("params.turn.status") == "completed"
		s.failed = !s.completed
		if s.failed {
			s.failure = e.str("params.turn.error.message")
			s.say(s.failure)
		}
	case "thread/tokenUsage/updated":
		s.usage = disjoint(e.counters("params.tokenUsage.total.*", codexServedNames))
	case "error":
		s.error = e.str("params.error.message")
		s.attempt = codexAttempt(s.error)
		if why := e.str("params.error.additionalDetails"); why != "" && s.attempt > 0 {
			s.error += " (" + why + ")"
		}
		s.say(s.error)
	case "item/started", "item/completed":
		item := e.str("params.item.type")
		if item == "" || item == "userMessage" {
			break
		}
		s.works(method == "item/completed" && e.str("params.item.status") == "declined")
		if item == "reasoning" {
			s.say(e.str("params.item.summary.*"))
			break
		}
		s.shows(e, codexItems[item], "params.item.")
	}
	return true
}

// replied reads an answer to a request of superloop's.
func (s *codexStream) replied(e event) bool {
	if _, ok := e.last("id"); !ok {
		return false
	}
	if session := e.str("result.thread.id"); session != "" {
		s.session = session
	}
	if said := e.str("error.message"); said != "" && !s.began {
		s.failed, s.refused, s.failure = true, true, strings.TrimSpace(said)
		s.say(s.failure)
	}
	return true
}

package agent

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

const (
	claudeSynthetic = "<synthetic>" // the model in messages of the CLI itself, such as errors
	maxTasks        = 256           // largest number of background tasks that the stream tracks at a time
	longWait        = time.Minute   // superloop itself waits out a pause of this length or longer
)

var claudeLines = paths{
	1: "model_usage_since_last_result",
	64: `type subtype error api_error message.usage.* is_error api_error_status terminal_reason stop_reason total_cost_usd usage.*
		usage.output_tokens_details.thinking_tokens permission_denials.*.tool_use_id queued_turn_count apiKeySource status patch.status
		attempt max_retries retry_delay_ms error_status`,
	128: `message.content.*.name task_id tasks.*.task_id rate_limit_info.status rate_limit_info.isUsingOverage
		rate_limit_info.rateLimitType rate_limit_info.resetsAt`,
	256:          "session_id parent_tool_use_id message.id message.model modelUsage.*.* model_usage_since_last_result.*.*",
	512:          "message.content.*.input.*",
	maxErrorText: "errors.*",
	finalText:    "message.content.*.text result structured_output",
}.lazy()

// claudeStream reads the stream of Claude Code. Even an error has subtype "success", so a result is good only if all of
// is_error, api_error_status, terminal_reason and subtype say so. A run can have several results, because the end of a
// background task begins another turn. The last result counts.
type claudeStream struct {
	jsonLines
	resumed bool
	before  *Totals

	keySource string
	said      []byte // the last text of the agent
	worked    bool   // a model has answered
	counts    claudeCounts

	word   string      // the error in the CLI's last own message, unless a model has answered since
	detail string      // the kind of that error, in releases that tell it
	retry  claudeRetry // the failed attempt after which the CLI waits
	limit  *Limit      // the limit that stopped the run
	tasks  map[string]bool
	many   bool  // there are tasks that are not tracked, so nobody knows when the last one has ended
	listed int64 // number of denials in the results
	result claudeResult
}

type claudeRetry struct {
	class   class.Class
	attempt int64
	delay   time.Duration
	text    string
}

type claudeResult struct {
	ended, failed              bool
	subtype, reason, stop      string
	text, structured, problems string
	status                     int64
	queued                     int64 // turns that the CLI has queued
	woken                      bool  // a background task has ended since the result, so another turn begins
}

func (c claude) Stream(req Request) Stream {
	s := &claudeStream{resumed: req.Resume != nil || hasFlag(req.words(), strings.Fields(claudeResumes)...), tasks: map[string]bool{}}
	s.counts.since = map[string]modelCount{}
	if req.Resume != nil {
		s.before = req.Resume.Totals
	}
	s.read(claudeLines(), s.event)
	return s
}

func (s *claudeStream) event(e event) (known bool) {
	session := e.str("session_id")
	switch e.str("type") {
	case "system":
		known = s.system(e)
	case "assistant":
		s.assistant(e)
		known = true
	case "result":
		known = s.end(e)
	case "rate_limit_event":
		known = s.limited(e)
	case "user", "stream_event":
		known = session != ""
	}
	if known {
		s.session = cmp.Or(session, s.session)
	}
	return known
}

func (s *claudeStream) system(e event) bool {
	switch e.str("subtype") {
	case "":
		return false
	case "init":
		s.result = claudeResult{} // another turn begins
		s.keySource = e.str("apiKeySource")
	case "api_retry":
		s.again(e)
	case "permission_denied":
		s.denied++
	case "task_started":
		if id := e.str("task_id"); id != "" && len(s.tasks) < maxTasks {
			s.tasks[id] = true
		} else {
			s.many = true
		}
	case "task_updated":
		s.task(e.str("task_id"), e.str("patch.status"))
	case "task_notification":
		s.task(e.str("task_id"), e.str("status"))
	}
	return true
}

// task removes a task that has ended. The end of a background task begins another turn, unless the CLI itself ended the
// task.
func (s *claudeStream) task(id, status string) {
	switch status {
	case "", "pending", "running", "in_progress", "paused":
		return
	case "completed", "failed":
		s.result.woken = s.result.woken || s.result.ended && s.tasks[id]
	}
	delete(s.tasks, id)
}

func (s *claudeStream) again(e event) {
	word, status := e.str("error"), e.int("error_status")
	ms, _ := e.float("retry_delay_ms")
	delay := time.Duration(min(max(ms, 0), 1e10)) * time.Millisecond
	cause := word
	if status != 0 {
		cause = fmt.Sprintf("%s (%d)", word, status)
	}
	s.retry = claudeRetry{claudeRetryClass(word, status), e.int("attempt"), delay, strings.TrimSpace("API error: " + cause)}
	s.say(fmt.Sprintf("%s, retry %d of %d in %s", s.retry.text, s.retry.attempt, e.int("max_retries"), delay.Round(time.Second)))
}

func (s *claudeStream) assistant(e event) {
	model, word := e.str("message.model"), e.str("error")
	_, sub := e.text("parent_tool_use_id") // a message of a sub-agent
	written := model == claudeSynthetic || word != ""
	if !written {
		s.worked, s.retry, s.limit = true, claudeRetry{}, nil
		s.counts.message(e, model)
	}
	if !sub {
		s.result, s.word, s.detail = claudeResult{}, word, ""
		if written {
			s.detail = e.str("api_error")
		}
	}
	texts, tools := e.want("message.content.*.text"), e.want("message.content.*.name")
	for _, v := range e.Values {
		switch {
		case v.Type != 's':
		case v.Want == texts && len(v.Raw) > 0:
			if !sub && !written {
				s.said = append(s.said[:0], whole(v, finalText)...)
			}
			s.say(string(v.Raw))
		case v.Want == tools:
			s.does(string(v.Raw), claudeInput(e, v.Keys[0]))
		}
	}
}

// claudeInput returns the most telling input of a tool call, such as its command or its file.
func claudeInput(e event, block string) (what string) {
	best := 0
	for v := range e.all("message.content.*.input.*") {
		rank := map[string]int{"command": 9, "file_path": 8, "path": 7, "pattern": 6, "url": 5, "query": 4, "description": 3, "skill": 2, "prompt": 1}[v.Keys[1]]
		if v.Keys[0] == block && v.Type == 's' && rank > best {
			best, what = rank, string(v.Raw)
		}
	}
	return what
}

// limited records a limit. Only a rejection counts, and only if no paid overage lifts it. A warning is no limit.
func (s *claudeStream) limited(e event) (known bool) {
	status, known := e.last("rate_limit_info.status")
	if paid, _ := e.bool("rate_limit_info.isUsingOverage"); paid || string(status.Raw) != "rejected" {
		return known
	}
	s.limit = &Limit{Kind: text.Line(e.str("rate_limit_info.rateLimitType"), maxErrorText)}
	if at := deref(e.count("rate_limit_info.resetsAt")); at > 0 {
		s.limit.ResetsAt = time.Unix(at, 0)
	}
	return true
}

func (s *claudeStream) end(e event) bool {
	failed, told := e.bool("is_error")
	r := claudeResult{
		ended: true, failed: failed || !told, subtype: e.str("subtype"), reason: e.str("terminal_reason"), stop: e.str("stop_reason"),
		status: e.int("api_error_status"), queued: e.int("queued_turn_count"), text: e.message("result"),
	}
	if !told && r.subtype == "" {
		return false // a line of another program
	}
	if v, ok := e.last("subtype"); ok && v.Type != 's' && v.Type != '0' {
		r.failed = true // a subtype that is no text cannot say success
	}
	if v, ok := e.last("structured_output"); ok && v.Type != '0' && v.Cut == 0 {
		r.structured = string(v.Raw)
	}
	var problems []string
	for v := range e.all("errors.*") {
		problems = append(problems, string(v.Raw))
	}
	r.problems = strings.Join(problems, "\n")
	s.detail = cmp.Or(e.str("api_error"), s.detail)
	for range e.all("permission_denials.*.tool_use_id") {
		s.listed++
	}
	s.counts.result(e)
	s.result = r
	s.say(r.text)
	if failed && r.text == "" {
		s.say(r.problems)
	}
	return true
}

func (s *claudeStream) Settled() Settled {
	hopeless := s.limit != nil ||
		s.retry.class == class.Limit && s.retry.delay >= longWait ||
		// A login may be renewed after the first refusal, an API key may not.
		s.retry.class.NeedsPerson() && (s.keySource != "none" || s.retry.attempt > 1)
	return settledAs(s.result.ended && s.result.queued == 0 && !s.result.woken && len(s.tasks) == 0 && !s.many, hopeless, s.worked)
}

// settledAs combines the findings about a run. A hopeless run that has already worked counts as Finished, because the
// time to exit lets the CLI report its usage.
func settledAs(finished, hopeless, worked bool) Settled {
	switch {
	case finished, hopeless && worked:
		return Finished
	case hopeless:
		return Hopeless
	}
	return Going
}

func (s *claudeStream) Finish(end proc.Result) Learned {
	learned := s.close()
	if !learned.Structured {
		learned.Class, learned.ErrorText = startFailure("claude.start", s.stderr(), end)
		return learned
	}
	learned.StopReason, learned.Denied = s.result.stop, max(s.denied, s.listed)
	s.counts.learn(&learned, s.resumed, s.before)
	s.judge(&learned, end)
	if learned.Done {
		learned.FinalMessage = cmp.Or(s.result.text, s.result.structured)
	}
	learned.FinalMessage = cmp.Or(learned.FinalMessage, string(s.said))
	return learned
}

// claudeRetryClass classifies the failure of a request that the CLI retries. Without a status there was no answer.
func claudeRetryClass(word string, status int64) class.Class {
	switch known := classOf("claude.error", word); {
	case known != class.None:
		return known
	case status != 0:
		return statusClass(int(status))
	case word == "server_error":
		return class.Overloaded
	}
	return class.Network
}

// good reports whether all four fields of a turn's end say that the turn succeeded.
func (r claudeResult) good() bool {
	return r.ended && !r.failed && classOf("claude.terminal_reason", r.reason) == class.None && r.status == 0 && (r.subtype == "success" || r.subtype == "")
}

func (s *claudeStream) judge(learned *Learned, end proc.Result) {
	r := s.result
	switch {
	case r.good():
		learned.Done = true
		return
	case r.ended:
		learned.Class, learned.ErrorText = s.failure(r), errorText(cmp.Or(r.text, r.problems))
	case s.limit != nil:
		learned.Class, learned.ErrorText = class.Limit, errorText(strings.TrimSpace(s.limit.Kind+" limit reached"))
	case s.retry.class != class.None: // the process ended while the CLI waited to retry
		learned.Class, learned.ErrorText = s.retry.class, s.retry.text
	default:
		learned.Class, learned.ErrorText = class.NoResult, errorText(s.stderr())
	}
	if learned.Class != class.Limit {
		return
	}
	learned.Limit = s.limit
	if s.limit == nil {
		// Some releases tell the time of the reset only in the text.
		learned.Limit = &Limit{ResetsAt: resetIn(r.text, end.LastOutput, time.Local)}
	}
}

// failure classifies a turn that failed, by the most specific field that the CLI gives. Only without such a field does
// it use a text, and only a text that the CLI wrote instead of an answer.
func (s *claudeStream) failure(r claudeResult) class.Class {
	word, reason := classOf("claude.error", s.word), classOf("claude.terminal_reason", r.reason)
	if reason == class.Unknown {
		reason = class.None
	}
	if found := cmp.Or(reason, classOf("claude.subtype", r.subtype), classOf("claude.api_error", s.detail)); found != class.None {
		return found
	}
	switch {
	case r.stop == "refusal":
		return class.Refused
	case s.limit != nil:
		return class.Limit
	case classOf("claude.session", r.problems) != class.None:
		return class.Session
	case word == class.Request && (strings.HasPrefix(r.text, "Prompt is too long") || r.status == 413):
		return class.Context
	case word != class.None:
		return word
	case r.status != 0:
		return statusClass(int(r.status))
	}
	written := class.None
	if s.word != "" && r.failed { // the CLI wrote the text, not the agent
		written = classOf("claude.text", r.text)
	}
	if s.word == "server_error" {
		return cmp.Or(written, s.retry.class, class.Overloaded)
	}
	return cmp.Or(written, s.retry.class, class.Unknown)
}

// startFailure derives the class and the error text of a failed run without events from standard error, by a table of
// failures.txt. The error text begins with the line that the table matches.
func startFailure(table, stderr string, end proc.Result) (class.Class, string) {
	found, at := findClass(table, stderr)
	if !failed(end) || found == class.None {
		return class.None, ""
	}
	return found, errorText(stderr[strings.LastIndexByte(stderr[:at], '\n')+1:])
}

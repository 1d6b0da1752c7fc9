package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/jsonstream"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

// claudeSynthetic is the model of messages that the CLI writes itself, such as
// an error in the agent's place.
const claudeSynthetic = "<synthetic>"

const (
	maxTasks = 256         // background tasks that are known at a time
	longWait = time.Minute // a pause that superloop rather makes itself
)

// claudeStream reads the stream of Claude Code.
//
// An error has subtype "success" all the same, so a result counts as good only
// if all of is_error, api_error_status, terminal_reason and subtype say so. One
// run can have several results: a background task that ends begins another
// turn, and the last result is what counts.
type claudeStream struct {
	jsonLines
	resumed bool
	before  *Totals

	session, keySource string
	said               []byte // the agent's last text
	worked             bool   // a model has answered
	counts             claudeCounts

	word   string      // the error of the message that the CLI wrote last, unless a model answered since
	detail string      // and its kind, in releases that tell it
	retry  claudeRetry // after which it waits
	limit  *Limit      // that stopped it
	tasks  map[string]bool
	denied int64 // events
	listed int64 // in results
	result claudeResult
}

// claudeRetry is a failed request that the CLI will repeat.
type claudeRetry struct {
	class   class.Class
	attempt int64
	delay   time.Duration
	text    string
}

// claudeResult is the event that ends a turn.
type claudeResult struct {
	ended, failed              bool
	subtype, reason, stop      string
	text, structured, problems string
	status                     int64
	queued                     int64 // turns that follow by themselves
	woken                      bool  // a background task has ended since: another turn begins
}

func (c claude) Stream(req Request) Stream {
	s := &claudeStream{resumed: c.resumes(req), tasks: map[string]bool{}}
	if req.Resume != nil {
		s.before = req.Resume.Totals
	}
	s.open(claudeShape(), s.read)
	return s
}

func (s *claudeStream) read(l *jsonstream.Line) bool {
	known := false
	switch l.String(claudeType) {
	case "system":
		known = s.system(l)
	case "assistant":
		known = s.assistant(l)
	case "result":
		known = s.end(l)
	case "rate_limit_event":
		known = s.limited(l)
	case "user", "stream_event":
		known = l.String(claudeSession) != ""
	}
	if id := l.String(claudeSession); known && id != "" {
		s.session = id
	}
	return known
}

func (s *claudeStream) system(l *jsonstream.Line) bool {
	switch l.String(claudeSubtype) {
	case "":
		return false
	case "init":
		s.result = claudeResult{} // another turn begins
		s.keySource = l.String(claudeKeySource)
	case "api_retry":
		s.again(l)
	case "permission_denied":
		s.denied++
	case "task_started":
		if id := l.String(claudeTask); id != "" && len(s.tasks) < maxTasks {
			s.tasks[id] = true
		}
	case "task_updated":
		s.task(l, l.String(claudePatched))
	case "task_notification":
		s.task(l, l.String(claudeTaskStatus))
	}
	return true
}

// task forgets a task that has ended, however. The end of one that ran in the
// background begins another turn, unless the CLI itself ended it on leaving.
func (s *claudeStream) task(l *jsonstream.Line, status string) {
	id := l.String(claudeTask)
	switch status {
	case "", "pending", "running", "in_progress", "paused":
		return
	case "completed", "failed":
		s.result.woken = s.result.woken || s.result.ended && s.tasks[id]
	}
	delete(s.tasks, id)
}

func (s *claudeStream) again(l *jsonstream.Line) {
	word := l.String(claudeErrorWord)
	status, _ := l.Int(claudeRetryStatus)
	attempt, _ := l.Int(claudeAttempt)
	most, _ := l.Int(claudeAttempts)
	ms, _ := l.Float(claudeDelay)
	delay := time.Duration(min(max(ms, 0), 1e10)) * time.Millisecond
	s.retry = claudeRetry{class: claudeRetryClass(word, status), attempt: attempt, delay: delay}
	cause := word
	if status != 0 {
		cause = fmt.Sprintf("%s (%d)", word, status)
	}
	s.retry.text = strings.TrimSpace("API error: " + cause)
	s.say(fmt.Sprintf("%s, retry %d of %d in %s", s.retry.text, attempt, most, delay.Round(time.Second)))
}

func (s *claudeStream) assistant(l *jsonstream.Line) bool {
	model := l.String(claudeAnswerer)
	own := true // not a sub-agent's
	if v, ok := l.Last(claudeParent); ok && v.Type == 's' {
		own = false
	}
	word := l.String(claudeErrorWord)
	if model == claudeSynthetic || word != "" {
		if own {
			s.word, s.detail = word, l.String(claudeDetail)
		}
	} else {
		s.worked, s.retry, s.limit = true, claudeRetry{}, nil
		s.counts.message(l, model)
		if own {
			s.word, s.detail = "", ""
		}
	}
	if own {
		s.result = claudeResult{}
	}
	for _, v := range l.Values {
		switch {
		case v.Want == claudeText && v.Type == 's' && len(v.Raw) > 0:
			if own && word == "" && model != claudeSynthetic {
				s.said = append(s.said[:0], whole(v, 2*finalHalf)...)
			}
			s.say(string(v.Raw[max(0, len(v.Raw)-maxLine):]))
		case v.Want == claudeTool && v.Type == 's':
			s.say(claudeDoes(string(v.Raw), l, v.Keys[0]))
		}
	}
	return true
}

// claudeDoes is a call of a tool in one line.
func claudeDoes(tool string, l *jsonstream.Line, block string) string {
	best, what := 0, ""
	for v := range l.All(claudeInput) {
		if v.Keys[0] != block || v.Type != 's' {
			continue
		}
		rank := map[string]int{"command": 9, "file_path": 8, "path": 7, "pattern": 6, "url": 5, "query": 4, "description": 3, "skill": 2, "prompt": 1}[v.Keys[1]]
		if rank > best {
			best, what = rank, string(v.Raw)
		}
	}
	if best == 0 {
		return tool
	}
	return tool + ": " + strings.ReplaceAll(what, "\n", " ")
}

// limited takes a word on the provider's windows. Only a rejection that no paid
// overage lifts is a limit; a warning is none.
func (s *claudeStream) limited(l *jsonstream.Line) bool {
	info := map[string]jsonstream.Value{}
	for v := range l.All(claudeLimitInfo) {
		info[v.Keys[0]] = v
	}
	if string(info["status"].Raw) != "rejected" || string(info["isUsingOverage"].Raw) == "true" {
		return len(info) > 0
	}
	s.limit = &Limit{}
	if v := info["rateLimitType"]; v.Type == 's' {
		s.limit.Kind = text.Line(string(v.Raw), maxErrorText)
	}
	if at, ok := number(info["resetsAt"]); ok && at > 0 {
		s.limit.ResetsAt = time.Unix(at, 0)
	}
	return true
}

func (s *claudeStream) end(l *jsonstream.Line) bool {
	failed, told := l.Bool(claudeIsError)
	r := claudeResult{
		ended: true, failed: failed || !told, subtype: l.String(claudeSubtype), reason: l.String(claudeReason), stop: l.String(claudeStop),
	}
	if !told && r.subtype == "" {
		return false // some other program's
	}
	if v, ok := l.Last(claudeSubtype); ok && v.Type != 's' && v.Type != '0' {
		r.failed = true // a word of another type is none that says success
	}
	r.status, _ = l.Int(claudeStatus)
	r.queued, _ = l.Int(claudeQueued)
	if v, ok := l.Last(claudeResultText); ok && v.Type == 's' {
		r.text = string(whole(v, 2*finalHalf))
	}
	if v, ok := l.Last(claudeStructured); ok && v.Type != '0' && v.Cut == 0 {
		r.structured = string(v.Raw)
	}
	var problems []string
	for v := range l.All(claudeErrors) {
		problems = append(problems, string(v.Raw))
	}
	r.problems = strings.Join(problems, "\n")
	if detail := l.String(claudeDetail); detail != "" {
		s.detail = detail
	}
	for range l.All(claudeDenials) {
		s.listed++
	}
	s.counts.result(l)
	s.result = r
	if failed {
		s.say(r.errorText())
	} else {
		s.say(r.text)
	}
	return true
}

func (s *claudeStream) Settled() Settled {
	hopeless := s.limit != nil ||
		s.retry.class == class.Limit && s.retry.delay >= longWait ||
		// A login may be renewed after the first refusal, a key not.
		s.retry.class.NeedsPerson() && (s.keySource != "none" || s.retry.attempt > 1)
	switch {
	case s.result.ended && s.result.queued == 0 && !s.result.woken && len(s.tasks) == 0:
		return Finished
	case hopeless && !s.worked:
		return Hopeless
	case hopeless:
		return Finished // what it has used so far is worth a moment
	}
	return Going
}

func (s *claudeStream) Finish(end proc.Result) Learned {
	learned := s.close()
	if !learned.Structured {
		learned.Class, learned.ErrorText = claudeStart(s.stderr(), end)
		return learned
	}
	learned.SessionID, learned.StopReason = s.session, s.result.stop
	learned.Denied = max(s.denied, s.listed)
	learned.Usage, learned.CostUSD, learned.Totals, learned.Model = s.counts.learned(s.resumed, s.before)
	s.judge(&learned, end)
	switch {
	case learned.Done && s.result.text == "":
		learned.FinalMessage = s.result.structured
	case learned.Done:
		learned.FinalMessage = s.result.text
	}
	if learned.FinalMessage == "" {
		learned.FinalMessage = string(s.said)
	}
	return learned
}

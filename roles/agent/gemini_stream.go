package agent

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/jsonstream"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

// What is kept of gemini's events:
//
//	init{session_id,model}
//	message{role,content,delta}, tool_use{tool_name,parameters}, tool_result{status,error{type,message}}
//	error{severity,message}
//	result{status,error{type,message},stats{...}}
const (
	geminiType = iota
	geminiTime
	geminiSession
	geminiModel
	geminiRole
	geminiContent
	geminiTool
	geminiToolID
	geminiShown1
	geminiShown2
	geminiShown3
	geminiSeverity
	geminiMessage
	geminiStatus
	geminiErrorType
	geminiErrorMessage
	geminiTotal
	geminiInputAll
	geminiCached
	geminiInput
	geminiOutput
	geminiModelTotal
	geminiModelInput
)

var geminiShape = jsonstream.Lazy(
	jsonstream.Want{Path: "type", Max: 64},
	jsonstream.Want{Path: "timestamp", Max: 64},
	jsonstream.Want{Path: "session_id", Max: 256},
	jsonstream.Want{Path: "model", Max: 256},
	jsonstream.Want{Path: "role", Max: 64},
	jsonstream.Want{Path: "content", Max: MaxMessage},
	jsonstream.Want{Path: "tool_name", Max: 256},
	jsonstream.Want{Path: "tool_id", Max: 256},
	jsonstream.Want{Path: "parameters.command", Max: 512},
	jsonstream.Want{Path: "parameters.file_path", Max: 512},
	jsonstream.Want{Path: "parameters.description", Max: 512},
	jsonstream.Want{Path: "severity", Max: 64},
	jsonstream.Want{Path: "message", Max: 64 << 10},
	jsonstream.Want{Path: "status", Max: 64},
	jsonstream.Want{Path: "error.type", Max: 256},
	jsonstream.Want{Path: "error.message", Max: 64 << 10},
	jsonstream.Want{Path: "stats.total_tokens"},
	jsonstream.Want{Path: "stats.input_tokens"},
	jsonstream.Want{Path: "stats.cached"},
	jsonstream.Want{Path: "stats.input"},
	jsonstream.Want{Path: "stats.output_tokens"},
	jsonstream.Want{Path: "stats.models.*.total_tokens"},
	jsonstream.Want{Path: "stats.models.*.input_tokens"},
)

// geminiStream reads one run of gemini.
type geminiStream struct {
	jsonLines
	session, model string
	// text is what the assistant has said since the last tool; unshown while
	// LastLine has not caught up with it. spoke: the model has answered at all.
	text    finalText
	unshown bool
	spoke   bool
	denied  int64
	// reading is the directory in which the role may only read, and breaches are
	// its calls under way of tools that it must not have, by their ids; escaped
	// says which of them went through.
	reading  string
	breaches map[string]string
	escaped  string
	// failure is the last event that says why the turn went wrong although no
	// request failed.
	failure  string
	retrying geminiRetry
	errors   eachLine

	ended     bool // the result has come
	ok        bool
	at        time.Time
	errorType string
	errorText string
	usage     Usage
}

func newGeminiStream(req Request) *geminiStream {
	s := &geminiStream{breaches: map[string]string{}}
	if req.Permissions == PermitRead {
		s.reading = req.WorkDir
	}
	s.open(geminiShape(), s.event)
	return s
}

func (s *geminiStream) Stderr(p []byte) {
	s.jsonLines.Stderr(p)
	before := s.retrying.text
	s.errors.write(p, s.retrying.note)
	if s.retrying.text != before {
		s.tell(s.retrying.text)
	}
}

// LastLine: a piece of a message is rarely a line, so the line is found when it
// is asked for.
func (s *geminiStream) LastLine() string {
	if s.unshown {
		s.unshown = false
		s.say(s.text.end())
	}
	return s.jsonLines.LastLine()
}

// Settled: what gemini cannot do it gives up by itself within minutes; but a run
// that got free has to be ended before its model answers again, since then it can
// write. (Tools that were called together with the one that freed it were still
// checked as before.)
func (s *geminiStream) Settled() Settled {
	switch {
	case s.escaped != "":
		return Hopeless
	case s.ended:
		return Finished
	}
	return Going
}

func (s *geminiStream) event(l *jsonstream.Line) bool {
	has := func(want int) bool { v, ok := l.Last(want); return ok && v.Type == 's' }
	kind := l.String(geminiType)
	switch {
	case kind == "init" && has(geminiSession):
		s.session, s.model = l.String(geminiSession), l.String(geminiModel)
	case kind == "message" && has(geminiRole):
		if v, ok := l.Last(geminiContent); ok && v.Type == 's' && l.String(geminiRole) == "assistant" {
			s.text.add(whole(v, MaxMessage))
			s.unshown, s.spoke = true, true
		}
	case kind == "tool_use" && has(geminiTool):
		s.tool(l)
	case kind == "tool_result" && has(geminiToolID):
		s.LastLine()
		s.text.reset() // what comes now is a new message
		if breach := s.breaches[l.String(geminiToolID)]; breach != "" && l.String(geminiStatus) != "error" {
			s.escaped = breach
		}
		delete(s.breaches, l.String(geminiToolID))
		if geminiDenied(l.String(geminiErrorType), l.String(geminiErrorMessage)) {
			s.denied++
		}
	case kind == "error" && has(geminiSeverity):
		s.tell(l.String(geminiMessage))
		if geminiFailures[l.String(geminiMessage)] != class.None {
			s.failure = l.String(geminiMessage)
		}
	case kind == "result" && has(geminiStatus):
		s.result(l)
	default:
		return false
	}
	s.retrying = geminiRetry{}
	return true
}

// tell shows what is not of the message. What the message says last is then not
// looked for, unless the text has nothing to show.
func (s *geminiStream) tell(text string) {
	before := s.last
	s.last = ""
	s.say(text)
	if s.last == "" {
		s.last = before
		s.LastLine()
	}
	s.unshown = false
}

func (s *geminiStream) tool(l *jsonstream.Line) {
	shown := l.String(geminiTool)
	if breach := geminiBreach(shown, l.String(geminiShown2), s.reading); breach != "" && len(s.breaches) < maxBreaches {
		s.breaches[l.String(geminiToolID)] = breach
	}
	for _, want := range []int{geminiShown1, geminiShown2, geminiShown3} {
		if detail := strings.TrimSpace(l.String(want)); detail != "" {
			shown += ": " + strings.ReplaceAll(detail, "\n", " ")
			break
		}
	}
	s.tell(shown)
	s.text.reset()
	s.spoke = true
}

func (s *geminiStream) result(l *jsonstream.Line) {
	s.ended, s.ok = true, l.String(geminiStatus) == "success"
	s.errorType, s.errorText = l.String(geminiErrorType), l.String(geminiErrorMessage)
	s.at, _ = time.Parse(time.RFC3339Nano, l.String(geminiTime))
	s.tell(strings.ReplaceAll(s.errorText, "\n", " "))
	s.usage = geminiUsage(l, s.spoke)
	most := int64(0)
	input := map[string]int64{}
	for v := range l.All(geminiModelInput) {
		input[v.Keys[0]], _ = strconv.ParseInt(string(v.Raw), 10, 64)
	}
	for v := range l.All(geminiModelTotal) {
		total, _ := strconv.ParseInt(string(v.Raw), 10, 64)
		if output := total - input[v.Keys[0]]; output > most {
			most, s.model = output, v.Keys[0]
		}
	}
}

// maxBreaches bounds the calls that are remembered; so many are never under way.
const maxBreaches = 64

// geminiBreach says what a call does, if it goes through, that a role which may
// only read in that directory must not do; "" is nothing. A relative path names
// a plan, which is kept elsewhere.
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

// geminiUsage makes the kinds disjoint: input_tokens counts the cached ones too,
// and the thoughts are only in the total. (So are tokens of tools that run at
// Google, which cost as input; they are few and counted as thoughts here.)
//
// A result that counts nothing although the model has spoken tells nothing: the
// CLI counts a request when its answer is complete.
func geminiUsage(l *jsonstream.Line, spoke bool) Usage {
	count := func(want int) *int64 {
		n, ok := l.Int(want)
		if !ok || n < 0 {
			return nil
		}
		return &n
	}
	total, input, output := count(geminiTotal), count(geminiInputAll), count(geminiOutput)
	if total == nil || *total == 0 && spoke {
		return Usage{}
	}
	u := Usage{Input: count(geminiInput), CacheRead: count(geminiCached), Output: output}
	if u.Input == nil && input != nil {
		u.Input = input
		if u.CacheRead != nil {
			rest := max(0, *input-*u.CacheRead)
			u.Input = &rest
		}
	}
	if input != nil && output != nil {
		thoughts := max(0, *total-*input-*output)
		all := *output + thoughts
		u.Reasoning, u.Output = &thoughts, &all
	}
	return u
}

func (s *geminiStream) Finish(end proc.Result) Learned {
	learned := s.close()
	s.errors.end(s.retrying.note)
	s.LastLine()
	learned.SessionID, learned.Model = s.session, s.model
	learned.FinalMessage, learned.Denied, learned.Usage = s.text.text(), s.denied, s.usage
	switch {
	case !s.known:
		learned.Class, learned.ErrorText = geminiStart(end, s.stderr())
	case s.escaped != "":
		learned.Class, learned.StopReason = class.Config, "read-only"
		learned.ErrorText = errorText("gemini " + s.escaped + " although it may only read; look at what it changed, and give this runner --policy=FILE with a rule that denies exit_plan_mode, write_file, replace and run_shell_command, or give this role another CLI")
	case !s.ended:
		learned.Class, learned.ErrorText = s.retrying.class, errorText(s.retrying.text)
		if learned.Class == class.None {
			learned.Class = class.NoResult
		}
	case s.ok && s.failure == "":
		learned.Done, learned.StopReason = true, "success"
	default:
		s.fail(&learned, end)
	}
	return learned
}

func (s *geminiStream) fail(learned *Learned, end proc.Result) {
	learned.StopReason = "error"
	if s.errorType != "" && s.errorType != "unknown" {
		learned.StopReason = s.errorType
	}
	text := s.errorText
	if text == "" {
		text = s.failure
	}
	found := geminiError(s.errorType, text, s.stderr(), end)
	learned.Class, learned.ErrorText = found.class, errorText(text)
	at := s.at
	if at.IsZero() {
		at = end.LastOutput
	}
	reset := waited(at, found.wait)
	if found.class == class.Limit || found.class == class.Overloaded && !reset.IsZero() {
		learned.Limit = &Limit{Kind: found.kind, Text: learned.ErrorText, ResetsAt: reset}
	}
}

package agent

import (
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/jsonstream"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

// What is kept of opencode's events, all of which have type, timestamp and
// sessionID:
//
//	step_start, text{part{text,synthetic}}, tool_use{part{tool,state{status,title,input,error}}}
//	step_finish{part{id,reason,cost,tokens{input,output,reasoning,cache{read,write}}}}
//	error{error{name,data{message,statusCode,isRetryable,responseHeaders,responseBody,ref}}}
const (
	openType = iota
	openTime
	openSession
	openText
	openSynthetic
	openTool
	openStatus
	openTitle
	openToolError
	openMissing
	openPart
	openReason
	openCost
	openInput
	openOutput
	openReasoning
	openRead
	openWrite
	openErrorName
	openErrorMessage
	openErrorStatus
	openErrorRetryable
	openErrorHeader
	openErrorBody
	openErrorRef
)

var opencodeShape = jsonstream.Lazy(
	jsonstream.Want{Path: "type", Max: 64},
	jsonstream.Want{Path: "timestamp"},
	jsonstream.Want{Path: "sessionID", Max: 256},
	jsonstream.Want{Path: "part.text", Max: MaxMessage},
	jsonstream.Want{Path: "part.synthetic"},
	jsonstream.Want{Path: "part.tool", Max: 256},
	jsonstream.Want{Path: "part.state.status", Max: 64},
	jsonstream.Want{Path: "part.state.title", Max: 512},
	jsonstream.Want{Path: "part.state.error", Max: 1024},
	jsonstream.Want{Path: "part.state.input.error", Max: 1024},
	jsonstream.Want{Path: "part.id", Max: 256},
	jsonstream.Want{Path: "part.reason", Max: 64},
	jsonstream.Want{Path: "part.cost"},
	jsonstream.Want{Path: "part.tokens.input"},
	jsonstream.Want{Path: "part.tokens.output"},
	jsonstream.Want{Path: "part.tokens.reasoning"},
	jsonstream.Want{Path: "part.tokens.cache.read"},
	jsonstream.Want{Path: "part.tokens.cache.write"},
	jsonstream.Want{Path: "error.name", Max: 256},
	jsonstream.Want{Path: "error.data.message", Max: 64 << 10},
	jsonstream.Want{Path: "error.data.statusCode"},
	jsonstream.Want{Path: "error.data.isRetryable"},
	jsonstream.Want{Path: "error.data.responseHeaders.*", Max: 512},
	jsonstream.Want{Path: "error.data.responseBody", Max: 64 << 10},
	jsonstream.Want{Path: "error.data.ref", Max: 64},
)

// opencodeStream reads one run of opencode.
type opencodeStream struct {
	jsonLines
	session string
	// text is what the agent has said in the step that is under way or ended last.
	text   finalText
	denied int64
	// refusal is the CLI's word for the last tool call that it denied.
	refusal string

	// reason is why the last step ended; "" while one is under way.
	reason   string
	counted  string // the id of the step that was counted last
	usage    Usage
	cost     float64
	unpriced bool
	// failure is the error after which no step has ended. overflows counts the
	// steps in a row that the conversation was too long for.
	failure   *opencodeFailure
	overflows int

	errors eachLine
	log    opencodeLog
}

func newOpencodeStream() *opencodeStream {
	s := &opencodeStream{}
	s.open(opencodeShape(), s.event)
	return s
}

func (s *opencodeStream) Stderr(p []byte) {
	s.jsonLines.Stderr(p)
	before := s.log.failed
	s.errors.write(p, s.log.note)
	if s.log.failed != before {
		s.say(s.log.tried)
	}
}

// Settled: an error is the last event, except that a conversation that became
// too long is cut down and tried again; if that does not help the CLI tries it
// for ever. No step is known to be the last one before the process has left:
// the summary of a conversation that is cut down ends just like an answer.
func (s *opencodeStream) Settled() Settled {
	switch {
	case s.overflows > 1:
		return Hopeless
	case s.failure != nil && s.failure.name != opencodeOverflow:
		return Finished
	}
	return Going
}

// opencodeFinal reports whether a step that ended so can be the last one.
func opencodeFinal(reason string) bool {
	return !slices.Contains([]string{"", "tool-calls", "unknown", "error", "content-filter"}, reason)
}

func (s *opencodeStream) event(l *jsonstream.Line) bool {
	if v, ok := l.Last(openSession); !ok || v.Type != 's' {
		return false
	}
	switch l.String(openType) {
	case "step_start":
		s.reason = ""
		s.text.reset()
	case "text":
		if synthetic, _ := l.Bool(openSynthetic); synthetic {
			// The CLI's own word to the agent, after it has summed up the
			// conversation: the run goes on.
			s.reason = ""
			s.text.reset()
		} else if v, ok := l.Last(openText); ok && v.Type == 's' {
			if !s.text.empty() {
				s.text.add([]byte("\n"))
			}
			s.text.add(whole(v, MaxMessage))
			s.say(string(v.Raw[max(0, len(v.Raw)-maxLine):]))
		}
		s.log.tried = ""
	case "tool_use":
		s.tool(l)
		s.log.tried = ""
	case "step_finish":
		s.step(l)
		s.log.tried = ""
	case "error":
		s.fail(l)
	case "reasoning":
	default:
		return false
	}
	s.session = l.String(openSession)
	return true
}

func (s *opencodeStream) tool(l *jsonstream.Line) {
	shown := l.String(openTool)
	if title := strings.TrimSpace(l.String(openTitle)); title != "" {
		shown += ": " + strings.ReplaceAll(title, "\n", " ")
	}
	s.say(shown)
	for _, want := range []int{openToolError, openMissing} {
		if text := l.String(want); opencodeDenied(text) {
			s.denied++
			s.refusal = text
			return
		}
	}
}

// opencodeDenied reports whether a tool's error is that of the CLI's
// permissions: a person (for whom nobody answered) or a rule said no, or the
// tool was not even offered.
func opencodeDenied(text string) bool {
	if _, rest, ok := strings.Cut(text, "Model tried to call unavailable tool '"); ok {
		name, _, _ := strings.Cut(rest, "'")
		return slices.Contains([]string{"bash", "edit", "write", "patch", "multiedit", "apply_patch", "webfetch", "task", "invalid"}, name)
	}
	return strings.HasPrefix(text, "The user rejected permission") || strings.HasPrefix(text, "The user has specified a rule which prevents you")
}

func (s *opencodeStream) step(l *jsonstream.Line) {
	s.reason, s.failure, s.overflows = l.String(openReason), nil, 0
	if id := l.String(openPart); id != "" && id == s.counted {
		return
	}
	s.counted = l.String(openPart)
	used := false
	add := func(to **int64, wants ...int) {
		for _, want := range wants {
			if n, ok := l.Int(want); ok && n >= 0 {
				sum := n
				if *to != nil {
					sum += **to
				}
				*to = &sum
				used = used || n > 0
			}
		}
	}
	add(&s.usage.Input, openInput)
	add(&s.usage.CacheRead, openRead)
	add(&s.usage.CacheWrite, openWrite)
	add(&s.usage.Reasoning, openReasoning)
	add(&s.usage.Output, openOutput, openReasoning)
	cost, ok := l.Float(openCost)
	if used && (!ok || cost <= 0) {
		s.unpriced = true // a model without a price costs 0 here
	}
	s.cost += cost
}

func (s *opencodeStream) fail(l *jsonstream.Line) {
	f := &opencodeFailure{
		name: l.String(openErrorName), text: l.String(openErrorMessage), body: l.String(openErrorBody), ref: l.String(openErrorRef),
		headers: map[string]string{},
	}
	status, _ := l.Int(openErrorStatus)
	f.status = int(status)
	f.retryable, _ = l.Bool(openErrorRetryable)
	for v := range l.All(openErrorHeader) {
		if v.Type == 's' {
			f.headers[v.Keys[0]] = string(v.Raw)
		}
	}
	if ms, ok := l.Int(openTime); ok && ms > 0 {
		f.at = time.UnixMilli(ms)
	}
	if f.text == "" {
		f.text = f.name
	}
	if f.name == opencodeOverflow {
		s.overflows++
	}
	s.failure = f
	s.say(f.text)
}

func (s *opencodeStream) Finish(end proc.Result) Learned {
	learned := s.close()
	s.errors.end(s.log.note)
	learned.SessionID, learned.FinalMessage, learned.Denied = s.session, s.text.text(), s.denied
	learned.Usage, learned.StopReason = s.usage, s.reason
	if s.usage != (Usage{}) && !s.unpriced {
		cost := s.cost
		learned.CostUSD = &cost
	}
	switch {
	case !s.known:
		learned.Class, learned.ErrorText = opencodeStart(end, s.stderr(), s.log)
	case s.failure != nil:
		s.failure.learn(&learned, s.log, end)
	case opencodeFinal(s.reason) && end.Ended == proc.Exited && end.Signal == "":
		learned.Done = true
	case s.log.tried != "":
		learned.Class, learned.ErrorText = opencodeTried(s.log.tried), errorText(s.log.tried)
	default:
		learned.Class, learned.ErrorText = class.NoResult, errorText(s.refusal)
	}
	return learned
}

package agent

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/roles/agent/class"
)

var piLines = paths{
	64:        "type message.role message.stopReason message.usage.* message.usage.cost.total attempt reason success",
	256:       "id toolName message.model",
	512:       "args.command args.path args.pattern",
	16 << 10:  "message.errorMessage",
	finalText: "message.content.*.text",
}.lazy()

// piStream reads the stream of `pi --mode json`. The CLI exits with 0 after each failure of a provider, and it tells the end
// of a turn before it begins to try again.
type piStream struct {
	jsonLines
	said     *proc.HeadTail // the text of the last answer
	reason   string         // why the last answer ended
	failure  string         // the CLI's message about the last answer; "" if that did not fail
	began    bool           // a turn has begun
	ended    bool           // the last turn has ended, and the CLI does not try again
	retries  int64          // so many times the CLI has tried the last answer again
	overflow bool           // the CLI has found that the conversation is too long
	usage    Usage
	cost     float64
	unpriced bool
	limited  string // the line of the log with a limit until whose end the CLI sleeps; "": it does not
	zone     *time.Location
}

func (pi) Stream(req Request) Stream {
	s := &piStream{said: proc.NewHeadTail(finalHalf), zone: zoneOf(req)}
	s.note, s.noise = s.logged, piLog
	s.read(piLines(), s.event)
	return s
}

// piPatience is the number of times that the CLI may try again by itself. Each time it asks three times.
const piPatience = 1

// Settled reports the run as hopeless when the CLI tries again for the second time, because superloop itself can wait.
func (s *piStream) Settled() Settled {
	if s.limited != "" {
		return Waiting
	}
	return settledAs(s.ended, s.retries > piPatience, false)
}

func (s *piStream) event(e event) bool {
	kind := e.str("type")
	switch kind {
	case "session":
		if e.str("id") == "" {
			return false
		}
		s.session = e.str("id")
		return true
	case "agent_start":
		s.began, s.ended = true, false
	case "agent_end":
		s.ended = true
	case "message_end":
		s.message(e)
	case "tool_execution_start":
		s.does(e.str("toolName"), cmp.Or(e.str("args.command"), e.str("args.path"), e.str("args.pattern")))
	case "auto_retry_start":
		s.ended, s.retries = false, e.int("attempt")
	case "auto_retry_end":
		if ok, _ := e.bool("success"); !ok {
			s.retries, s.ended = 0, true
		}
	case "compaction_start":
		s.overflow = s.overflow || e.str("reason") == "overflow"
	case "turn_start", "turn_end", "message_start", "message_update", "tool_execution_update", "tool_execution_end", "compaction_end", "queue_update":
	default:
		return false
	}
	s.limited = ""
	return true
}

// message reads a whole message. Only those of the model count.
func (s *piStream) message(e event) {
	if e.str("message.role") != "assistant" {
		return
	}
	s.reason, s.failure, s.model = e.str("message.stopReason"), "", e.str("message.model")
	s.said = proc.NewHeadTail(finalHalf)
	for v := range e.all("message.content.*.text") {
		if v.Type != 's' {
			continue
		}
		if s.said.Capture().Bytes > 0 {
			_, _ = s.said.Write([]byte("\n"))
		}
		_, _ = s.said.Write(whole(v, finalText))
		s.say(string(v.Raw))
	}
	if s.reason == "error" || s.reason == "aborted" {
		s.failure = cmp.Or(e.str("message.errorMessage"), s.reason)
		_, said := piClass(s.failure)
		s.say(said)
	} else {
		s.retries, s.overflow = 0, false
	}
	used := e.counters("message.usage.*", counterNames{"input", "output", "cacheRead", "cacheWrite", ""})
	n, _ := used.Total()
	if n == 0 {
		return // the provider did not answer
	}
	s.usage = s.usage.plus(used)
	cost, ok := e.float("message.usage.cost.total")
	s.unpriced = s.unpriced || !ok || cost <= 0 // the CLI reports the cost 0 for a model without a price
	s.cost += max(cost, 0)
}

func (s *piStream) Finish(end proc.Result) Learned {
	learned := s.close()
	learned.FinalMessage, learned.Usage, learned.StopReason = captured(s.said, door.JoinCut), s.usage, s.reason
	if s.usage != (Usage{}) && !s.unpriced {
		cost := s.cost
		learned.CostUSD = &cost
	}
	switch {
	case s.failure != "":
		var said string
		learned.Class, said = piClass(s.failure)
		if s.overflow {
			learned.Class = class.Context
		}
		learned.ErrorText = errorText(said)
		learned.limited("", resetIn(strings.ReplaceAll(said, "~", ""), end.LastOutput, s.zone))
	case s.ended:
		learned.Done = true
	case s.limited != "":
		learned.Class, learned.ErrorText = class.Limit, errorText(s.limited)
		learned.limited("", time.Time{})
	case !s.began:
		learned.Class, learned.ErrorText = s.start(end)
	default:
		learned.Class = class.NoResult
	}
	return learned
}

// piStatus matches the HTTP status with which the CLI's libraries begin their messages.
var piStatus = pattern.Lazy(`^(?:[A-Z]\w+ API error \()?([45]\d\d)\b`)

// piClass classifies the CLI's message about an answer that failed: the status and what the provider sent, or the words of
// the library that was to reach it. It also returns the message for people.
func piClass(failure string) (found class.Class, said string) {
	f := opencodeFailure{name: "APIError", text: failure}
	if m := piStatus().FindStringSubmatch(failure); m != nil {
		f.status, _ = strconv.Atoi(m[1])
	}
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if _, object, ok := strings.Cut(failure, "{"); ok && json.Unmarshal([]byte("{"+object), &body) == nil {
		f.body = "{" + object
		if f.status == 0 {
			f.status, _ = strconv.Atoi(f.provider().code())
		}
	}
	if found = f.class(); found == class.Unknown || found == class.Request {
		found = cmp.Or(classOf("pi.text", failure), found)
	}
	return found, cmp.Or(body.Error.Message, failure)
}

// piLog reports whether a line, or the beginning of one, is of the log of a library of the CLI's.
func piLog(line string) bool {
	const begin = "[log_"
	return strings.HasPrefix(line, begin) || strings.HasPrefix(begin, line)
}

// piLimited matches the line of the log after which the CLI waits as long as the provider says, without a bound.
var piLimited = pattern.Lazy(`^\[log_\w+[^\]]*\] \w+ \S+ (failed with status 429) in \d+ms - retrying`)

// logged reads a line of standard error.
func (s *piStream) logged(line []byte) {
	if !piLog(string(line)) {
		return
	}
	s.limited = ""
	if m := piLimited().FindSubmatch(line); m != nil {
		s.limited = string(m[1])
		s.say(s.limited)
	}
}

var piNoise = pattern.Lazy(`^\[log_|^Warning: `)

// start derives the class and the error text of a run without a turn from standard error.
func (s *piStream) start(end proc.Result) (class.Class, string) {
	said := without(piNoise(), text.Uncoloured(s.stderr()))
	if end.Ended != proc.Exited || end.Signal != "" || said == "" {
		if s.known {
			return class.NoResult, ""
		}
		return class.None, ""
	}
	found, at := findClass("pi.start", said)
	line, _, _ := strings.Cut(said[at:], "\n")
	switch {
	case found == class.None && !s.known:
		return class.None, ""
	case found == class.None:
		found = class.NoResult
	}
	s.say(line)
	return found, errorText(line)
}

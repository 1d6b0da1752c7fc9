package agent

import (
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/jsonstream"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

// What is read of a line; the order is that of codexShape.
const (
	codexType = iota
	codexThread
	codexMessage
	codexFailure
	codexItem
	codexText
	codexShell
	codexStatus
	codexChanged
	codexTool
	codexQuery
	codexUsage
)

var codexShape = jsonstream.Lazy(
	jsonstream.Want{Path: "type", Max: 64},
	jsonstream.Want{Path: "thread_id", Max: 256},
	jsonstream.Want{Path: "message", Max: 2 * maxErrorText},
	jsonstream.Want{Path: "error.message", Max: 2 * maxErrorText},
	jsonstream.Want{Path: "item.type", Max: 64},
	jsonstream.Want{Path: "item.text", Max: 2 * finalHalf},
	jsonstream.Want{Path: "item.command", Max: 512},
	jsonstream.Want{Path: "item.status", Max: 64},
	jsonstream.Want{Path: "item.changes.*.path", Max: 256},
	jsonstream.Want{Path: "item.tool", Max: 128},
	jsonstream.Want{Path: "item.query", Max: 256},
	jsonstream.Want{Path: "usage.*", Max: 64},
)

// codexStream reads the stream of `codex exec --json`.
//
// An item of type error is a warning. An event of type error ends the run only
// if turn.failed follows, or the process ends: the CLI tells there what it is
// going to try again. The usage is that of the whole thread so far, without its
// sub-agents, and comes only with a turn that ends well; Recover has the rest.
type codexStream struct {
	jsonLines
	resumed bool
	session *Session
	zone    *time.Location

	thread    string
	said      []byte // the agent's last message
	began     bool   // a turn has
	worked    bool   // the model has answered
	completed bool
	failed    bool
	failure   string // what turn.failed says
	last      string // what the last event of type error says, unless the model answered since
	attempt   int64  // of a request that is repeated, from last
	usage     codexCount
	denied    int64
	agents    bool // it has sub-agents, whose usage no event tells
	took      time.Duration
}

// codexCount are counters as this CLI has them: input includes both kinds of
// cache, output the reasoning. nil: not told.
type codexCount struct{ input, cached, written, output, reasoning *int64 }

func (c codex) Stream(req Request) Stream {
	s := &codexStream{resumed: c.resumes(req), session: req.Resume, zone: zoneOf(req)}
	s.open(codexShape(), s.read)
	return s
}

func (s *codexStream) read(l *jsonstream.Line) bool {
	kind := l.String(codexType)
	switch kind {
	case "thread.started":
		s.thread = l.String(codexThread)
		return s.thread != ""
	case "turn.started":
		s.began, s.completed, s.failed = true, false, false
	case "turn.completed":
		s.completed, s.failed = true, false
		s.usage = readCodexCount(l, codexUsage, 0)
	case "turn.failed":
		s.completed, s.failed = false, true
		s.failure = l.String(codexFailure)
		s.say(s.failure)
	case "item.started", "item.updated", "item.completed":
		s.item(l, kind)
	case "error":
		s.last = l.String(codexMessage)
		s.attempt = codexAttempt(s.last)
		s.say(s.last)
	default:
		return strings.HasPrefix(kind, "item.") || strings.HasPrefix(kind, "turn.") || strings.HasPrefix(kind, "thread.")
	}
	return true
}

func (s *codexStream) item(l *jsonstream.Line, kind string) {
	item := l.String(codexItem)
	if item == "" || item == "error" {
		return
	}
	s.worked, s.last, s.attempt = true, "", 0
	status := l.String(codexStatus)
	if kind == "item.completed" && status == "declined" {
		s.denied++
	}
	switch item {
	case "agent_message", "reasoning":
		v, ok := l.Last(codexText)
		if !ok || v.Type != 's' || len(v.Raw) == 0 {
			return
		}
		if item == "agent_message" {
			s.said = append(s.said[:0], whole(v, 2*finalHalf)...)
		}
		s.say(string(v.Raw[max(0, len(v.Raw)-maxLine):]))
	case "command_execution":
		s.say("$ " + strings.ReplaceAll(l.String(codexShell), "\n", " "))
	case "file_change":
		s.say("change: " + l.String(codexChanged))
	case "mcp_tool_call", "collab_tool_call":
		s.agents = s.agents || item == "collab_tool_call"
		s.say("tool: " + l.String(codexTool))
	case "web_search":
		s.say("search: " + l.String(codexQuery))
	}
}

// readCodexCount reads counters whose name is the key at index key.
func readCodexCount(l *jsonstream.Line, want, key int) (c codexCount) {
	for v := range l.All(want) {
		n, ok := number(v)
		if !ok {
			continue
		}
		switch v.Keys[key] {
		case "input_tokens":
			c.input = &n
		case "cached_input_tokens":
			c.cached = &n
		case "cache_write_input_tokens":
			c.written = &n
		case "output_tokens":
			c.output = &n
		case "reasoning_output_tokens":
			c.reasoning = &n
		}
	}
	return c
}

// usage makes the kinds disjoint.
func (c codexCount) disjoint() Usage {
	u := Usage{Output: c.output, CacheRead: c.cached, CacheWrite: c.written, Reasoning: c.reasoning}
	if c.input != nil {
		input := max(0, *c.input-deref(c.cached)-deref(c.written))
		u.Input = &input
	}
	return u
}

// minus is what was used since before; ok is false when the counters went back,
// as they do in a thread that began anew.
func (u Usage) minus(before Usage) (Usage, bool) {
	ok := true
	less := func(now, had *int64) *int64 {
		if now == nil {
			return nil
		}
		left := *now - deref(had)
		ok = ok && left >= 0
		return &left
	}
	return Usage{
		Input: less(u.Input, before.Input), Output: less(u.Output, before.Output), CacheRead: less(u.CacheRead, before.CacheRead),
		CacheWrite: less(u.CacheWrite, before.CacheWrite), Reasoning: less(u.Reasoning, before.Reasoning),
	}, ok
}

var codexAgain = pattern.Lazy(`^Reconnecting\.\.\. (?:(\d+)/\d+)?`)

// codexAttempt is how often the request of such an error was repeated; 0 if it
// will not be.
func codexAttempt(text string) int64 {
	m := codexAgain().FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// Settled: of a refused login the first repetition may find a renewed one.
func (s *codexStream) Settled() Settled {
	switch {
	case s.completed || s.failed:
		return Finished
	case s.attempt > 1 && codexClass(s.last).NeedsPerson() && !s.worked:
		return Hopeless
	case s.attempt > 1 && codexClass(s.last).NeedsPerson():
		return Finished
	}
	return Going
}

func (s *codexStream) Finish(end proc.Result) Learned {
	s.took = end.Duration
	learned := s.close()
	if !learned.Structured {
		learned.Class, learned.ErrorText = codexStart(s.stderr(), end)
		return learned
	}
	learned.SessionID, learned.Denied, learned.FinalMessage = s.thread, s.denied, string(s.said)
	s.tell(&learned)
	said := s.last
	switch {
	case s.completed:
		learned.Done = true
		return learned
	case s.failed && s.failure != "":
		said = s.failure
	}
	switch {
	case said != "":
		learned.Class, learned.ErrorText = codexClass(said), errorText(said)
	case s.failed:
		learned.Class = class.Unknown
	default:
		if learned.Class, learned.ErrorText = codexStart(s.stderr(), end); learned.Class == class.None {
			learned.Class, learned.ErrorText = class.NoResult, errorText(codexErrors(s.stderr()))
		}
	}
	if learned.Class == class.Limit {
		learned.Limit = &Limit{Text: learned.ErrorText, ResetsAt: codexReset(said, end.LastOutput, s.zone)}
	}
	return learned
}

// tell gives the usage of this run, of the thread's.
func (s *codexStream) tell(learned *Learned) {
	now := s.usage.disjoint()
	if _, ok := now.Total(); !ok {
		if s.continued() {
			learned.Totals = s.session.Totals
		}
		return
	}
	learned.Totals = &Totals{Usage: now}
	switch {
	case !s.resumed, s.session != nil && !s.continued():
		learned.Usage = now
	case s.session != nil && s.session.Totals != nil:
		learned.Usage = now
		if since, ok := now.minus(s.session.Totals.Usage); ok {
			learned.Usage = since
		}
	}
}

// continued reports whether this is the session that was to be resumed: for an
// id that is no UUID the CLI begins a new thread without a word.
func (s *codexStream) continued() bool {
	return s.session != nil && (s.thread == "" || s.thread == s.session.ID)
}

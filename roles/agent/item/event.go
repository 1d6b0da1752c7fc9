package item

import (
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/jsonstream"
)

// wanted are the values that are read of a line, by the number of bytes to keep of each, in the syntax of
// jsonstream.Want.
var wanted = map[int]string{
	// claude
	64: `type subtype is_error total_cost_usd duration_ms usage.input_tokens usage.output_tokens usage.cache_creation_input_tokens
		usage.cache_read_input_tokens message.content.*.is_error rate_limit_info.status rate_limit_info.isUsingOverage attempt
		max_retries retry_delay_ms error_status timestamp
		item.type item.status item.exit_code
		role delta severity status stats.total_tokens stats.duration_ms
		part.reason part.cost part.tokens.input part.tokens.output part.tokens.reasoning part.tokens.cache.read part.tokens.cache.write part.synthetic
		part.state.status part.state.time.start part.state.time.end
		method id emittedAtMs params.item.type params.item.status params.item.exitCode params.item.durationMs params.turn.status params.turn.durationMs
		params.tokenUsage.total.inputTokens params.tokenUsage.total.outputTokens
		jsonrpc params.update.sessionUpdate params.update.kind params.update.status params.toolCall.kind result.stopReason
		message.role message.stopReason message.timestamp message.usage.totalTokens message.usage.cost.total isError delayMs reason`,
	256: `session_id model message.model parent_tool_use_id message.content.*.id message.content.*.name message.content.*.tool_use_id
		rate_limit_info.rateLimitType rate_limit_info.resetsAt error tool_name
		thread_id item.id item.tool item.server
		tool_id error.type error.name
		sessionID part.tool part.callID part.id
		params.threadId result.thread.id result.model result.userAgent result.turn.id result.turnId result.config.model params.item.id params.item.tool params.item.server
		params.update.toolCallId params.toolCall.toolCallId result.sessionId toolName toolCallId`,
	4096: `message.content.*.input.* message.content.*.text message.content.*.thinking message.content.*.content
		message.content.*.content.*.text result errors.* message
		item.text item.command item.aggregated_output item.message item.query item.changes.*.path item.changes.*.kind item.error.message
		error.message content output parameters.*
		part.text part.state.title part.state.output part.state.error part.state.input.* error.data.message
		params.item.text params.item.summary.* params.item.command params.item.aggregatedOutput params.item.query params.item.changes.*.path params.item.error.message
		params.error.message params.error.additionalDetails params.turn.error.message
		params.update.title params.update.content.text params.update.content.*.content.text params.update.rawInput.command params.update.rawInput.filePath
		params.update.rawOutput.output params.update.rawOutput.error params.toolCall.title params.toolCall.rawInput.command params.toolCall.rawInput.filePath
		message.errorMessage args.* result.content.*.text`,
}

type layout struct {
	shape *jsonstream.Shape
	wants map[string]int
}

var compiled = sync.OnceValue(func() layout {
	l := layout{wants: map[string]int{}}
	var wants []jsonstream.Want
	for _, most := range slices.Sorted(maps.Keys(wanted)) {
		for _, path := range strings.Fields(wanted[most]) {
			l.wants[path] = len(wants)
			wants = append(wants, jsonstream.Want{Path: path, Max: most})
		}
	}
	l.shape = jsonstream.MustShape(wants...)
	return l
})

func shape() *jsonstream.Shape { return compiled().shape }

// event is a line whose values are found by their paths.
type event struct{ *jsonstream.Line }

func want(path string) int {
	if i, ok := compiled().wants[path]; ok {
		return i
	}
	return -1
}

// value is the text of a string: its beginning, its whole size in bytes, and whether text is all of it.
type value struct {
	text  string
	size  int64
	whole bool
}

func valueOf(v jsonstream.Value) value {
	raw := v.Raw
	if v.Cut > 0 { // the rest of Raw is the end of the text
		n := len(raw) / 2
		for n > 0 && !utf8.RuneStart(raw[n]) {
			n--
		}
		raw = raw[:n]
	}
	return value{string(raw), int64(len(v.Raw)) + v.Cut, v.Cut == 0}
}

// text returns the last value at a path if it is a string.
func (e event) text(path string) (value, bool) {
	v, ok := e.Last(want(path))
	if !ok || v.Type != 's' {
		return value{}, false
	}
	return valueOf(v), true
}

func (e event) str(path string) string {
	v, _ := e.text(path)
	return v.text
}

// has reports whether the line has a value at the path that is not null.
func (e event) has(path string) bool {
	v, ok := e.Last(want(path))
	return ok && v.Type != '0'
}

func (e event) is(path string) bool {
	b, _ := e.Bool(want(path))
	return b
}

// number returns the last value at a path if it is a number from 0 to 2^53.
func (e event) number(path string) (float64, bool) {
	f, ok := e.Float(want(path))
	return f, ok && f >= 0 && f <= 1<<53
}

// sum adds the numbers at the paths. It returns nil if there is none.
func (e event) sum(paths ...string) *int64 {
	total, any := 0.0, false
	for _, path := range paths {
		f, ok := e.number(path)
		if ok {
			total, any = total+math.Floor(f), true
		}
	}
	if !any || total > 1<<53 {
		return nil
	}
	n := int64(total)
	return &n
}

// millis returns the number at a path as a duration in milliseconds, 0 if there is none or it is longer than a year.
func (e event) millis(path string) time.Duration {
	f, ok := e.number(path)
	if !ok || f > 366*24*3600*1e3 {
		return 0
	}
	return time.Duration(f * float64(time.Millisecond))
}

// clock returns the time at a path: RFC 3339, or milliseconds since 1970. It returns the zero time for anything else,
// and for a time that is not in the years 2000 to 2200.
func (e event) clock(path string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, e.str(path))
	if f, ok := e.number(path); ok {
		at, err = time.UnixMilli(int64(f)), nil
	}
	if err != nil || at.Year() < 2000 || at.Year() > 2200 {
		return time.Time{}
	}
	return at
}

// in iterates over the values of a path in one element of an array: those whose first "*" matched key.
func (e event) in(path, key string) iter.Seq[jsonstream.Value] {
	return func(yield func(jsonstream.Value) bool) {
		for v := range e.All(want(path)) {
			if len(v.Keys) > 0 && v.Keys[0] == key && !yield(v) {
				return
			}
		}
	}
}

// of returns the last string at a path in one element of an array.
func (e event) of(path, key string) (found string) {
	for v := range e.in(path, key) {
		if v.Type == 's' {
			found = valueOf(v).text
		}
	}
	return found
}

// subjects are the arguments of tools that tell most about a call, the most telling first.
var subjects = []string{"command", "cmd", "file_path", "filePath", "notebook_path", "path", "absolute_path", "dir_path", "pattern", "url", "query", "description",
	"skill", "subject", "prompt"}

// subject chooses the argument that tells most about a call. name returns the name of the argument that a value is.
func subject(args iter.Seq[jsonstream.Value], name func(jsonstream.Value) string) string {
	best, what, other := len(subjects), "", ""
	for v := range args {
		if v.Type != 's' {
			continue
		}
		if i := slices.Index(subjects, name(v)); i >= 0 && i < best {
			best, what = i, valueOf(v).text
		} else if i < 0 && other == "" {
			other = valueOf(v).text
		}
	}
	if what == "" {
		return other
	}
	return what
}

// lastKey returns the name of an argument: the key that the last "*" of its path matched.
func lastKey(v jsonstream.Value) string { return v.Keys[len(v.Keys)-1] }

package gate

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
)

// maxPromiseText bounds, in bytes, how much of a promise that does not match is
// reported.
const maxPromiseText = 1024

// PromiseResult is what a message said in its promise tag. Text is nil when
// the message has no closed tag, or an empty one.
type PromiseResult struct {
	Expected string  `json:"expected"`
	Text     *string `json:"text"`
	Matched  bool    `json:"matched"`
}

// Status is "true" or "false".
func (p PromiseResult) Status() string { return strconv.FormatBool(p.Matched) }

// Promise looks for <promise>TEXT</promise> in the reviewer's last message of
// this iteration; only the message that is given is searched.
//
// The first tag decides, wherever it stands: in prose, in a quotation, in a
// fenced block. Looking past it for a better one would let a reviewer that
// quotes the tag to refuse it ("I cannot write <promise>DONE</promise>") and
// one that means it look alike in more ways than they already do; one plain
// rule can be explained in the role's prompt. TEXT ends at the first closing
// tag; an opening tag without any closing tag after it says nothing. White
// space around TEXT does not count, and a run of white space inside is one
// space, on both sides of the comparison. An empty expectation never matches.
//
// The time is linear in the message and the memory bounded, whatever is in it.
func Promise(lastMessage, expected string) PromiseResult {
	res := PromiseResult{Expected: expected}
	_, after, ok := strings.Cut(lastMessage, "<promise>")
	if !ok {
		return res
	}
	inside, _, ok := strings.Cut(after, "</promise>")
	if !ok {
		return res
	}
	want := strings.Join(strings.Fields(expected), " ")
	said, whole := squeeze(inside, max(maxPromiseText, len(want)))
	if said == "" {
		return res
	}
	res.Matched = whole && want != "" && said == want
	if !res.Matched {
		said = text.Head(said, maxPromiseText)
	}
	res.Text = &said
	return res
}

// squeeze trims s, makes each run of white space one space and stops after
// limit bytes; whole says that nothing was left out.
func squeeze(s string, limit int) (out string, whole bool) {
	var b strings.Builder
	space := false
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if unicode.IsSpace(r) {
			space = b.Len() > 0
			i += n
			continue
		}
		need := n
		if space {
			need++
		}
		if b.Len()+need > limit {
			return b.String(), false
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteString(s[i : i+n])
		i += n
	}
	return b.String(), true
}

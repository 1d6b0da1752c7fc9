package gate

import (
	"strings"

	"github.com/superloop/superloop/internal/text"
)

const maxPromiseText = 1024 // maxPromiseText bounds, in bytes, how much of a promise that does not match is reported

// PromiseResult is what a message said in its promise tag. Text is nil when the message has no closed tag, or an empty
// one.
type PromiseResult struct {
	Expected string  `json:"expected"`
	Text     *string `json:"text"`
	Matched  bool    `json:"matched"`
}

// Promise looks for <promise>TEXT</promise> in the reviewer's last message of this iteration; only the message that is
// given is searched.
//
// The first tag decides, wherever it stands: in prose, in a quotation, in a fenced block. If a later tag could win, a
// reviewer that quotes the tag to refuse it ("I cannot write <promise>DONE</promise>") and one that means it would look
// alike in more ways. One plain rule can be explained in the role's prompt. TEXT ends at the first closing tag; an
// opening tag without any closing tag after it says nothing. White space around TEXT does not count, and a run of white
// space inside is one space, on both sides of the comparison. An empty expectation never matches.
//
// The time is linear in the message, whatever is in it.
func Promise(lastMessage, expected string) PromiseResult {
	res := PromiseResult{Expected: expected}
	_, after, _ := strings.Cut(lastMessage, "<promise>")
	inside, _, closed := strings.Cut(after, "</promise>")
	if !closed {
		return res
	}
	want := strings.Join(strings.Fields(expected), " ")
	var b strings.Builder
	for word := range strings.FieldsSeq(inside) {
		if b.Len() > max(maxPromiseText, len(want)) {
			break // it is longer than what is wanted, and than what is reported
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	said := b.String()
	if said == "" {
		return res
	}
	if res.Matched = want != "" && said == want; !res.Matched {
		said = text.Head(said, maxPromiseText)
	}
	res.Text = &said
	return res
}

package gate

import (
	"strings"

	"github.com/superloop/superloop/internal/text"
)

const maxPromiseText = 1024 // maxPromiseText bounds how much of a promise that does not match is reported, in bytes

// PromiseResult is the content of the promise tag in a message. Text is nil if the message has no closed tag, or if the
// tag is empty.
type PromiseResult struct {
	Expected string  `json:"expected"`
	Text     *string `json:"text"`
	Matched  bool    `json:"matched"`
}

// Promise looks for <promise>TEXT</promise> in a message, which is the last message of the promise role in this
// iteration.
//
// The first tag decides, even in prose, in a quotation or in a fenced block. If a later tag could win, there would be
// more ways to mistake a reviewer that quotes the tag to refuse it ("I cannot write <promise>DONE</promise>") for a
// reviewer that means it. This one rule is plain enough for the role's prompt. TEXT ends at the first closing tag. An
// opening tag without a closing tag after it does not count. In TEXT and in expected, white space at both ends does not
// count, and a run of white space counts as one space. An empty expected never matches.
//
// Promise takes time linear in the message, for any content.
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
			break // the text is longer than the expected one, and than the bound of the report
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

package recovery

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/text"
)

// These limits bound the analysis. superloop checks maxNesting and maxOpeners before it calls the parser, because nested
// text costs the parser more than linear time and stack. A command that an operator writes is far below the limits.
const (
	maxNesting = 64   // brackets that are open at one place, quoted or not
	maxOpeners = 256  // brackets, substitutions and keywords in total
	maxDepth   = 10   // levels of commands inside commands: wrappers, bash -c, eval
	maxAgain   = 4    // how often the text may be read in total; the analysis reads inner commands again
	maxParts   = 1000 // simple commands in total
)

// Analysis says what a command does, as far as the package understands the command.
type Analysis struct {
	// Parts are the simple commands of the command. They may stand in lists, compounds, functions, substitutions and
	// here-documents, and inside other commands such as sudo or bash -c.
	Parts  []Part   `json:"parts"`
	Opaque []Remark `json:"opaque,omitempty"` // the parts that may run something that Parts does not show
	// Own are the parts that run a program, a script or a target of the repository. What these do is not in the command,
	// and an agent can write them.
	Own []Remark `json:"own,omitempty"`
	// Hidden are characters that people do not see, or confuse with other characters.
	Hidden []Hidden `json:"hidden,omitempty"`
	// Privileged is the text of the first part that runs with other rights, or "".
	Privileged string `json:"privileged,omitempty"`
	// State is the text of the first part that touches superloop's own files, or "".
	State string `json:"wrapper_state,omitempty"`
}

// Part is a simple command.
type Part struct {
	Text string `json:"text"` // the part as it is written; inside another command, the words of the part
	// Words are the words after quote removal. "..." stands for text that only bash will know.
	Words []string `json:"words"`

	words []word
	forms []string // the result of joined; nil before its first call
}

// Remark says something about a part of the command. Why is printable ASCII. Part is text of the command itself.
type Remark struct {
	Why  string `json:"why"`
	Part string `json:"part"`
}

// Analyse reads a command as bash would. Analyse runs nothing and always ends. A text that is too long, too deeply
// nested or not a command is opaque.
func Analyse(text string) *Analysis {
	a := &Analysis{Hidden: hidden(text)}
	r := reader{out: a, work: maxAgain*len(text) + MaxCommand/2}
	if len(a.Hidden) > 0 {
		r.opaque(fmt.Sprintf("it holds %s at byte %d", a.Hidden[0].Name, a.Hidden[0].Offset), "")
	}
	switch why := tooMuch(text); {
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		r.opaque("it is not text", "")
	case len(text) > MaxEntry:
		r.opaque(fmt.Sprintf("it has %d bytes, more than the %d that are read", len(text), MaxEntry), "")
	case why != "":
		r.opaque(why, "")
	default:
		r.script(text, 0)
	}
	if len(a.Parts) == 0 && len(a.Opaque) == 0 {
		r.opaque("no command was found in it", "")
	}
	if strings.Contains(strings.ToLower(text), stateDir) {
		r.state(text)
	}
	for i := range a.Parts { // Words is for display
		for _, w := range a.Parts[i].words {
			a.Parts[i].Words = append(a.Parts[i].Words, w.show())
		}
	}
	return a
}

// tooMuch returns the reason why a text must not be given to the parser, or "".
func tooMuch(text string) string {
	depth, deepest, openers := 0, 0, 0
	word := 0 // the start of the current word
	for i := 0; i <= len(text); i++ {
		c := byte(' ')
		if i < len(text) {
			c = text[i]
		}
		switch c {
		case '(', '{', '[':
			depth++
			openers++
		case ')', '}', ']':
			depth = max(0, depth-1)
		case '`':
			openers++
		}
		if strings.IndexByte(" \t\n;&|()<>`$\"'{}[]", c) >= 0 {
			if listed(keywords, text[word:i]) {
				openers++
			}
			word = i + 1
		}
		deepest = max(deepest, depth)
	}
	switch {
	case deepest > maxNesting:
		return fmt.Sprintf("it nests brackets more than %d deep", maxNesting)
	case openers > maxOpeners:
		return fmt.Sprintf("it has more than %d brackets and keywords", maxOpeners)
	}
	return ""
}

// keywords are the words at which the parser may nest one level deeper.
const keywords = "if elif while until for select case time coproc function ! - + ~ ?"

// reader builds the Analysis of one command.
type reader struct {
	out  *Analysis
	work int // the number of bytes of words that may still be read
	full bool
}

// opaque records that the command may run something that the analysis does not see.
func (r *reader) opaque(why, part string) {
	const enough = 20 // the first remark decides the verdict; more only inform
	if len(r.out.Opaque) < enough {
		r.out.Opaque = append(r.out.Opaque, Remark{Why: why, Part: part})
	}
}

// own records that the command runs a program of the repository.
func (r *reader) own(why, part string) {
	const enough = 20 // as for opaque
	if len(r.out.Own) < enough {
		r.out.Own = append(r.out.Own, Remark{Why: why, Part: part})
	}
}

func (r *reader) privileged(part string) { r.out.Privileged = cmp.Or(r.out.Privileged, part) }
func (r *reader) state(part string)      { r.out.State = cmp.Or(r.out.State, part) }

// tired counts words against the limits, and returns true when the analysis must stop.
func (r *reader) tired(ws []word) bool {
	for _, w := range ws {
		r.work -= len(w.text) + 1
	}
	if !r.full && (r.work < 0 || len(r.out.Parts) >= maxParts) {
		r.full = true
		r.opaque("it holds too many commands, or commands inside commands", "")
	}
	return r.full
}

// command reads one simple command. text is the form of the command that people are shown.
func (r *reader) command(ws []word, text string, depth int) {
	if len(ws) == 0 || r.tired(ws) {
		return
	}
	if depth > maxDepth {
		r.opaque(fmt.Sprintf("it has commands inside commands more than %d deep", maxDepth), text)
		return
	}
	r.out.Parts = append(r.out.Parts, Part{Text: text, words: ws})
	for _, w := range ws {
		r.touches(w, text)
	}
	first := ws[0]
	switch {
	case !first.known:
		r.opaque("what it runs is not written out", text)
	case first.text == "":
		r.opaque("it runs a program without a name", text)
	case first.text[0] == '-':
		r.opaque("it begins with an option", text)
	case strings.IndexFunc(first.text, func(c rune) bool { return c >= utf8.RuneSelf }) >= 0:
		r.opaque("the name of the program is not plain ASCII", text)
	default:
		r.ownProgram(first.text, text)
		r.program(programName(first.text), ws, text, depth)
	}
}

// Hidden is a character that people do not see, or confuse with another character.
type Hidden struct {
	Offset int    `json:"offset"` // in bytes
	Name   string `json:"name"`   // "<U+200B>"
}

// isHidden reports whether people cannot see a character. Such characters are controls other than newline and tab,
// format characters, blanks other than the usual one, and letters and marks that show nothing.
func isHidden(c rune) bool {
	const noDots = 0x2800 // a braille pattern without dots
	visible := c >= ' ' && c < 0x7f || c == '\n' || c == '\t'
	return !visible && (unicode.IsControl(c) || c == utf8.RuneError || c == noDots || unicode.In(c, unicode.Cf, unicode.Zs,
		unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point))
}

func hidden(s string) []Hidden {
	const enough = 100
	var out []Hidden
	for i, c := range s {
		if isHidden(c) && len(out) < enough {
			out = append(out, Hidden{Offset: i, Name: text.CharName(c)})
		}
	}
	return out
}

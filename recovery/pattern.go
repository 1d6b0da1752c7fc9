package recovery

import (
	"path"
	"slices"
	"strings"
)

// pattern is one entry of require_human, trimmed and split at blanks. A pattern without '*' fits a command that begins
// with the pattern's words. A pattern with '*' is a glob over the command's words, which are joined by single blanks.
// There '*' stands for any text, blanks included, and every other character stands for itself. A final " *" may also
// stand for nothing.
//
// If a pattern has no '*', or has one only as its last word, heads also compares its words with the command word by
// word, as programs read them.
type pattern struct {
	text    string   // the entry as it is in the policy
	glob    string   // the words, joined by one blank
	globs   []string // glob and its variant: with a final " *", or without it
	literal bool     // the pattern has no '*'
	all     bool     // the pattern has nothing but '*'
	// head are the words that a command must begin with; nil when a '*' is elsewhere than in the last word.
	head []string
}

func newPattern(text string) (pattern, bool) {
	words := strings.Fields(text)
	p := pattern{text: text, glob: strings.Join(words, " "), literal: !strings.Contains(text, "*")}
	p.all = len(words) > 0 && strings.Trim(p.glob, "* ") == ""
	p.globs = []string{p.glob}
	if p.literal {
		p.globs = append(p.globs, p.glob+" *") // the words are the first words of a command
	} else if short, ok := strings.CutSuffix(p.glob, " *"); ok {
		p.globs = append(p.globs, short)
	}
	if p.literal {
		p.head = words
	} else if n := len(words) - 1; n > 0 && words[n] == "*" && !strings.Contains(strings.Join(words[:n], ""), "*") {
		p.head = words[:n]
	}
	return p, len(words) > 0
}

// match says how well a pattern fits a command.
type match int

const (
	no    match = iota
	maybe       // it fits for some values of the text that only bash will know
	sure
)

// of compares the pattern with one simple command.
func (p *pattern) of(part *Part) match {
	if p.all {
		return sure
	}
	best := no
	if p.head != nil {
		best = heads(p.head, part.plain())
	}
	for _, text := range part.joined() {
		if best == sure {
			break
		}
		// A program name that could be anything fits no pattern here: Analysis.Opaque reports such a command.
		best = max(best, p.onText(text, part.words[0].known))
	}
	return best
}

// onText compares the pattern with words that are joined by single blanks, or with a whole command as it was written.
// onText returns maybe only if guess is set.
func (p *pattern) onText(text string, guess bool) match {
	best := no
	for _, g := range p.globs {
		switch {
		case plainMatch(g, text):
			return sure
		case guess && best == no && couldMatch(g, text):
			best = maybe
		}
	}
	return best
}

// heads compares the first words of a pattern with a command as programs read it. The command may name the program by
// its path. Its options may stand anywhere, may be bundled or abbreviated, and may have a value. So "git push" fits
// `/usr/bin/git -C x push -f`, and "git reset --hard" fits `git reset HEAD~1 --hard`.
func heads(head []string, words []word) match {
	if len(words) == 0 || !words[0].known || !sameProgram(head[0], words[0].text) {
		return no
	}
	var operands, options []string
	for _, h := range head[1:] {
		if isOption(h) {
			options = append(options, h)
		} else {
			operands = append(operands, h)
		}
	}
	r := reading{options: options, rm: programName(words[0].text) == "rm"}
	return r.operands(operands, words[1:])
}

func sameProgram(pattern, name string) bool {
	return pattern == name || !strings.Contains(pattern, "/") && foldName(pattern) == programName(name)
}

// reading compares the words of one command with a pattern.
type reading struct {
	options []string // the options of the pattern
	rm      bool     // the program is rm, for which -R and --recursive are the same as -r
	seen    []string // options of the command
	open    bool     // an unknown word may hold more options
}

// operands compares the operands of a pattern (want) with the words of a command. A word after an option may be the
// option's value or an operand. operands therefore follows all possible counts of matched operands at once.
func (r *reading) operands(want []string, words []word) match {
	n := len(want)
	certain, possible := make([]bool, n+1), make([]bool, n+1)
	certain[0], possible[0] = true, true
	afterOption, plain := false, false // plain: the word "--" has ended the options
	for _, w := range words {
		switch {
		case w.known && !plain && w.text == "--":
			plain, afterOption = true, false
			continue
		case w.known && !plain && isOption(w.text):
			r.seen = append(r.seen, w.text)
			afterOption = !r.rm && !strings.Contains(w.text, "=")
			continue
		}
		if !w.known {
			r.unknown(want, w, certain, possible, plain)
			afterOption = true
			continue
		}
		for i := n - 1; i >= 0; i-- {
			hit := sameOperand(want[i], w.text)
			certain[i+1] = certain[i+1] || certain[i] && hit
			possible[i+1] = possible[i+1] || possible[i] && hit
			if !afterOption { // another operand is at the place of the pattern's next operand
				certain[i], possible[i] = false, false
			}
		}
		afterOption = false
	}
	switch {
	case certain[n] && r.hasOptions():
		return sure
	case possible[n] && (r.open || r.hasOptions()):
		return maybe
	}
	return no
}

// unknown updates the state of operands (certain, possible) for a word whose text only bash will know.
func (r *reading) unknown(want []string, w word, certain, possible []bool, plain bool) {
	r.open = r.open || !plain && w.mayBeOption()
	for i := len(want) - 1; i >= 0; i-- {
		possible[i+1] = possible[i+1] || possible[i] && w.mayBe(want[i])
		certain[i] = false
	}
	for i := 0; w.many && i < len(want); i++ {
		possible[i+1] = possible[i+1] || possible[i] && w.mayBe(want[i])
	}
}

func sameOperand(want, got string) bool {
	return want == got || strings.Contains(want, "/") && strings.Contains(got, "/") && path.Clean(want) == path.Clean(got)
}

func isOption(w string) bool { return len(w) > 1 && w[0] == '-' && w != "--" }

// hasOptions reports whether the command has every option of the pattern.
func (r *reading) hasOptions() bool {
	letters := ""
	for _, s := range r.seen {
		switch name, _, _ := strings.Cut(s, "="); {
		case !strings.HasPrefix(name, "--"):
			letters += s[1:]
		case r.rm && len(name) > 2 && strings.HasPrefix("--recursive", name):
			letters += "r"
		case r.rm && len(name) > 2 && strings.HasPrefix("--force", name):
			letters += "f"
		}
	}
	if r.rm {
		letters = strings.ReplaceAll(letters, "R", "r")
	}
	return !slices.ContainsFunc(r.options, func(want string) bool { return !r.hasOption(want, letters) })
}

func (r *reading) hasOption(want, letters string) bool {
	for _, s := range r.seen {
		if s == want {
			return true
		}
		name, _, _ := strings.Cut(s, "=")
		wantName, _, valued := strings.Cut(want, "=")
		// GNU programs and git accept any unambiguous prefix of a long option.
		if !valued && strings.HasPrefix(want, "--") && len(name) > 2 && strings.HasPrefix(wantName, name) {
			return true
		}
	}
	if r.rm {
		switch want {
		case "--recursive", "-R":
			want = "-r"
		case "--force":
			want = "-f"
		}
	}
	// A bundle such as -rf is a set of letters. A longer option is a word, such as find's -delete.
	if strings.HasPrefix(want, "--") || len(want) > 4 {
		return false
	}
	for i := 1; i < len(want); i++ {
		c := string(want[i])
		if r.rm && c == "R" {
			c = "r"
		}
		if !strings.Contains(letters, c) {
			return false
		}
	}
	return true
}

// plain returns the words for a comparison word by word: for git, without the options in front of git's own command.
func (p *Part) plain() []word {
	if len(p.words) > 1 && p.words[0].known && programName(p.words[0].text) == "git" {
		if _, rest, ok := gitGlobals.split(p.words[1:], false); ok {
			return slices.Concat(p.words[:1], rest)
		}
	}
	return p.words
}

// joined returns the texts that a glob is compared with: the words as they are, and the words in canonical form.
func (p *Part) joined() []string {
	if p.forms == nil {
		p.forms = []string{join(p.words)}
		if c := join(canonical(p.plain())); c != p.forms[0] {
			p.forms = append(p.forms, c)
		}
	}
	return p.forms
}

// canonical brings a command into its usual form: the program without its path, then options, then operands; rm's
// options in one bundle.
func canonical(ws []word) []word {
	if len(ws) == 0 || !ws[0].known {
		return ws
	}
	name := programName(ws[0].text)
	var options, operands []word
	for i, w := range ws[1:] {
		if w.known && w.text == "--" {
			operands = append(operands, ws[1+i:]...)
			break
		}
		if w.known && isOption(w.text) {
			options = append(options, w)
		} else {
			operands = append(operands, w)
		}
	}
	if name == "rm" {
		options = foldRm(options)
	}
	return slices.Concat([]word{literal(name)}, options, operands)
}

// foldRm brings the options of rm into their usual form: -rf first, then the others.
func foldRm(options []word) []word {
	recursive, force := false, false
	var others []word
	for _, o := range options {
		switch long := strings.HasPrefix(o.text, "--"); {
		case long && len(o.text) > 2 && strings.HasPrefix("--recursive", o.text):
			recursive = true
		case long && len(o.text) > 2 && strings.HasPrefix("--force", o.text):
			force = true
		case long:
			others = append(others, o)
		default:
			recursive = recursive || strings.ContainsAny(o.text, "rR")
			force = force || strings.Contains(o.text, "f")
			if rest := strings.NewReplacer("r", "", "R", "", "f", "").Replace(o.text); rest != "-" {
				others = append(others, literal(rest))
			}
		}
	}
	bundle := "-"
	if recursive {
		bundle += "r"
	}
	if force {
		bundle += "f"
	}
	if bundle == "-" {
		return others
	}
	return append([]word{literal(bundle)}, others...)
}

// unknown stands for text that is only known when bash runs the command. The byte is NUL, which no command can contain.
const unknown = '\x00'

// couldMatch reports whether pattern ('*' stands for any text) matches one of the texts that text may become.
func couldMatch(pattern, text string) bool {
	at := strings.IndexByte(text, unknown)
	if at < 0 || !agree(pattern, text[:at]) {
		return at < 0 && plainMatch(pattern, text)
	}
	const most = 1 << 18 // steps; a larger comparison counts as a possible match
	return len(pattern)*len(text) > most || intersects(pattern, text)
}

// agree reports whether the text before the first '*' of a pattern is compatible with begin.
func agree(pattern, begin string) bool {
	for i := range min(len(pattern), len(begin)) {
		if pattern[i] == '*' {
			return true
		}
		if pattern[i] != begin[i] {
			return false
		}
	}
	return true
}

// plainMatch reports whether pattern matches text for all values of the unknown bytes. Only '*' covers an unknown byte.
// plainMatch needs at most len(pattern)*len(text) steps.
func plainMatch(pattern, text string) bool {
	p, t := 0, 0
	star, mark := -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// intersects reports whether some text fits both the pattern (with '*') and the command (with unknown bytes).
func intersects(pattern, text string) bool {
	row, next := make([]bool, len(text)+1), make([]bool, len(text)+1)
	row[0] = true
	for p := 0; ; p++ {
		// Within a row, '*' covers bytes of the text, and unknown bytes may stand for nothing.
		for t := 0; t < len(text); t++ {
			if row[t] && (text[t] == unknown || p < len(pattern) && pattern[p] == '*') {
				row[t+1] = true
			}
		}
		if p == len(pattern) {
			return row[len(text)]
		}
		clear(next)
		for t := 0; t <= len(text); t++ {
			if !row[t] {
				continue
			}
			switch {
			case pattern[p] == '*':
				next[t] = true
			case t < len(text) && text[t] == unknown:
				next[t] = true // the unknown text contains this byte, and perhaps more
			case t < len(text) && text[t] == pattern[p]:
				next[t+1] = true
			}
		}
		row, next = next, row
	}
}

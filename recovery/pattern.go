package recovery

import (
	"path"
	"slices"
	"strings"
)

// pattern is one entry of require_human. It is trimmed and split at blanks. Without '*' its words are those that a
// command begins with. With '*' it is a glob over the command's words, joined by single blanks; '*' is any text, blanks
// too, everything else is itself, and " *" at the end may also be nothing.
//
// Words in front of a lone last "*" (and all words without one) are also compared word by word as programs read them:
// see heads.
type pattern struct {
	text    string   // as it is in the policy
	glob    string   // the words, joined by one blank
	globs   []string // glob, and what it means besides
	literal bool     // no '*'
	all     bool     // nothing but '*'
	// head are the words that a command must begin with; nil when a '*' stands elsewhere than as the last word.
	head []string
}

func newPattern(text string) (pattern, bool) {
	words := strings.Fields(text)
	p := pattern{text: text, glob: strings.Join(words, " "), literal: !strings.Contains(text, "*")}
	p.all = len(words) > 0 && strings.Trim(p.glob, "* ") == ""
	p.globs = []string{p.glob}
	if p.literal {
		p.globs = append(p.globs, p.glob+" *") // the first words
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

// match is how well a pattern fits.
type match int

const (
	no    match = iota
	maybe       // what is only known when bash runs it could make it fit
	sure
)

// of compares the pattern with one command.
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
		// What could be any program at all fits no pattern: opaque says that.
		best = max(best, p.onText(text, part.words[0].known))
	}
	return best
}

// onText compares the pattern with words that are joined by single blanks, or with a whole command as it was written.
// Without guess only what is sure counts.
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

// heads compares the first words of a pattern with a command as programs read them: the program may be called by its
// path, options may stand anywhere, be bundled, abbreviated, and have a value. So "git push" names `/usr/bin/git -C x
// push -f`, and "git reset --hard" `git reset HEAD~1 --hard`.
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

// reading goes through the words of one command.
type reading struct {
	options []string // what must be among the options
	rm      bool     // -R is -r there, --recursive too
	seen    []string // options of the command
	open    bool     // an unknown word may hold more of them
}

// operands follows at once all numbers of pattern words that can have been read: one that follows an option may be its
// value, or not.
func (r *reading) operands(want []string, words []word) match {
	n := len(want)
	certain, possible := make([]bool, n+1), make([]bool, n+1)
	certain[0], possible[0] = true, true
	afterOption, plain := false, false // plain: "--" was there, options are over
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
			if !afterOption { // another operand stands where the pattern has this one
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

// unknown is the step of operands over a word that only bash will know.
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

// hasOptions reports whether every option of the pattern is among those seen.
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
		// GNU programs and git take any prefix of a long name.
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
	// A bundle such as -rf is a set of letters; longer ones are words, as in find's -delete.
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

// plain is the command for a comparison word by word: git without the options in front of its own command.
func (p *Part) plain() []word {
	if len(p.words) > 1 && p.words[0].known && programName(p.words[0].text) == "git" {
		if _, rest, ok := gitGlobals.split(p.words[1:], false); ok {
			return slices.Concat(p.words[:1], rest)
		}
	}
	return p.words
}

// joined are the texts that a glob is compared with: the words as they are, and in their canonical form.
func (p *Part) joined() []string {
	if p.forms == nil {
		p.forms = []string{join(p.words)}
		if c := join(canonical(p.plain())); c != p.forms[0] {
			p.forms = append(p.forms, c)
		}
	}
	return p.forms
}

// canonical gives a command its usual form: the program by its name, options before operands, rm's in one bundle.
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

// foldRm writes rm's options as people do: -rf first, then the others.
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

// unknown stands for text that is only known when bash runs the command. NUL cannot be part of a command.
const unknown = '\x00'

// couldMatch reports whether pattern ('*' is any text) matches one of the texts that text may become.
func couldMatch(pattern, text string) bool {
	at := strings.IndexByte(text, unknown)
	if at < 0 || !agree(pattern, text[:at]) {
		return at < 0 && plainMatch(pattern, text)
	}
	const most = 1 << 18 // steps; what would need more may match
	return len(pattern)*len(text) > most || intersects(pattern, text)
}

// agree reports whether what stands before the first '*' does not contradict a beginning.
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

// plainMatch reports whether pattern matches text whatever its unknown bytes stand for: only '*' covers them. It needs
// at most len(pattern)*len(text) steps.
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

// intersects reports whether there is a text that both the pattern ('*') and the command (unknown) can be.
func intersects(pattern, text string) bool {
	row, next := make([]bool, len(text)+1), make([]bool, len(text)+1)
	row[0] = true
	for p := 0; ; p++ {
		// Inside a row: what '*' eats of the text, and unknown bytes that are empty.
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
				next[t] = true // the unknown text holds this byte, and perhaps more
			case t < len(text) && text[t] == pattern[p]:
				next[t+1] = true
			}
		}
		row, next = next, row
	}
}

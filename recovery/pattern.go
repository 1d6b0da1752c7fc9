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
// word, as programs read them. What a program takes for another word counts as that word, see words.txt.
type pattern struct {
	text    string   // the entry as it is in the policy
	glob    string   // the words, joined by one blank
	globs   []string // glob and its variants: with a final " *", or without it; with other words that do the same
	literal bool     // the pattern has no '*'
	all     bool     // the pattern has nothing but '*'
	// heads are the words of which a command must begin with one list; nil when a '*' is elsewhere than in the last
	// word.
	heads [][]string
	long  []string // the long options among the words
}

func newPattern(text string) (pattern, bool) {
	words := strings.Fields(text)
	p := pattern{text: text, glob: strings.Join(words, " "), literal: !strings.Contains(text, "*")}
	p.all = len(words) > 0 && strings.Trim(p.glob, "* ") == ""
	for _, other := range equals(words) {
		p.addGlob(strings.Join(other, " "))
		p.addGlob(strings.Join(full(other), " "))
	}
	if p.literal && len(words) > 0 {
		p.heads = equals(words)
	} else if n := len(words) - 1; n > 0 && words[n] == "*" && !strings.Contains(strings.Join(words[:n], ""), "*") {
		p.heads = equals(words[:n])
	}
	for _, w := range words {
		if strings.HasPrefix(w, "--") && len(w) > 3 && !strings.ContainsAny(w, "*=") {
			p.long = append(p.long, w)
		}
	}
	return p, len(words) > 0
}

func (p *pattern) addGlob(glob string) {
	if slices.Contains(p.globs, glob) {
		return
	}
	p.globs = append(p.globs, glob)
	if p.literal {
		p.globs = append(p.globs, glob+" *") // the words are the first words of a command
	} else if short, ok := strings.CutSuffix(glob, " *"); ok {
		p.globs = append(p.globs, short)
	}
}

// full returns the words of a pattern with the full words for those that are shortened.
func full(words []string) []string {
	if len(words) == 0 {
		return words
	}
	v := vocabularyOf(foldName(words[0]))
	out := slices.Clone(words)
	for i := range out {
		if v != nil && i > 0 && len(v.full[out[i]]) > 0 {
			out[i] = v.full[out[i]][0]
		}
	}
	return out
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
	for _, head := range p.heads {
		best = max(best, heads(head, part.plain()))
	}
	for _, text := range part.joined(p.long) {
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
	r := reading{options: options, rm: programName(words[0].text) == "rm", vocabulary: vocabularyOf(programName(words[0].text))}
	return r.operands(operands, words[1:])
}

func sameProgram(pattern, name string) bool {
	return pattern == name || !strings.Contains(pattern, "/") && foldName(pattern) == programName(name)
}

// reading compares the words of one command with a pattern.
type reading struct {
	*vocabulary
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
			hit := sameOperand(want[i], w.text) || r.same(want[i], w.text)
			certain[i+1] = certain[i+1] || certain[i] && hit
			possible[i+1] = possible[i+1] || possible[i] && hit
			if !afterOption && !r.everyOperand() { // another operand is at the place of the pattern's next operand
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

// everyOperand reports whether each operand of the program is a verb, as the targets of make are.
func (r *reading) everyOperand() bool { return r.vocabulary != nil && r.anywhere }

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
	if r.vocabulary != nil {
		for other, full := range r.full { // another name of the same option
			if other != want && other[0] == '-' && slices.ContainsFunc(full, func(f string) bool { return slices.Contains(r.full[want], f) }) && r.hasExactly(other, letters) {
				return true
			}
		}
	}
	return r.hasExactly(want, letters)
}

// hasExactly reports whether the command has an option by this name, or by a beginning of it.
func (r *reading) hasExactly(want, letters string) bool {
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

// joined returns the texts that a glob is compared with: the words as they are, the words in canonical form, and those
// with full words for shortened ones. options are the long options of the glob; a beginning of one counts as the option.
func (p *Part) joined(options []string) []string {
	if p.forms == nil {
		p.forms = []string{join(p.words)}
		usual := canonical(p.plain())
		forms := [][]word{usual}
		if len(usual) > 0 && usual[0].known {
			forms = append(forms, vocabularyOf(usual[0].text).spelledOut(usual)...)
			forms = append(forms, vocabularyOf(usual[0].text).spelledOut(p.plain())...)
		}
		for _, f := range forms {
			if c := join(f); !slices.Contains(p.forms, c) {
				p.forms = append(p.forms, c)
			}
		}
	}
	if len(options) == 0 {
		return p.forms
	}
	long := slices.Clone(p.plain())
	for i, w := range long {
		name, value, inline := strings.Cut(w.text, "=")
		at := slices.IndexFunc(options, func(o string) bool { return len(name) > 2 && name != o && strings.HasPrefix(o, name) })
		if !w.known || !strings.HasPrefix(name, "--") || at < 0 {
			continue
		}
		if long[i] = literal(options[at]); inline {
			long[i].text += "=" + value
		}
	}
	return append(slices.Clip(p.forms), join(long), join(canonical(long)))
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

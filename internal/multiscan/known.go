package multiscan

import (
	"fmt"
	"strconv"
	"strings"
)

// Characters that are in no expression and in no literal: they stand between what is
// known of an expression, and between the literals of a set.
const (
	betweenSets     = "\x1e"
	betweenLiterals = "\x1f"
)

// Literals writes down, one a line, what Compile finds out about expressions, which takes
// it some 50 us for each: the expression, its number of instructions, the literals to look
// for, each behind the place of its word (a character from '0' on), and the sets of which
// a text must have a literal besides. Options.Known reads it. Expressions of which it
// cannot be written are left out.
func Literals(exprs []string, maxProgram int) string {
	s, _, err := Compile(exprs, Options{MaxProgram: maxProgram})
	if err != nil {
		return ""
	}
	find := make([][]string, len(exprs))
	for _, e := range s.filter.entries {
		find[e.pattern] = append(find[e.pattern], string(rune('0'+e.at))+e.text)
	}
	var b strings.Builder
	for i, p := range s.patterns {
		if p.program > 0 && len(find[i])+len(p.also) > 0 && !strings.ContainsAny(p.expr, "\n"+betweenSets+betweenLiterals) {
			fmt.Fprintf(&b, "%s\x1e%d\x1e%s\x1e%s\n", p.expr, p.program, strings.Join(find[i], betweenLiterals), p.also)
		}
	}
	return b.String()
}

// readLiterals gives the rest of the line of each expression.
func readLiterals(text string) map[string]string {
	known := make(map[string]string, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		expr, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), betweenSets)
		known[expr] = rest
	}
	return known
}

// take puts an expression into the set of which a line of Literals tells all.
func (c *compiler) take(i int32, known string) error {
	p := &c.set.patterns[i]
	number, rest, _ := strings.Cut(known, betweenSets)
	find, also, ok := strings.Cut(rest, betweenSets)
	var err error
	if p.program, err = strconv.ParseInt(number, 10, 64); err != nil || !ok {
		return fmt.Errorf("compiling patterns: what is known of %q is %q, which is not what Literals gave", p.expr, known)
	}
	p.also = also
	if find == "" {
		c.every(i)
		return nil
	}
	for l := range strings.SplitSeq(find, betweenLiterals) {
		c.set.filter.add(i, l[1:], int(l[0]-'0'))
	}
	return nil
}

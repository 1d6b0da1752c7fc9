package multiscan

import (
	"regexp"
	"regexp/syntax"
	"sync"
)

// cutVariants are a pattern's expressions for windows that do not begin or end
// where their text does: there "^", or "$", cannot match. They are compiled
// when first wanted, which long lines only do.
type cutVariants [4]struct {
	once sync.Once
	re   *regexp.Regexp
}

// on gives the expression for a text that is cut at these ends.
func (p *pattern) on(cut edges) *regexp.Regexp {
	cut &= p.asks
	if cut == 0 {
		return p.whole()
	}
	v := &p.cut[cut]
	v.once.Do(func() {
		tree, err := syntax.Parse(p.expr, syntax.Perl)
		if err == nil {
			without(tree, cut)
			v.re, err = regexp.Compile(tree.String())
		}
		if err != nil {
			v.re = p.whole() // the tree came from this very expression
		}
	})
	return v.re
}

// without replaces the assertions about the ends that are cut by what
// matches nothing.
func without(re *syntax.Regexp, cut edges) {
	if asked(re)&cut != 0 {
		re.Op, re.Sub, re.Rune = syntax.OpNoMatch, nil, nil
		return
	}
	for _, sub := range re.Sub {
		without(sub, cut)
	}
}

// asked gives the ends of the text that this node alone asks for.
func asked(re *syntax.Regexp) edges {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText:
		return cutBefore
	case syntax.OpEndLine, syntax.OpEndText:
		return cutAfter
	}
	return 0
}

func asksFor(re *syntax.Regexp) edges {
	e := asked(re)
	for _, sub := range re.Sub {
		e |= asksFor(sub)
	}
	return e
}

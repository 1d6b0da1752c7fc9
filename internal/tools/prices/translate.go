package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/superloop/superloop/roles/agent/price"
)

func translateOpt(m *sourceMatch) (*price.Rules, error) {
	if m == nil {
		return nil, nil
	}
	out, err := translate(*m)
	return &out, err
}

// translate turns the source's tree into rules any one of which is enough.
func translate(m sourceMatch) (out price.Rules, err error) {
	list := func(one *string) []string {
		if one == nil {
			return nil
		}
		return []string{*one}
	}
	out = price.Rules{Equals: list(m.Equals), Starts: list(m.Starts), Ends: list(m.Ends), Contains: list(m.Contains)}
	switch {
	case m.Regex != nil:
		return translateRegex(*m.Regex)
	case m.And == nil && m.Or == nil && out.Equals == nil && out.Starts == nil && out.Ends == nil && out.Contains == nil:
		return out, errors.New("a match rule of an unknown kind")
	}
	for _, sub := range append(m.And, m.Or...) {
		one, err := translate(sub)
		if err != nil {
			return out, err
		}
		if m.And != nil {
			out.All = append(out.All, one)
			continue
		}
		if one.All != nil && out.All != nil || one.Not != nil && out.Not != nil {
			return out, errors.New("an or of two ands: package price knows one")
		}
		out = price.Rules{Equals: append(out.Equals, one.Equals...), Starts: append(out.Starts, one.Starts...),
			Ends: append(out.Ends, one.Ends...), Contains: append(out.Contains, one.Contains...), Regex: append(out.Regex, one.Regex...),
			All: append(out.All, one.All...), Not: cmp.Or(out.Not, one.Not)}
	}
	return out, nil
}

// translateRegex takes the one thing that Go has not, ^(?!X)REST, apart: not ^X, and ^REST.
func translateRegex(s string) (price.Rules, error) {
	inner, rest, ok := lookahead(s)
	if !ok {
		re, err := regexp.Compile(s)
		if err != nil {
			return price.Rules{}, fmt.Errorf("the pattern %s: %w", s, err)
		}
		return price.Rules{Regex: []*regexp.Regexp{re}}, nil
	}
	no, err := translateRegex("^(?:" + inner + ")")
	all := []price.Rules{{Not: &no}}
	if rest != "" && err == nil {
		var yes price.Rules
		yes, err = translateRegex("^" + rest)
		all = append(all, yes)
	}
	return price.Rules{All: all}, err
}

func lookahead(s string) (inner, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, "^(?!")
	if !ok {
		return "", "", false
	}
	depth, class := 1, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return s[:i], s[i+1:], true
			}
		}
	}
	return "", "", false
}

package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

func translateOpt(m *sourceMatch) (*match, error) {
	if m == nil {
		return nil, nil
	}
	out, err := translate(*m)
	return &out, err
}

// translate turns the source's tree into rules any one of which is enough.
func translate(m sourceMatch) (match, error) {
	switch {
	case m.Equals != nil:
		return match{Equals: []string{*m.Equals}}, nil
	case m.Starts != nil:
		return match{Starts: []string{*m.Starts}}, nil
	case m.Ends != nil:
		return match{Ends: []string{*m.Ends}}, nil
	case m.Contains != nil:
		return match{Contains: []string{*m.Contains}}, nil
	case m.Regex != nil:
		return translateRegex(*m.Regex)
	case m.And != nil:
		var all []match
		for _, sub := range m.And {
			one, err := translate(sub)
			if err != nil {
				return match{}, err
			}
			all = append(all, one)
		}
		return match{All: all}, nil
	case m.Or != nil:
		var joined match
		for _, sub := range m.Or {
			one, err := translate(sub)
			if err != nil {
				return match{}, err
			}
			if joined, err = joined.or(one); err != nil {
				return match{}, err
			}
		}
		return joined, nil
	}
	return match{}, errors.New("a match rule of an unknown kind")
}

// or joins two sets of rules.
func (m match) or(o match) (match, error) {
	m.Equals = append(m.Equals, o.Equals...)
	m.Starts = append(m.Starts, o.Starts...)
	m.Ends = append(m.Ends, o.Ends...)
	m.Contains = append(m.Contains, o.Contains...)
	m.Regex = append(m.Regex, o.Regex...)
	switch {
	case o.All != nil && m.All != nil, o.Not != nil && m.Not != nil:
		return match{}, errors.New("an or of two ands: package price knows one")
	case o.All != nil:
		m.All = o.All
	case o.Not != nil:
		m.Not = o.Not
	}
	return m, nil
}

// only reports whether there is no rule but Equals.
func (m match) only() bool {
	return m.Starts == nil && m.Ends == nil && m.Contains == nil && m.Regex == nil && m.All == nil && m.Not == nil
}

// translateRegex takes the one thing that Go has not, ^(?!X)REST, apart: not ^X,
// and ^REST.
func translateRegex(s string) (match, error) {
	inner, rest, ok := lookahead(s)
	if !ok {
		if _, err := regexp.Compile(s); err != nil {
			return match{}, fmt.Errorf("the pattern %s: %w", s, err)
		}
		return match{Regex: []string{s}}, nil
	}
	no, err := translateRegex("^(?:" + inner + ")")
	if err != nil {
		return match{}, err
	}
	all := []match{{Not: &no}}
	if rest != "" {
		yes, err := translateRegex("^" + rest)
		if err != nil {
			return match{}, err
		}
		all = append(all, yes)
	}
	return match{All: all}, nil
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

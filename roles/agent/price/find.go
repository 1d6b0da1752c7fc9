package price

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// provider is one who sells models.
type provider struct {
	id string
	// named are other words for it, and makes the models that it makes itself;
	// nil: none.
	named, makes *rules
	// fallback are those whose models it sells at their price, when it has none
	// of its own.
	fallback []string
	models   []*model // the first that matches counts
}

type model struct {
	id    string
	is    rules
	rates []rate // the last that holds counts, else the first; none: not known
}

func (m *model) at(at time.Time) (rate, bool) {
	for _, r := range slices.Backward(m.rates) {
		if r.holds(at) {
			return r, true
		}
	}
	if len(m.rates) == 0 {
		return rate{}, false
	}
	return m.rates[0], true
}

// rules match a name in lower case when any of them does.
type rules struct {
	equals, starts, ends, contains []string
	regex                          []*regexp.Regexp
	all                            []rules
	not                            *rules
}

func (r *rules) match(name string) bool {
	some := func(list []string, has func(string, string) bool) bool {
		return slices.ContainsFunc(list, func(s string) bool { return has(name, s) })
	}
	switch {
	case r == nil:
		return false
	case slices.Contains(r.equals, name), some(r.starts, strings.HasPrefix), some(r.ends, strings.HasSuffix), some(r.contains, strings.Contains):
		return true
	case slices.ContainsFunc(r.regex, func(re *regexp.Regexp) bool { return re.MatchString(name) }):
		return true
	case len(r.all) > 0 && !slices.ContainsFunc(r.all, func(sub rules) bool { return !sub.match(name) }):
		return true
	}
	return r.not != nil && !r.not.match(name)
}

// find gives what a name may stand for: one model of a named provider, or of ""
// all of those that are as likely.
func (t *Table) find(id, name string) []*model {
	if name == "" {
		return nil
	}
	var out []*model
	add := func(m *model) {
		if m != nil {
			out = append(out, m)
		}
	}
	before, after, slash := strings.Cut(name, "/")
	prefix := (*provider)(nil)
	if slash {
		prefix = t.provider(before)
	}
	if id != "" {
		p := t.provider(id)
		if p == nil {
			return nil
		}
		if add(t.sold(p, name)); len(out) == 0 && p == prefix {
			add(t.sold(p, after))
		}
		return out
	}
	if !slash {
		for _, p := range t.providers {
			if p.makes.match(name) {
				add(p.model(name))
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	if prefix != nil {
		add(t.sold(prefix, after))
	}
	for _, p := range t.providers {
		add(p.model(name))
	}
	return out
}

// provider finds one by its id or another word for it.
func (t *Table) provider(word string) *provider {
	for _, p := range t.providers {
		if p.id == word {
			return p
		}
	}
	for _, p := range t.providers {
		if p.named.match(word) {
			return p
		}
	}
	return nil
}

// sold is a provider's own model, else that of one whose models it sells.
func (t *Table) sold(p *provider, name string) *model {
	names := []string{name}
	if dashed := dashDate(name); dashed != name {
		names = append(names, dashed)
	}
	for _, name := range names {
		if m := p.first(name); m != nil {
			return m
		}
		for _, id := range p.fallback {
			for _, other := range t.providers {
				if other.id != id {
					continue
				}
				if m := other.first(name); m != nil {
					return m
				}
			}
		}
	}
	return nil
}

// model is the provider's own.
func (p *provider) model(name string) *model {
	if m := p.first(name); m != nil {
		return m
	}
	if dashed := dashDate(name); dashed != name {
		return p.first(dashed)
	}
	return nil
}

func (p *provider) first(name string) *model {
	for _, m := range p.models {
		if m.is.match(name) {
			return m
		}
	}
	return nil
}

// dashDate writes the dates in a name with dashes, as some providers do and some
// CLIs do not: -20250807 is -2025-08-07.
func dashDate(name string) string {
	const digits = 8
	for i := 0; i+1+digits <= len(name); i++ {
		end := i + 1 + digits
		if name[i] != '-' || end < len(name) && name[end] != '-' && name[end] != ':' {
			continue
		}
		date := name[i+1 : end]
		at, err := time.Parse("20060102", date)
		if err != nil || at.Year() < 2000 || at.Year() > 2099 {
			continue
		}
		name = name[:i+1] + at.Format(time.DateOnly) + name[end:]
	}
	return name
}

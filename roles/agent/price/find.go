package price

import (
	"slices"
	"strings"
	"time"
)

// find gives what a name may stand for: one model of a named provider, or of "" all of those that are as likely.
func (t *Table) find(id, name string) (out []*Model) {
	if name == "" {
		return nil
	}
	add := func(m *Model) {
		if m != nil {
			out = append(out, m)
		}
	}
	var prefix *Provider
	before, after, slash := strings.Cut(name, "/")
	if slash {
		prefix = t.provider(before)
	}
	if id != "" {
		p := t.provider(id)
		if add(t.sold(p, name, true)); len(out) == 0 && p == prefix {
			add(t.sold(p, after, true))
		}
		return out
	}
	for _, p := range t.providers {
		if !slash && p.Makes.match(name) {
			add(t.sold(p, name, false))
		}
	}
	if len(out) > 0 {
		return out
	}
	add(t.sold(prefix, after, true))
	for _, p := range t.providers {
		add(t.sold(p, name, false))
	}
	return out
}

// provider finds one by its id or another word for it.
func (t *Table) provider(word string) *Provider {
	i := slices.IndexFunc(t.providers, func(p *Provider) bool { return p.ID == word })
	if i < 0 {
		i = slices.IndexFunc(t.providers, func(p *Provider) bool { return p.Named.match(word) })
	}
	if i < 0 {
		return nil
	}
	return t.providers[i]
}

// sold is a provider's own model, else, with others, that of one whose models it sells.
func (t *Table) sold(p *Provider, name string, others bool) *Model {
	if p == nil {
		return nil
	}
	sellers := []*Provider{p}
	for _, id := range p.Fallback {
		if other := t.provider(id); others && other != nil {
			sellers = append(sellers, other)
		}
	}
	for _, name := range []string{name, dashDate(name)} {
		for _, p := range sellers {
			if i := slices.IndexFunc(p.Models, func(m *Model) bool { return m.Is.match(name) }); i >= 0 {
				return p.Models[i]
			}
		}
	}
	return nil
}

// dashDate writes the dates in a name with dashes, as some providers do and some CLIs do not: -20250807 is -2025-08-07.
func dashDate(name string) string {
	const digits = 8
	for i := 0; i+1+digits <= len(name); i++ {
		end := i + 1 + digits
		if name[i] != '-' || end < len(name) && name[end] != '-' && name[end] != ':' {
			continue
		}
		if at, err := time.Parse("20060102", name[i+1:end]); err == nil && at.Year() >= 2000 && at.Year() <= 2099 {
			name = name[:i+1] + at.Format(time.DateOnly) + name[end:]
		}
	}
	return name
}

package price

import (
	"slices"
	"strings"
	"time"
)

// find gives what a name may stand for: one model of a named provider, or of "" all of those that are as likely.
func (t *Table) find(id, name string) []*Model {
	if name == "" {
		return nil
	}
	var out []*Model
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
		if add(t.sold(p, name)); len(out) == 0 && p == prefix {
			add(t.sold(p, after))
		}
		return out
	}
	if !slash {
		for _, p := range t.providers {
			if p.Makes.match(name) {
				add(p.model(name))
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	add(t.sold(prefix, after))
	for _, p := range t.providers {
		add(p.model(name))
	}
	return out
}

// provider finds one by its id or another word for it.
func (t *Table) provider(word string) *Provider {
	for _, is := range []func(*Provider) bool{
		func(p *Provider) bool { return p.ID == word }, func(p *Provider) bool { return p.Named.match(word) },
	} {
		if i := slices.IndexFunc(t.providers, is); i >= 0 {
			return t.providers[i]
		}
	}
	return nil
}

// sold is a provider's own model, else that of one whose models it sells.
func (t *Table) sold(p *Provider, name string) *Model {
	if p == nil {
		return nil
	}
	for _, name := range []string{name, dashDate(name)} {
		if m := p.first(name); m != nil {
			return m
		}
		for _, id := range p.Fallback {
			if other := t.provider(id); other != nil {
				if m := other.first(name); m != nil {
					return m
				}
			}
		}
	}
	return nil
}

// model is the provider's own.
func (p *Provider) model(name string) *Model {
	if m := p.first(name); m != nil {
		return m
	}
	return p.first(dashDate(name))
}

func (p *Provider) first(name string) *Model {
	if i := slices.IndexFunc(p.Models, func(m *Model) bool { return m.Is.match(name) }); i >= 0 {
		return p.Models[i]
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

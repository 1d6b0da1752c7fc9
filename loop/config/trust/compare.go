package trust

import (
	"maps"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/redact"
)

// Change is one difference between two Sections. Path is a JSON pointer, but
// that a loop stands in it under its id, as in config.Change. From and To are
// whole values, or one element of a set that goes (To is nil) or comes (From is
// nil); secrets are redact.Mark. Why says what the change does.
type Change struct {
	Path string `json:"path"`
	From any    `json:"from"`
	To   any    `json:"to"`
	Why  string `json:"why"`
}

// Diff is what leads from one Section to another, each list sorted by path.
type Diff struct {
	Tightening []Change `json:"tightening"`
	Loosening  []Change `json:"loosening"`
}

// Empty reports whether the two Sections are the same.
func (d Diff) Empty() bool { return len(d.Tightening)+len(d.Loosening) == 0 }

// Compare gives what leads from the pinned Section to the one of now. What is
// not understood is a loosening.
func Compare(pinned, now Section) Diff {
	_, d := join(pinned, now)
	return d
}

// Effective is the Section that is in force while the pin and the file differ:
// the file's when loosening is allowed, otherwise the pinned one with every
// tightening of the file.
func Effective(pinned, now Section, allowLoosening bool) Section {
	if allowLoosening {
		return now
	}
	in, _ := join(pinned, now)
	return in
}

// join goes through two Sections once and makes both answers, so that what is
// said is what is done.
func join(pinned, now Section) (Section, Diff) {
	in := Section{Loops: map[string]Loop{}, Webhooks: map[string]any{}, Runners: map[string]Runner{}}
	j := &joiner{p: pinned, n: now, in: &in, d: Diff{Tightening: []Change{}, Loosening: []Change{}}}
	in.Recovery = j.policy("/recovery", pinned.Recovery, now.Recovery)
	j.runnersOfBoth()
	for _, id := range sortedKeys(pinned.Loops, now.Loops) {
		p, had := pinned.Loops[id]
		n, has := now.Loops[id]
		at := "/loops" + pointer(id)
		switch {
		case !had:
			j.looser(at, nil, n.shown(), "a loop that nobody trusted would run")
		case !has:
			j.tighter(at, p.shown(), nil, "the loop is gone")
		default:
			l := j.loop(at, p, n)
			if p.Recovery != nil || n.Recovery != nil {
				l.Recovery = in.Recovery.unless(j.policy(at+"/recovery", pinned.Policy(id), now.Policy(id)))
			}
			in.Loops[id] = l
		}
	}
	j.runnersOfOne()
	for _, k := range sortedKeys(pinned.Webhooks, now.Webhooks) {
		v, had := pinned.Webhooks[k]
		if had {
			in.Webhooks[k] = v
		}
		if !same(v, now.Webhooks[k]) {
			j.looser("/webhooks"+pointer(k), masked(v), masked(now.Webhooks[k]), "news would go elsewhere, or nowhere")
		}
	}
	in.Escalation = j.escalation("/escalation", pinned.Escalation, now.Escalation)
	for _, list := range [][]Change{j.d.Tightening, j.d.Loosening} {
		slices.SortStableFunc(list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	}
	return in, j.d
}

// masked hides a value; an absent one is nil.
func masked(v any) any {
	if v == nil {
		return nil
	}
	return redact.Mark
}

// joiner collects what is in force, and the changes.
type joiner struct {
	p, n Section
	in   *Section
	d    Diff
}

func (j *joiner) tighter(path string, from, to any, why string) {
	j.d.Tightening = append(j.d.Tightening, Change{path, from, to, why})
}

func (j *joiner) looser(path string, from, to any, why string) {
	j.d.Loosening = append(j.d.Loosening, Change{path, from, to, why})
}

// value compares one key by its order; nil, or values that the order does not
// know, leave the pinned one.
func (j *joiner) value(path string, o order, pinned, now any, less, more string) any {
	if same(pinned, now) {
		return pinned
	}
	if o != nil {
		if in, tighter, looser, ok := o.meet(pinned, now); ok {
			for _, s := range tighter {
				j.tighter(path, s.from, s.to, less)
			}
			for _, s := range looser {
				j.looser(path, s.from, s.to, more)
			}
			return in
		}
	}
	j.looser(path, pinned, now, more)
	return pinned
}

// policy compares two policies key by key.
func (j *joiner) policy(at string, pinned, now Policy) Policy {
	p, n := pinned.flat(), now.flat()
	in := map[string]any{}
	known := map[string]bool{}
	for _, k := range keys() {
		known[k.name] = true
		a, b := k.def, k.def
		if v, ok := p[k.name]; ok {
			a = v
		}
		if v, ok := n[k.name]; ok {
			b = v
		}
		in[k.name] = j.value(at+"/"+k.name, k.order, a, b, k.less, k.more)
	}
	pe, ne := entriesOf(p), entriesOf(n)
	if (pe != nil || p[keyEntries] == nil) && (ne != nil || n[keyEntries] == nil) {
		known[keyEntries] = true
		if entries := j.entries(at, in, side{p, pe}, side{n, ne}); len(entries) > 0 {
			in[keyEntries] = entries
		}
	}
	for _, name := range sortedKeys(p, n) {
		if known[name] {
			continue
		}
		v, had := p[name]
		if had {
			in[name] = v
		}
		j.value(at+"/"+name, nil, v, n[name], "", "superloop cannot tell what this key does")
	}
	return nest(in).normal()
}

// side is one of two policies with its entries.
type side struct {
	flat    map[string]any
	entries map[string]map[string]any
}

// entries compares what is special about single commands; in is what is in
// force of the other keys.
func (j *joiner) entries(at string, in map[string]any, p, n side) map[string]any {
	out := map[string]any{}
	for _, name := range sortedKeys(p.entries, n.entries) {
		a, b := p.entries[name], n.entries[name]
		path := at + "/" + keyEntries + pointer(name)
		e := map[string]any{}
		e[keyNetwork] = j.value(path+"/"+keyNetwork, ladder{"none", "full"}, networkOf(p.flat, a), networkOf(n.flat, b),
			"the command has no network", "the command would have the network")
		for _, k := range sortedKeys(a, b) {
			if k == keyNetwork {
				continue
			}
			v, had := a[k]
			if had {
				e[k] = v
			}
			j.value(path+pointer(k), nil, v, b[k], "", "superloop cannot tell what this key does")
		}
		if e[keyNetwork] == in[keyNetwork] && len(e) == 1 {
			continue
		}
		out[name] = e
	}
	return out
}

// pointer is one token of a JSON pointer.
func pointer(token string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}

// shown is a loop as a change shows it.
func (l Loop) shown() any { return shown(l.bare()) }

// shown is a runner as a change shows it, the values of its variables masked.
func (r Runner) shown() any {
	r.Env = maps.Clone(r.Env)
	for name := range r.Env {
		r.Env[name] = redact.Mark
	}
	return shown(r)
}

// shown is a value as plain JSON values.
func shown(v any) any {
	plain, err := decode(canonical(v))
	if err != nil {
		panic("trust: reading a section back: " + err.Error())
	}
	return plain
}

package trust

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Policy is a recovery section in normal form: what one section or two laid over each other amount to. A key that has
// its default is left out, sets are sorted and hold each value once, tests are left out. nil is "the Section's own".
type Policy map[string]any

// UnmarshalJSON keeps numbers as they are written.
func (p *Policy) UnmarshalJSON(data []byte) (err error) {
	if *p = nil; string(data) != "null" {
		*p, err = object(data)
	}
	return err
}

const (
	keyEnabled = "enabled"
	keyEntries = "entries"
	keyNetwork = "network"
	keySandbox = "sandbox"
	keyTests   = "tests"
	keyRoots   = keySandbox + "/read_roots"
)

// key is one key of a policy that is understood.
type key struct {
	name       string // the key, "sandbox/" before those of the sandbox
	def        any    // the value that the absent key has
	order      order
	less, more string // less and more say what a tightening and a loosening do
}

// keys are the keys that are understood, with the schema's defaults, but for enabled: that of an absent section.
func keys() []key {
	none := []any{}
	return []key{
		{keyEnabled, false, ranked(false, true), "nothing runs without an operator", "commands may run without an operator"},
		{"auto_approve", none, sets(fewer), "the command no longer runs without an operator", "the command would run without an operator"},
		{"require_human", []any{"*"}, sets(more), "what it matches needs an operator", "what it matches would no longer need an operator"},
		{"strict_require_human", false, ranked(true, false), "patterns win over listed commands", "listed commands would win over patterns"},
		{"on_unknown", "escalate", ranked("deny", "escalate", "allow"), "commands that no list names are treated more strictly", "commands that no list names would be treated more freely"},
		{"max_auto_recoveries_per_run", json.Number("3"), lower, "fewer commands run without an operator in one run", "more commands would run without an operator in one run"},
		{"cooldown_seconds", json.Number("60"), higher, "more time passes between two commands", "less time would pass between two commands"},
		{"on_cooldown", "escalate", ranked("escalate", "wait"), "an operator is asked during the cooldown", "a command would run after the cooldown without an operator"},
		{"max_timeout_seconds", json.Number("900"), lower, "commands may run for a shorter time", "commands could run for a longer time"},
		{"first_aid", true, ranked(false, true), "superloop would run no remedy that it finds itself", "superloop could run remedies that it finds itself"},
		{"allow_privileged", false, ranked(false, true), "no listed command may use sudo and its kin", "listed commands could use sudo and its kin"},
		{"allow_other_devices", false, ranked(false, true), "commands stay on the repository's file system", "commands could run on other file systems"},
		{"guard", "scripts", ranked("strict", "scripts", "off"), "more changes of what a command reads need an operator", "fewer changes of what a command reads would need an operator"},
		{keyNetwork, "full", ranked("none", "full"), "commands have no network", "commands would have the network"},
		{"env_passthrough", none, sets(fewer), "commands no longer get the variable", "commands would get the variable"},
		{keySandbox + "/required", false, ranked(true, false), "without a sandbox nothing runs by itself", "commands could run without a sandbox"},
		{keyRoots, none, sets(roots), "commands can read less", "commands could read more"},
		{keySandbox + "/caches", none, sets(fewer), "commands can no longer write there", "commands could write there"},
	}
}

// policyOf is the normal form of a section's keys; present says whether there is a section at all.
func policyOf(raw map[string]any, present bool) Policy {
	p := Policy{}
	maps.Copy(p, raw)
	delete(p, keyTests)
	if _, said := p[keyEnabled]; !said && present {
		p[keyEnabled] = true
	}
	return p.normal()
}

// normal leaves the defaults out and sorts the sets.
func (p Policy) normal() Policy {
	flat := p.flat()
	for _, k := range keys() {
		v, ok := flat[k.name]
		if !ok {
			continue
		}
		if set, is := stringsOf(v); is {
			set = distinct(set)
			if k.name == keyRoots && len(set) > 1 {
				set = less(set, nowhere)
			}
			v = anys(set)
			flat[k.name] = v
		}
		if same(v, k.def) {
			delete(flat, k.name)
		}
	}
	if entries := entriesOf(flat); entries != nil {
		kept, everywhere := map[string]any{}, networkOf(flat, nil)
		for name, e := range entries {
			if e = maps.Clone(e); e[keyNetwork] == everywhere {
				delete(e, keyNetwork)
			}
			if len(e) > 0 {
				kept[name] = e
			}
		}
		if flat[keyEntries] = kept; len(kept) == 0 {
			delete(flat, keyEntries)
		}
	}
	return nest(flat)
}

// flat lifts the keys of the sandbox to the top.
func (p Policy) flat() map[string]any {
	flat := map[string]any{}
	maps.Copy(flat, p)
	if sandbox, ok := p[keySandbox].(map[string]any); ok {
		delete(flat, keySandbox)
		for k, v := range sandbox {
			flat[keySandbox+"/"+k] = v
		}
	}
	return flat
}

// nest is the reverse of flat.
func nest(flat map[string]any) Policy {
	p := Policy{}
	for k, v := range flat {
		sub, ok := strings.CutPrefix(k, keySandbox+"/")
		if !ok {
			p[k] = v
			continue
		}
		box, _ := p[keySandbox].(map[string]any)
		if box == nil {
			box = map[string]any{}
			p[keySandbox] = box
		}
		box[sub] = v
	}
	return p
}

// entriesOf gives the entries section of flat keys, nil unless it has the form that is understood.
func entriesOf(flat map[string]any) map[string]map[string]any {
	all, ok := flat[keyEntries].(map[string]any)
	if !ok {
		return nil
	}
	out := map[string]map[string]any{}
	for name, v := range all {
		e, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		out[name] = e
	}
	return out
}

// networkOf is the network of an entry, or of every command when it is nil.
func networkOf(flat, entry map[string]any) any {
	for _, m := range []map[string]any{entry, flat} {
		if v, ok := m[keyNetwork]; ok {
			return v
		}
	}
	return "full"
}

// unless is other, or nil when it is the same policy.
func (p Policy) unless(other Policy) Policy {
	if same(p, other) {
		return nil
	}
	return other
}

// Full is the policy with every default that is known written out, tests left out.
func (p Policy) Full() map[string]any { return nest(p.full()) }

func (p Policy) full() map[string]any {
	flat := map[string]any{}
	for _, k := range keys() {
		flat[k.name] = k.def
	}
	maps.Copy(flat, p.flat())
	return flat
}

// merge lays over on under as a loop's section is laid over the config's: objects key by key, anything else replaced.
func merge(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	for k, v := range over {
		a, isA := out[k].(map[string]any)
		b, isB := v.(map[string]any)
		if isA && isB {
			out[k] = merge(a, b)
		} else {
			out[k] = v
		}
	}
	return out
}

// stringsOf reads a list of strings.
func stringsOf(v any) ([]string, bool) {
	in, ok := v.([]any)
	out := make([]string, 0, len(in))
	for _, e := range in {
		s, is := e.(string)
		out, ok = append(out, s), ok && is
	}
	return out, ok
}

func anys(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// sortedKeys are the names of two objects, each once.
func sortedKeys[A, B any](a map[string]A, b map[string]B) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}

// order says which of two values of a key is tighter; nil when they cannot be compared.
type order func(pinned, now any) *verdict

// verdict is the loosest value that is looser neither than the pinned one nor than the new one, and what leads from the
// pinned one to it (tighter) and from it to the new one (looser).
type verdict struct {
	in              any
	tighter, looser []step
}

// step is a value for another, or an element of a set that comes or goes, the other side being nil.
type step struct{ from, to any }

// ranked lists the values of a key, the tightest first.
func ranked(values ...any) order {
	return func(pinned, now any) *verdict {
		i, j := slices.Index(values, pinned), slices.Index(values, now)
		if i < 0 || j < 0 {
			return nil
		}
		return whole(pinned, now, j < i)
	}
}

// whole is a change of a value that is taken or held as one.
func whole(pinned, now any, tightens bool) *verdict {
	if tightens {
		return &verdict{now, []step{{pinned, now}}, nil}
	}
	return &verdict{pinned, nil, []step{{pinned, now}}}
}

// lower: the lower whole number is tighter. higher: the higher one.
func lower(pinned, now any) *verdict  { return number(pinned, now, -1) }
func higher(pinned, now any) *verdict { return number(pinned, now, 1) }

func number(pinned, now any, tighter int) *verdict {
	p, okP := integer(pinned)
	n, okN := integer(now)
	if !okP || !okN {
		return nil
	}
	return whole(pinned, now, cmp.Compare(n, p) == tighter)
}

func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	i, err := n.Int64()
	return i, ok && err == nil
}

// sets is the order of two sets by what is in both, only in the pinned one (gone), only in the new one (came); sorted.
func sets(of func(both, gone, came []string) *verdict) order {
	return func(pinned, now any) *verdict {
		x, okX := stringsOf(pinned)
		y, okY := stringsOf(now)
		if !okX || !okY {
			return nil
		}
		x, y = distinct(x), distinct(y)
		in := func(list []string, want bool) func(string) bool {
			return func(s string) bool { _, found := slices.BinarySearch(list, s); return found != want }
		}
		return of(slices.DeleteFunc(slices.Clone(x), in(y, true)), slices.DeleteFunc(slices.Clone(x), in(y, false)), slices.DeleteFunc(y, in(x, false)))
	}
}

// fewer: a set that grants; what is in both is in force.
func fewer(both, gone, came []string) *verdict {
	return &verdict{anys(both), went(gone), arrived(came)}
}

// more: a set that forbids; what is in either is in force.
func more(both, gone, came []string) *verdict {
	return &verdict{anys(distinct(slices.Concat(both, gone, came))), arrived(came), went(gone)}
}

// nowhere is a root that grants nothing: all can read it. Alone it is the empty set; beside others normal leaves it out.
const nowhere = "/dev/null"

// roots: a set that grants, and everything when it is empty. Paths are compared as text: one may be a link to anywhere.
func roots(both, gone, came []string) *verdict {
	switch {
	case len(both)+len(gone) == 0: // everything was
		return whole([]any{}, anys(came), true)
	case len(both)+len(came) == 0: // everything would be
		return whole(anys(gone), []any{}, false)
	case len(both) == 0:
		both = []string{nowhere}
	}
	return &verdict{anys(both), went(less(gone, nowhere)), arrived(less(came, nowhere))}
}

// rights is the order of permissions. Between read-only and full, workspace and "" (the command decides) cannot compare.
func rights(pinned, now any) *verdict {
	return cmp.Or(ranked("read-only", "workspace", "full")(pinned, now), ranked("read-only", "", "full")(pinned, now))
}

// less is the list without one value.
func less(list []string, value string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == value })
}

func went(list []string) (out []step) {
	for _, s := range list {
		out = append(out, step{s, nil})
	}
	return out
}

func arrived(list []string) (out []step) {
	for _, s := range list {
		out = append(out, step{nil, s})
	}
	return out
}

package trust

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Policy is a recovery section in normal form: one section, or the result of two laid over each other. Keys with their
// default value and tests are left out. Sets are sorted and hold each value once. In a Loop, nil means that the policy
// of the Section applies.
type Policy map[string]any

// UnmarshalJSON decodes numbers as json.Number, so that they stay as they are written.
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

// key is one key of a policy that superloop understands.
type key struct {
	name       string // the name; keys of the sandbox section begin with "sandbox/"
	def        any    // the value of an absent key
	order      order
	less, more string // the effects of a tightening and of a loosening
}

// keys returns the keys that superloop understands, with the defaults of the schema. The default of enabled is false,
// as in a file without a recovery section.
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
		{"ask_below_confidence", "medium", ranked("high", "medium", "low"), "an operator is asked about more proposals that are unsure", "more unsure proposals would run without an operator"},
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

// policyOf returns the normal form of the keys of a section. present says whether the file has the section.
func policyOf(raw map[string]any, present bool) Policy {
	p := Policy{}
	maps.Copy(p, raw)
	delete(p, keyTests)
	if _, said := p[keyEnabled]; !said && present {
		p[keyEnabled] = true
	}
	return p.normal()
}

// normal leaves out the defaults and sorts the sets.
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

// flat returns the policy with the keys of the sandbox section at the top level, under names with the prefix
// "sandbox/".
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

// nest reverses flat.
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

// entriesOf returns the entries section of flat keys, or nil if it does not have the expected form.
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

// networkOf returns the network of an entry. If the entry is nil or names none, it returns the network of all commands.
func networkOf(flat, entry map[string]any) any {
	for _, m := range []map[string]any{entry, flat} {
		if v, ok := m[keyNetwork]; ok {
			return v
		}
	}
	return "full"
}

// unless returns other, or nil if p and other are equal.
func (p Policy) unless(other Policy) Policy {
	if same(p, other) {
		return nil
	}
	return other
}

// Full returns the policy with the default of every known key written out, without tests.
func (p Policy) Full() map[string]any { return nest(p.full()) }

func (p Policy) full() map[string]any {
	flat := map[string]any{}
	for _, k := range keys() {
		flat[k.name] = k.def
	}
	maps.Copy(flat, p.flat())
	return flat
}

// merge lays over on under, as a loop's section is laid over the top-level one. It merges objects key by key and
// replaces any other value.
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

// stringsOf converts v to a list of strings and reports whether v is one.
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

// sortedKeys returns the keys of two maps, sorted and without duplicates.
func sortedKeys[A, B any](a map[string]A, b map[string]B) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	return slices.Compact(names)
}

// order compares the pinned and the present value of a key. It returns nil when it cannot compare them.
type order func(pinned, now any) *verdict

// verdict is the result of a comparison. in is the value in force: the loosest one that is neither looser than the
// pinned value nor looser than the new one. tighter holds the steps from the pinned value to in, looser those from in
// to the new value.
type verdict struct {
	in              any
	tighter, looser []step
}

// step is a change from one value to another, or an element of a set that comes or goes. For an element, the other side
// is nil.
type step struct{ from, to any }

// ranked returns the order of a key with a list of values, the tightest first.
func ranked(values ...any) order {
	return func(pinned, now any) *verdict {
		i, j := slices.Index(values, pinned), slices.Index(values, now)
		if i < 0 || j < 0 {
			return nil
		}
		return whole(pinned, now, j < i)
	}
}

// whole returns the verdict on a value that changes as one: the new value is in force if the change tightens, otherwise
// the pinned one.
func whole(pinned, now any, tightens bool) *verdict {
	if tightens {
		return &verdict{now, []step{{pinned, now}}, nil}
	}
	return &verdict{pinned, nil, []step{{pinned, now}}}
}

// lower and higher are the orders of whole numbers. For lower the lower number is tighter, for higher the higher one.
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

// sets returns an order of sets. It calls of with the elements in both sets, those only in the pinned set (gone) and
// those only in the new set (came), each sorted.
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

// fewer compares sets whose elements each permit something. The elements in both sets are in force.
func fewer(both, gone, came []string) *verdict {
	return &verdict{anys(both), went(gone), arrived(came)}
}

// more compares sets whose elements each forbid something. The elements of either set are in force.
func more(both, gone, came []string) *verdict {
	return &verdict{anys(distinct(slices.Concat(both, gone, came))), arrived(came), went(gone)}
}

// nowhere is a directory root that permits nothing, since every process can read it. Alone it stands for "no root".
// normal leaves it out when other roots are there.
const nowhere = "/dev/null"

// roots compares sets of directories. Each element permits reading, and an empty set permits all directories. roots
// compares paths as text, because a path may be a link to any directory.
func roots(both, gone, came []string) *verdict {
	switch {
	case len(both)+len(gone) == 0: // the pinned set permits everything
		return whole([]any{}, anys(came), true)
	case len(both)+len(came) == 0: // the new set permits everything
		return whole(anys(gone), []any{}, false)
	case len(both) == 0:
		both = []string{nowhere}
	}
	return &verdict{anys(both), went(less(gone, nowhere)), arrived(less(came, nowhere))}
}

// rights is the order of permissions. workspace and "" (the command decides) both lie between read-only and full, and
// cannot be compared with each other.
func rights(pinned, now any) *verdict {
	return cmp.Or(ranked("read-only", "workspace", "full")(pinned, now), ranked("read-only", "", "full")(pinned, now))
}

// less returns the list without one value.
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

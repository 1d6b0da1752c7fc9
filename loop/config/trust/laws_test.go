package trust

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// drawPolicy draws from every key that is understood, those included that no
// schema has yet.
func drawPolicy(t *rapid.T) Policy {
	r := drawRecovery(t)
	put(t, r, "allow_other_devices", true, false)
	box := obj{}
	put(t, box, "required", true, false)
	putList(t, box, "read_roots", []string{"/a", "/a/b", "/c", nowhere})
	putList(t, box, "caches", []string{"/a", "/b"})
	put(t, r, "sandbox", box)
	entries := obj{}
	for _, name := range some(t, []string{"a", "b"}, "entries") {
		e := obj{}
		put(t, e, "network", "full", "none")
		entries[name] = e
	}
	put(t, r, "entries", entries)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := object(data)
	if err != nil {
		t.Fatal(err)
	}
	return policyOf(raw, true)
}

// The laws of understood keys: what is in force is looser neither than the pin
// nor than the file, whoever of the two is which, and nothing tighter would be
// said to be in force than must be.
func TestPolicyLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, n := Section{Recovery: drawPolicy(t)}, Section{Recovery: drawPolicy(t)}
		in := Effective(p, n)
		if l := Compare(p, in).Loosening; len(l) > 0 {
			t.Fatalf("looser than the pin: %v", l)
		}
		if l := Compare(n, in).Loosening; len(l) > 0 {
			t.Fatalf("looser than the file: %v", l)
		}
		if other := Effective(n, p); other.Digest() != in.Digest() {
			t.Fatalf("the other way round it is another one: %v", Compare(in, other))
		}
		d, back := Compare(p, n), Compare(n, p)
		if len(d.Tightening) != len(back.Loosening) || len(d.Loosening) != len(back.Tightening) {
			t.Fatalf("there %v, and back %v", d, back)
		}
		if d.Empty() != (p.Digest() == n.Digest()) {
			t.Fatalf("the digests say otherwise than %v", d)
		}
		if one, again := canonical(in.Recovery), canonical(in.Recovery.normal()); string(one) != string(again) {
			t.Fatalf("it is not in normal form: %s\n%s", one, again)
		}
	})
}

// What is in force of three is that of two of them and the third, in any order:
// so a file may change many times, and it never matters which state was seen.
func TestEffectiveDoesNotDependOnTheWay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := Section{Recovery: drawPolicy(t)}, Section{Recovery: drawPolicy(t)}, Section{Recovery: drawPolicy(t)}
		one, other := Effective(Effective(a, b), c), Effective(a, Effective(b, c))
		if one.Digest() != other.Digest() {
			t.Fatalf("%v", Compare(one, other))
		}
	})
}

// Whatever stands in a pin is refused, or is what its digest says.
func FuzzPin(f *testing.F) {
	p := pinOf("one")
	p.Digest = p.Section.Digest()
	good, err := json.Marshal(file{version, p})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"section":{"recovery":null},"digest":"","at":"2026-01-02T03:04:05Z","how":"trusted"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parse(data)
		if err == nil && p.Section.Digest() != p.Digest {
			t.Fatalf("%+v", p)
		}
		if err == nil {
			Compare(p.Section, pinOf("two").Section) // whatever it says, it says it
		}
	})
}

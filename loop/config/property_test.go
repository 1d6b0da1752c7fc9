package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// samples are the configurations that the property tests start from.
func samples(t testing.TB) [][]byte {
	t.Helper()
	var out [][]byte
	for _, pattern := range []string{"../../examples/config.json", "testdata/original/*.json", "testdata/warn/*.json", "testdata/bad/*.json"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, data)
		}
	}
	return out
}

// holds is what every answer of LoadBytes promises, whatever it was given.
func holds(t interface{ Fatalf(string, ...any) }, data []byte) {
	c, err := LoadBytes(home, data)
	if err != nil {
		bad, ok := errors.AsType[*Error](err)
		if !ok || c != nil || len(bad.Problems) == 0 {
			t.Fatalf("%v, %v", c, err)
		}
		for _, p := range bad.Problems {
			if p.Line < 1 || p.Column < 1 || p.Line > bytes.Count(data, []byte("\n"))+1 || p.Message == "" || p.Code == "" {
				t.Fatalf("a bad problem: %+v", p)
			}
		}
		return
	}
	for _, p := range c.Warnings {
		if p.Line < 1 || p.Message == "" || p.Code == "" {
			t.Fatalf("a bad warning: %+v", p)
		}
	}
	for name, r := range c.Runners {
		if r.Name != name || len(r.Command) == 0 || r.Command[0] == "" || !slices.Contains([]string{"stdin", "file", "arg"}, r.PromptMode) {
			t.Fatalf("runner %q: %+v", name, r)
		}
	}
	for _, l := range c.Loops {
		tested := slices.Contains([]string{TestsEvery, TestsOnPromise}, l.Tests.Mode) && len(l.Tests.Commands) > 0 || l.Tests.Mode == TestsDisabled
		if l.ID == "" || !filepath.IsLocal(l.SpecFile) || len(l.Roles) == 0 || !tested || l.Retry.Attempts < 1 || l.MaxIterations < 0 || l.MaxWallTime < 0 {
			t.Fatalf("loop: %+v", l)
		}
		for _, r := range l.Roles {
			if _, ok := c.Runners[r.Runner]; !ok || r.Timeout < 0 || r.Inactivity < 0 || !slices.Contains(roleOrder(), r.Name) {
				t.Fatalf("role: %+v of %v", r, c.Runners)
			}
		}
		heldRespond(t, c, l)
		if got, ok := c.Loop(l.ID); !ok || got.ID != l.ID {
			t.Fatalf("loop %q is not found", l.ID)
		}
	}
	for _, raw := range []json.RawMessage{c.Recovery, c.Webhooks} {
		if raw != nil && !json.Valid(raw) {
			t.Fatalf("not JSON: %s", raw)
		}
	}
	if d := Diff(c, c); len(d) > 0 {
		t.Fatalf("differs from itself: %v", d)
	}
}

// mutate changes one value somewhere in v.
func mutate(t *rapid.T, v any) any {
	junk := rapid.SampledFrom([]any{nil, true, -1, 0, 1.5, 1e18, "", " ", "x", "{repo} {nope}", "../x", "/repo/x", "a | b", []any{}, []any{"a", 1},
		map[string]any{}, map[string]any{"runner": "x"}, map[string]any{"enabled": true}, "[", "8h", "claude", 1, 2, "codex", "free", false,
		[]any{"claude", map[string]any{"runner": "claude", "model": "m"}}, map[string]any{"kind": "port", "port": 80, "want": "open"}})
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || rapid.IntRange(0, 5).Draw(t, "here") == 0 {
			return junk.Draw(t, "junk")
		}
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		k := rapid.SampledFrom(keys).Draw(t, "key")
		switch rapid.IntRange(0, 6).Draw(t, "how") {
		case 0:
			delete(v, k)
		case 1:
			v[rapid.SampledFrom([]string{"//", "_comment", "Id", "runer", "ä/~", k + "s"}).Draw(t, "name")] = v[k]
		default:
			v[k] = mutate(t, v[k])
		}
		return v
	case []any:
		if len(v) == 0 || rapid.IntRange(0, 5).Draw(t, "here") == 0 {
			return junk.Draw(t, "junk")
		}
		i := rapid.IntRange(0, len(v)-1).Draw(t, "index")
		if rapid.Bool().Draw(t, "twice") {
			return append(v, v[i])
		}
		v[i] = mutate(t, v[i])
		return v
	}
	return junk.Draw(t, "junk")
}

func TestLoadNeverPanics(t *testing.T) {
	t.Parallel()
	seeds := samples(t)
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SampledFrom(seeds).Draw(t, "seed")
		var v any
		if json.Unmarshal(data, &v) == nil {
			for range rapid.IntRange(1, 4).Draw(t, "mutations") {
				v = mutate(t, v)
			}
			var err error
			if data, err = json.MarshalIndent(v, "", " "); err != nil {
				t.Fatal(err)
			}
		}
		if rapid.IntRange(0, 4).Draw(t, "bytes") == 0 && len(data) > 0 {
			data = bytes.Clone(data)
			data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		holds(t, data)
	})
}

func FuzzLoad(f *testing.F) {
	for _, data := range samples(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { holds(t, data) })
}

// Of two configurations the differences are those that were made, and each is
// there in both directions.
func TestDiffIsSymmetric(t *testing.T) {
	t.Parallel()
	seed, err := os.ReadFile("../../examples/config.json")
	if err != nil {
		t.Fatal(err)
	}
	old, err := LoadBytes(home, seed)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var v any
		if err := json.Unmarshal(seed, &v); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(mutate(t, v))
		if err != nil {
			t.Fatal(err)
		}
		changed, err := LoadBytes(home, data)
		if err != nil {
			return
		}
		there, back := Diff(old, changed), Diff(changed, old)
		if len(there) != len(back) {
			t.Fatalf("%v\n%v", there, back)
		}
		for i := range there {
			if there[i].Path != back[i].Path || fmt.Sprint(there[i].From) != fmt.Sprint(back[i].To) || fmt.Sprint(there[i].To) != fmt.Sprint(back[i].From) {
				t.Fatalf("%v\n%v", there[i], back[i])
			}
		}
		if !slices.IsSortedFunc(there, func(a, b Change) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) }) {
			t.Fatalf("not sorted: %v", there)
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	data, err := os.ReadFile("../../examples/config.json")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := LoadBytes(home, data); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := LoadBytes(home, data); err != nil {
			b.Fatal(err)
		}
	}
}

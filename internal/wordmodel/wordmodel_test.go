package wordmodel

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// texts are about animals and about ships; one may be either.
func texts() (out []Sample) {
	for i := range 20 {
		out = append(out,
			Sample{[]string{"animal"}, []string{fmt.Sprintf("the cat no %d sleeps", i), "and purrs"}},
			Sample{[]string{"ship"}, []string{fmt.Sprintf("the ship no %d sails", i), "and sinks"}},
			Sample{[]string{"animal", "ship"}, []string{"the whale swims"}},
			Sample{[]string{"ship"}, []string{"船は 沈み ました"}})
	}
	return out
}

func TestTrain(t *testing.T) {
	t.Parallel()
	m := Train(texts())
	if got := m.Labels(); !slices.Equal(got, []string{"animal", "ship"}) {
		t.Fatal(got)
	}
	for text, want := range map[string]string{"a cat sleeps": "animal", "my SHIP sails": "ship", "沈み ました": "ship"} {
		s := m.Score([]string{text})
		if sum := s[0] + s[1]; math.Abs(sum-1) > 1e-9 || m.Labels()[Best(s)] != want || s[Best(s)] < 0.7 {
			t.Errorf("%q: %v, want %s", text, s, want)
		}
	}
	// What it has never seen says nothing.
	if s := m.Score([]string{"zqx"}); s[0] != 0.5 || s[1] != 0.5 {
		t.Error(s)
	}
	if k := m.Known([]string{"zqx qxz"}); k != 0 {
		t.Error(k)
	}
	if k := m.Known([]string{"the cat"}); k < 0.5 {
		t.Error(k)
	}
	lines := []string{"the", "cat sleeps", "ship"}
	if i := m.Telling(lines, 0); i != 1 {
		t.Error(i)
	}
	if i := m.Telling(nil, 0); i != -1 {
		t.Error(i)
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	m := Train(texts())
	m.Of = "two subjects"
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Train(texts()).Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(data)
	if err != nil || got.Of != m.Of || !slices.Equal(got.labels, m.labels) || !slices.Equal(got.hashes, m.hashes) || !slices.Equal(got.weights, m.weights) || got.scale != m.scale {
		t.Fatalf("%v %+v", err, got)
	}
	if other, err := Decode(again); err != nil || !slices.Equal(other.weights, m.weights) {
		t.Errorf("the same texts give another model: %v", err)
	}
	for _, bad := range [][]byte{nil, []byte("x"), data[:len(magic)], data[:len(data)/2], data[:len(data)-1]} {
		if _, err := Decode(bad); err == nil || !strings.HasPrefix(err.Error(), "reading a model of words: ") {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                        nil,
		"a.go:12: x":              {"a", ".", "go", ":", "0", ":", "x"},
		"http 503 404 1234":       {"http", "503", "404", "0"},
		"==== don't":              {"==", "don", "'", "t"},
		"接続 refused":              {"接", "続", "refused"},
		"Zugriff» verweigert\xff": {"Zugriff", "»", "verweigert", "�"},
	} {
		if got := split(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A score is a probability, whatever the text is, and the order of the lines does not matter.
func TestScoreProperty(t *testing.T) {
	t.Parallel()
	m := Train(texts())
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOf(rapid.String()).Draw(rt, "lines")
		s := m.Score(lines)
		sum := 0.0
		for _, p := range s {
			if math.IsNaN(p) || p < 0 || p > 1 {
				rt.Fatal(s)
			}
			sum += p
		}
		if math.Abs(sum-1) > 1e-9 {
			rt.Fatal(sum)
		}
		slices.Reverse(lines)
		if !slices.Equal(s, m.Score(lines)) {
			rt.Fatal("another order, another score")
		}
	})
}

func FuzzDecode(f *testing.F) {
	data, err := Train(texts()).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data)
		if err != nil {
			return
		}
		m.Score([]string{"the cat"})
		out, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Decode(out); err != nil || !bytes.Equal(int8s(again.weights), int8s(m.weights)) {
			t.Fatal(err)
		}
	})
}

func int8s(v []int8) []byte {
	out := make([]byte, len(v))
	for i, x := range v {
		out[i] = byte(x)
	}
	return out
}

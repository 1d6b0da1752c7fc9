// Package wordmodel labels a text by its words. A Model is a linear one: each word, and each two or three words that
// follow each other, has a weight for each label, learned from labelled texts. The label with the largest sum wins.
//
// The same texts give the same Model on the same kind of machine. A Model of three thousand texts has some hundred
// kilobytes, and scores a line in microseconds.
package wordmodel

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Model holds the weights. It is safe for concurrent use.
type Model struct {
	Of      string // names what the Model has learned from; one line
	labels  []string
	hashes  []uint32 // of the features, sorted
	weights []int8   // a row of len(labels) for each hash
	scale   float64  // a weight of 1 stands for this much
}

// Labels returns the labels. The caller must not change them.
func (m *Model) Labels() []string { return m.labels }

// maxLine bounds the bytes of a line that count.
const maxLine = 400

// Score returns for each label of Labels how likely it is for the text of the lines, from 0 to 1, with the sum 1.
func (m *Model) Score(lines []string) []float64 {
	seen := map[uint32]bool{}
	for _, l := range lines {
		features(l, func(h uint32) { seen[h] = true })
	}
	sums := make([]float64, len(m.labels))
	n := m.add(sums, seen)
	for i := range sums {
		sums[i] *= m.scale / math.Sqrt(float64(max(1, n)))
	}
	softmax(sums)
	return sums
}

// Known returns the share of the features of a text that the Model has weights for, from 0 to 1: about 0 for what is no
// text.
func (m *Model) Known(lines []string) float64 {
	seen := map[uint32]bool{}
	for _, l := range lines {
		features(l, func(h uint32) { seen[h] = true })
	}
	return float64(m.add(make([]float64, len(m.labels)), seen)) / float64(max(1, len(seen)))
}

// Telling returns the index of the line that speaks most for a label, -1 without lines.
func (m *Model) Telling(lines []string, label int) int {
	best, most := -1, math.Inf(-1)
	for i, l := range lines {
		seen := map[uint32]bool{}
		features(l, func(h uint32) { seen[h] = true })
		sums := make([]float64, len(m.labels))
		m.add(sums, seen)
		own := sums[label]
		sums[label] = math.Inf(-1)
		if margin := own - slices.Max(sums); margin > most {
			best, most = i, margin
		}
	}
	return best
}

// add adds the weights of the features, and returns how many of them are known.
func (m *Model) add(sums []float64, seen map[uint32]bool) (n int) {
	for h := range seen {
		i, ok := slices.BinarySearch(m.hashes, h)
		if !ok {
			continue
		}
		n++
		for k, w := range m.weights[i*len(m.labels) : (i+1)*len(m.labels)] {
			sums[k] += float64(w)
		}
	}
	return n
}

func softmax(v []float64) {
	most, sum := slices.Max(v), 0.0
	for i := range v {
		v[i] = math.Exp(v[i] - most)
		sum += v[i]
	}
	for i := range v {
		v[i] /= sum
	}
}

// features calls f with the hash of each feature of a line.
func features(line string, f func(uint32)) {
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "")
	}
	tokens := split(strings.ToLower(line))
	words := make([]string, 0, len(tokens))
	for i, t := range tokens {
		if i > 0 {
			f(hash(tokens[i-1], t))
		}
		if !isWord(t) {
			continue
		}
		words = append(words, t)
		f(hash(t))
		if len(t) > 6 {
			f(hash(strings.ToValidUTF8(t[:5], "") + "*"))
		}
	}
	for i := 2; i < len(words); i++ {
		f(hash(words[i-2], words[i-1], words[i]))
	}
}

func hash(words ...string) uint32 {
	h := fnv.New64a()
	for _, w := range words {
		_, _ = h.Write([]byte(w)) // a hash never fails
		_, _ = h.Write([]byte{0})
	}
	sum := h.Sum64()
	return uint32(sum>>32) ^ uint32(sum)
}

// split returns the words of a line, each letter of Chinese and Japanese, the numbers that are codes of HTTP, "0" for
// another number, and at most two characters of each group of other characters.
func split(s string) (out []string) {
	kind := func(r rune) int {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			return 'c'
		case unicode.IsLetter(r):
			return 'w'
		case unicode.IsDigit(r):
			return '0'
		case unicode.IsSpace(r):
			return ' '
		}
		return '.'
	}
	for s != "" {
		first, end := 0, len(s)
		for i, r := range s {
			switch k := kind(r); {
			case i == 0:
				first = k
				continue
			case k == first && k != 'c':
				continue
			}
			end = i
			break
		}
		t := s[:end]
		s = s[end:]
		switch first {
		case ' ':
			continue
		case '0':
			if len(t) != 3 || t[0] != '4' && t[0] != '5' {
				t = "0"
			}
		case '.':
			r := []rune(t)
			t = string(r[:min(len(r), 2)])
		}
		out = append(out, t)
	}
	return out
}

func isWord(t string) bool {
	for _, r := range t {
		return unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	return false
}

// magic begins the encoded form of a Model.
const magic = "wordmodel1\n"

// Encode returns the Model as bytes for Decode.
func (m *Model) Encode() ([]byte, error) {
	var raw bytes.Buffer
	put := func(v any) { _ = binary.Write(&raw, binary.LittleEndian, v) } // a Buffer never fails
	names := strings.Join(append([]string{m.Of}, m.labels...), "\n")
	put(uint32(len(names)))
	raw.WriteString(names)
	put(m.scale)
	put(uint32(len(m.hashes)))
	last := uint32(0)
	for _, h := range m.hashes {
		put(h - last)
		last = h
	}
	for k := range m.labels { // by label, which compresses better
		for i := range m.hashes {
			put(m.weights[i*len(m.labels)+k])
		}
	}
	var out bytes.Buffer
	out.WriteString(magic)
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err == nil {
		_, err = w.Write(raw.Bytes())
		err = errors.Join(err, w.Close())
	}
	return out.Bytes(), err
}

// maxEncoded bounds the uncompressed bytes that Decode reads.
const maxEncoded = 64 << 20

// Decode reads what Encode has written.
func Decode(data []byte) (*Model, error) {
	packed, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok {
		return nil, errors.New("reading a model of words: it does not begin as one")
	}
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxEncoded))
	if err != nil {
		return nil, fmt.Errorf("reading a model of words: %w", err)
	}
	short := errors.New("reading a model of words: it ends too early")
	number := func() (uint32, bool) {
		if len(raw) < 4 {
			return 0, false
		}
		n := binary.LittleEndian.Uint32(raw)
		raw = raw[4:]
		return n, true
	}
	n, ok := number()
	if !ok || uint64(n)+8 > uint64(len(raw)) {
		return nil, short
	}
	names := strings.Split(string(raw[:n]), "\n")
	m := &Model{Of: names[0], labels: names[1:]}
	if len(m.labels) == 0 {
		return nil, short
	}
	m.scale = math.Float64frombits(binary.LittleEndian.Uint64(raw[n:]))
	if !(m.scale >= 0 && m.scale <= math.MaxFloat32) {
		return nil, fmt.Errorf("reading a model of words: its scale is %g", m.scale)
	}
	raw = raw[n+8:]
	count, ok := number()
	if !ok || uint64(count)*uint64(4+len(m.labels)) != uint64(len(raw)) {
		return nil, short
	}
	m.hashes = make([]uint32, count)
	last := uint32(0)
	for i := range m.hashes {
		delta, _ := number()
		last += delta
		m.hashes[i] = last
	}
	if !slices.IsSorted(m.hashes) {
		return nil, errors.New("reading a model of words: its features are not in order")
	}
	m.weights = make([]int8, int(count)*len(m.labels))
	for k := range m.labels {
		for i := range m.hashes {
			m.weights[i*len(m.labels)+k] = int8(raw[k*int(count)+i])
		}
	}
	return m, nil
}

// Best returns the index of the largest score.
func Best(scores []float64) int {
	best := 0
	for i := range scores {
		if cmp.Compare(scores[i], scores[best]) > 0 {
			best = i
		}
	}
	return best
}

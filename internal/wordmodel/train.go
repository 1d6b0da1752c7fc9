package wordmodel

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// Sample is a labelled text. Any of its labels is right.
type Sample struct {
	Labels []string
	Lines  []string
}

const (
	epochs   = 12
	rate     = 0.5
	decay    = 1e-4
	leastFew = 3   // texts that a feature must stand in
	most     = 127 // the largest weight in a Model
	tooSmall = 3   // a feature whose weights are all smaller than this, of most, is left out
)

// Train makes a Model of labelled texts, by logistic regression with AdaGrad. Of a text with several labels the Model may
// choose. The same samples in the same order give the same Model.
func Train(samples []Sample) *Model {
	labels := map[string]bool{}
	count := map[uint32]int{}
	seen := make([][]uint32, len(samples))
	for i, s := range samples {
		for _, l := range s.Labels {
			labels[l] = true
		}
		has := map[uint32]bool{}
		for _, l := range s.Lines {
			features(l, func(h uint32) { has[h] = true })
		}
		seen[i] = slices.Sorted(maps.Keys(has))
		for _, h := range seen[i] {
			count[h]++
		}
	}
	m := &Model{labels: slices.Sorted(maps.Keys(labels))}
	maps.DeleteFunc(count, func(_ uint32, n int) bool { return n < leastFew })
	hashes := slices.Sorted(maps.Keys(count))
	at := make(map[uint32]int, len(hashes))
	for i, h := range hashes {
		at[h] = i
	}
	k := len(m.labels)
	weights, squares := make([]float64, len(hashes)*k), make([]float64, len(hashes)*k)
	for i := range squares {
		squares[i] = 1e-6
	}
	random := rand.New(rand.NewPCG(1, 2))
	order := make([]int, len(samples))
	for i := range order {
		order[i] = i
	}
	p, want := make([]float64, k), make([]float64, k)
	mean := make([]float64, len(weights))
	for n := range epochs {
		random.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		for _, i := range order {
			m.step(samples[i], seen[i], at, weights, squares, p, want)
		}
		if n >= epochs/2 { // the mean of the later rounds depends less on the order of the samples
			for i, w := range weights {
				mean[i] += w / float64(epochs-epochs/2)
			}
		}
	}
	m.quantise(hashes, mean)
	return m
}

// step moves the weights towards one sample.
func (m *Model) step(s Sample, seen []uint32, at map[uint32]int, weights, squares, p, want []float64) {
	k := len(m.labels)
	clear(p)
	rows := make([]int, 0, len(seen))
	for _, h := range seen {
		if i, ok := at[h]; ok {
			rows = append(rows, i*k)
		}
	}
	if len(rows) == 0 {
		return
	}
	norm := math.Sqrt(float64(len(rows)))
	for _, r := range rows {
		for j, w := range weights[r : r+k] {
			p[j] += w
		}
	}
	for j := range p {
		p[j] /= norm
	}
	softmax(p)
	// The target is half what the Model likes best of the right labels, and half all of them alike.
	sum := 0.0
	for j, l := range m.labels {
		want[j] = 0
		if slices.Contains(s.Labels, l) {
			want[j] = p[j] + 1e-12
			sum += want[j]
		}
	}
	for j := range want {
		if want[j] > 0 {
			want[j] = 0.5*want[j]/sum + 0.5/float64(len(s.Labels))
		}
	}
	for _, r := range rows {
		for j := range p {
			g := (p[j] - want[j]) / norm
			squares[r+j] += g * g
			weights[r+j] = weights[r+j]*(1-decay) - rate*g/math.Sqrt(squares[r+j])
		}
	}
}

// quantise keeps the features that matter, with small weights.
func (m *Model) quantise(hashes []uint32, weights []float64) {
	k, largest := len(m.labels), 0.0
	for _, w := range weights {
		largest = max(largest, math.Abs(w))
	}
	if largest == 0 {
		return
	}
	m.scale = largest / most
	for i, h := range hashes {
		row := make([]int8, k)
		keep := false
		for j := range row {
			row[j] = int8(math.Round(weights[i*k+j] / m.scale))
			keep = keep || row[j] >= tooSmall || row[j] <= -tooSmall
		}
		if keep {
			m.hashes, m.weights = append(m.hashes, h), append(m.weights, row...)
		}
	}
}

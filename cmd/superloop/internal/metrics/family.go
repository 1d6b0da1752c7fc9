package metrics

import (
	"maps"
	"slices"
	"strings"
)

// family is one metric of one loop, while it grows.
type family struct {
	series map[string]*series
}

type series struct {
	labels []string
	sum    float64
	// Of a histogram: how many observations there were, and in each bucket, not those in the buckets below it.
	count   uint64
	buckets []uint64
}

// at is the series of these labels; when there are too many it is the one that stands for the rest.
func (f *family) at(labels []string) *series {
	key := strings.Join(labels, "\x00")
	if s := f.series[key]; s != nil {
		return s
	}
	if len(f.series) >= maxSeries {
		labels = slices.Repeat([]string{other}, len(labels))
		if s := f.series[strings.Join(labels, "\x00")]; s != nil {
			return s
		}
		key = strings.Join(labels, "\x00")
	}
	if f.series == nil {
		f.series = map[string]*series{}
	}
	s := &series{labels: labels}
	f.series[key] = s
	return s
}

// add counts; a negative number or none at all counts as nothing.
func (f *family) add(n float64, labels ...string) {
	if n >= 0 && n < maxNumber {
		f.at(labels).sum += n
	}
}

// maxNumber is what no single event can count.
const maxNumber = 1e15

// observe takes a duration in seconds into a histogram.
func (f *family) observe(seconds float64, bounds []float64, labels ...string) {
	if !(seconds >= 0 && seconds < maxNumber) {
		return
	}
	s := f.at(labels)
	if s.buckets == nil {
		s.buckets = make([]uint64, len(bounds))
	}
	s.count++
	s.sum += seconds
	if i, _ := slices.BinarySearch(bounds, seconds); i < len(bounds) {
		s.buckets[i]++
	}
}

// told gives the series of a loop, in a fixed order.
func (f *family) told(t *text, m metric, loop string) {
	for _, key := range slices.Sorted(maps.Keys(f.series)) {
		s := f.series[key]
		labels := append([]string{loop}, s.labels...)
		if m.buckets == nil {
			t.sample(m, s.sum, labels...)
			continue
		}
		t.histogram(m, s, labels)
	}
}

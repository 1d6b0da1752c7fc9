package metrics

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// text is an answer to a scrape, in the text format of Prometheus, version 0.0.4.
type text struct{ bytes.Buffer }

// escaped are the values of labels as the text format quotes them.
var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// head says what the samples that follow are. A help text is one line.
func (t *text) head(m metric) {
	t.WriteString("# HELP " + m.name + " " + m.help + "\n# TYPE " + m.name + " " + m.kind + "\n")
}

// sample writes one value; there is a label's value for each label.
func (t *text) sample(name string, labels []label, values []string, v float64) {
	t.WriteString(name)
	sep := "{"
	for i, l := range labels {
		t.WriteString(sep + l.name + `="` + escaped.Replace(values[i]) + `"`)
		sep = ","
	}
	t.WriteString("} " + decimal(v) + "\n")
}

func decimal(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// family is one metric of one loop, while it grows.
type family struct {
	metric
	series map[string]*series
}

type series struct {
	labels []string
	sum    float64
	// Of a histogram: how many observations there were, and in each bucket, not those in the buckets below it.
	count  uint64
	counts []uint64
}

// at is the series of these labels; when there are too many it is the one that stands for the rest.
func (f *family) at(labels []string) *series {
	key := strings.Join(labels, "\x00")
	if f.series[key] == nil && len(f.series) >= maxSeries {
		labels = slices.Repeat([]string{other}, len(labels))
		key = strings.Join(labels, "\x00")
	}
	if s := f.series[key]; s != nil {
		return s
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
func (f *family) observe(seconds float64, labels ...string) {
	if !(seconds >= 0 && seconds < maxNumber) {
		return
	}
	s := f.at(labels)
	if s.counts == nil {
		s.counts = make([]uint64, len(f.buckets))
	}
	s.count++
	s.sum += seconds
	if i, _ := slices.BinarySearch(f.buckets, seconds); i < len(f.buckets) {
		s.counts[i]++
	}
}

// told writes a loop's series in a fixed order; of a histogram the buckets, each with those below it, sum and count.
func (f *family) told(t *text, loop string) {
	for _, key := range slices.Sorted(maps.Keys(f.series)) {
		s := f.series[key]
		values := append([]string{loop}, s.labels...)
		if f.buckets == nil {
			t.sample(f.name, f.labels, values, s.sum)
			continue
		}
		names, upTo := append(slices.Clip(f.labels), label{name: "le"}), uint64(0)
		for i, bound := range f.buckets {
			upTo += s.counts[i]
			t.sample(f.name+"_bucket", names, append(slices.Clip(values), decimal(bound)), float64(upTo))
		}
		t.sample(f.name+"_bucket", names, append(slices.Clip(values), decimal(math.Inf(1))), float64(s.count))
		t.sample(f.name+"_sum", f.labels, values, s.sum)
		t.sample(f.name+"_count", f.labels, values, float64(s.count))
	}
}

// Bounds of what a journal can make of series.
const (
	maxSeries = 500 // of one metric of one loop; further ones are added to the one whose labels are all "other"
	maxValue  = 64  // bytes of a label's value
	maxRoles  = 16
	maxOpen   = 64 // different values of a label whose values are not known beforehand
)

// What stands for a value that is not told, and for one too many, too long, or not printable.
const (
	notTold = "unknown"
	other   = "other"
)

func plain(s string) bool {
	if len(s) > maxValue || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

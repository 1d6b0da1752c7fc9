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

// contentType is the text format's.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// escaped are the values of labels as the text format quotes them.
var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// head says what the samples that follow are. A help text is one line.
func (t *text) head(m metric) {
	t.WriteString("# HELP " + m.name + " " + m.help + "\n# TYPE " + m.name + " " + m.kind + "\n")
}

// sample writes one value; there is a label's value for each of the metric's labels.
func (t *text) sample(m metric, v float64, values ...string) {
	t.line(m.name, m.labels, values, v)
}

// histogram writes a series' buckets, each with those below it, and its sum and count.
func (t *text) histogram(m metric, s *series, values []string) {
	names, upTo := append(m.labels[:len(m.labels):len(m.labels)], "le"), uint64(0)
	bucket := func(bound float64, n uint64) {
		t.line(m.name+"_bucket", names, append(values[:len(values):len(values)], decimal(bound)), float64(n))
	}
	for i, bound := range m.buckets {
		upTo += s.buckets[i]
		bucket(bound, upTo)
	}
	bucket(math.Inf(1), s.count)
	t.line(m.name+"_sum", m.labels, values, s.sum)
	t.line(m.name+"_count", m.labels, values, float64(s.count))
}

func (t *text) line(name string, labels, values []string, v float64) {
	t.WriteString(name)
	sep := "{"
	for i, l := range labels {
		t.WriteString(sep + l + `="` + escaped.Replace(values[i]) + `"`)
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

// words bounds the values of one label: the first max that come, in the order of the journal, so that a restart keeps
// the same ones.
type words struct {
	max  int
	seen map[string]bool
}

func (w *words) of(s string) string {
	switch {
	case s == "":
		return notTold
	case w.seen[s]:
		return s
	case len(w.seen) >= w.max || !plain(s):
		return other
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[s] = true
	return s
}

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

// among is a value of a closed list.
func among(s string, list []string) string {
	switch {
	case s == "":
		return notTold
	case slices.Contains(list, s):
		return s
	}
	return other
}

// strs are the values of a closed list of any string type.
func strs[T ~string](list ...T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

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

// text is the answer to a scrape, in the text format of Prometheus, version 0.0.4.
type text struct{ bytes.Buffer }

// escaped quotes the value of a label as the text format requires.
var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// head writes the HELP and TYPE lines of a metric. A help text is one line.
func (t *text) head(m metric) {
	t.WriteString("# HELP " + m.name + " " + m.help + "\n# TYPE " + m.name + " " + m.kind + "\n")
}

// sample writes one sample. values holds one value for each label.
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

// family holds the series of one metric of one loop.
type family struct {
	metric
	series map[string]*series
}

type series struct {
	labels []string
	sum    float64
	// count and counts are set for a histogram only: the number of all observations, and of those in each single
	// bucket.
	count  uint64
	counts []uint64
}

// at returns the series of these labels. When there are too many series, it returns the one whose labels are all
// "other".
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

// add adds n to a series. It ignores NaN, a negative number, and a number from maxNumber up.
func (f *family) add(n float64, labels ...string) {
	if n >= 0 && n < maxNumber {
		f.at(labels).sum += n
	}
}

// maxNumber is more than a single event can plausibly count.
const maxNumber = 1e15

// observe adds a duration in seconds to a histogram. It ignores NaN, a negative number, and a number from maxNumber up.
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

// told writes the series of a loop in a fixed order. Of a histogram it writes the cumulative buckets, the sum and the
// count.
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

// Bounds of the time series that a journal can cause.
const (
	maxSeries = 500 // series of one metric of one loop; further ones count in the series whose labels are all "other"
	maxValue  = 64  // largest length of a label's value, in bytes
	maxRoles  = 16
	maxOpen   = 64 // different values of a label without a closed list; also the recoveries that run at the same time
)

// Replacements of a label's value: notTold if the event has none; other if the value is one too many, too long, or not
// printable.
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

package metrics

import (
	"bytes"
	"math"
	"strconv"
	"strings"
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

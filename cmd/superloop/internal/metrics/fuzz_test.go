package metrics

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/journal"
)

var metricLine = regexp.MustCompile(`^(#.*|superloop_[a-z_]+(\{[a-z_]+="([^"\\\n]|\\["\\n])*"(,[a-z_]+="([^"\\\n]|\\["\\n])*")*\})? -?[0-9+.eInfNa]+)$`)

// FuzzTally: whatever the fields of events are, each line is one of Prometheus' format, and a hostile name makes no
// other line.
func FuzzTally(f *testing.F) {
	events := map[string]bool{}
	for _, m := range metrics() {
		for _, event := range m.events {
			events[event] = true
		}
	}
	for event := range events {
		f.Add(event, []byte(`{"role":"a\"}\n{","runner":"b\\","usage":{"input_tokens":5},"duration_ms":1e300,"cost_usd":-1,"gate":["x"],"outcome":"\u2028"}`))
	}
	f.Fuzz(func(t *testing.T, event string, fields []byte) {
		one := newTally()
		testkit.Memory(t, len(fields), func() {
			for range 3 {
				one.add(journal.Event{Event: event, Fields: json.RawMessage(fields)})
			}
		})
		var out text
		for i, m := range metrics() {
			out.head(m)
			one.families[i].told(&out, "the\n\"loop\\")
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !metricLine.Match(bytes.TrimSuffix(line, []byte("\n"))) {
				t.Fatalf("%q", line)
			}
		}
	})
}

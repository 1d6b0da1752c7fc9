package classify_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery/classify"
)

// prefixes are the ways in which tools that drive several jobs begin their lines.
var prefixes = map[string]func(line string, n int) string{
	"compose": func(l string, _ int) string { return "web-1  | " + l },
	"turbo":   func(l string, _ int) string { return "@acme/web:test: " + l },
	"time": func(l string, n int) string {
		return fmt.Sprintf("2026-11-23T10:%02d:%02d.1234567Z %s", n/60%60, n%60, l)
	},
	"bracket bar": func(l string, _ int) string { return "[build] | " + l },
	"pnpm":        func(l string, _ int) string { return "packages/web test: " + l },
	"two jobs": func(l string, n int) string {
		return fmt.Sprintf("api-1  | GET /healthz 200 %dms\nweb-1  | %s", n%9, l)
	},
	"foreman": func(l string, n int) string { return fmt.Sprintf("10:%02d:%02d web.1  | %s", n/60%60, n%60, l) },
}

// The verdict on a failure does not depend on what a tool writes before each line.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	_, c := embedded(t)
	cases := slices.Concat(readReal(t, "dev.jsonl"), readReal(t, "held.jsonl"), readReal(t, "fresh.jsonl"))
	for i, name := range slices.Sorted(maps.Keys(prefixes)) {
		if i%testkit.Sample(3, 1, 1) != 0 {
			continue
		}
		prefix := prefixes[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			same, all := 0, 0
			for i := 0; i < len(cases); i += testkit.Sample(8, 1, 1) {
				r := cases[i]
				if r.Stdout+r.Stderr == "" {
					continue
				}
				plain := judged(t, c, r, r.Stdout, r.Stderr)
				with := judged(t, c, r, prefixed(r.Stdout, prefix), prefixed(r.Stderr, prefix))
				all++
				if plain.Category == with.Category && plain.Code == with.Code && plain.Handler == with.Handler {
					same++
				} else {
					t.Logf("%s: %s by %s, plain %s by %s", r.ID, with.Category, with.Handler, plain.Category, plain.Handler)
				}
			}
			t.Logf("%d of %d are judged as without a prefix", same, all)
			if float64(same) < 0.985*float64(all) {
				t.Errorf("only %d of %d are judged as without a prefix", same, all)
			}
		})
	}
}

func prefixed(text string, prefix func(string, int) string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		b.WriteString(prefix(line, n))
		n++
	}
	return b.String()
}

func judged(t *testing.T, c *classify.Classifier, r realCase, stdout, stderr string) classify.Failure {
	t.Helper()
	f, err := c.Classify(context.Background(), classify.Input{
		Source: classify.SourceCommand, Command: r.Command,
		Exit:   classify.Exit{Code: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut},
		Stdout: strings.NewReader(stdout), Stderr: strings.NewReader(stderr),
	})
	if err != nil {
		t.Fatalf("%s: %v", r.ID, err)
	}
	return f
}

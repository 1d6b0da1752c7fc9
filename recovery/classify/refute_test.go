package classify

import (
	"context"
	"strings"
	"testing"
)

// answers is a Prober that gives each probe the same answer.
type answers map[string]Answer

func (a answers) Probe(_ context.Context, name string, _ map[string]string, _ *Input) Finding {
	return Finding{Holds: a[name], Detail: "looked"}
}

// What a look at the system contradicts is no cause if a test says it, and no certain one if a tool says it.
func TestRefuted(t *testing.T) {
	t.Parallel()
	c := embeddedClassifier(t)
	const (
		goTest = "--- FAIL: TestW (0.00s)\n    a_test.go:5: write /data/x: no space left on device\nFAIL\nFAIL\texample.com/m\t0.012s\nFAIL\n"
		cp     = "cp: error writing 'dist/app': No space left on device\n"
		jq     = "sh: 1: jq: not found\n"
		dial   = "--- FAIL: TestDB (0.00s)\n    x_test.go:5: connect: dial tcp 127.0.0.1:5432: connect: connection refused\nFAIL\nFAIL\texample.com/t\t0.025s\nFAIL\n"
	)
	for _, tc := range []struct {
		name, command, text string
		probes              Prober
		category            string
		weak                bool
		most                float64
	}{
		{"a test, and there is room", "go test ./...", goTest, answers{ProbeFreeSpace: Yes}, CategoryCode, false, 1},
		{"a test, and there is none", "go test ./...", goTest, answers{ProbeFreeSpace: No}, "disk_full", false, 1},
		{"a test, and nobody looks", "go test ./...", goTest, nil, "disk_full", true, 1},
		{"a tool, and there is room", "cp build/app dist/app", cp, answers{ProbeFreeSpace: Yes}, "disk_full", true, maxRefuted},
		{"a tool, and there is none", "cp build/app dist/app", cp, answers{ProbeFreeSpace: No}, "disk_full", false, 1},
		{"a shell, and the program is there", "jq . x", jq, answers{ProbeWhich: Yes}, "command_not_found", true, maxRefuted},
		{"a test, and the service answers", "go test ./...", dial, answers{ProbeService: Yes}, CategoryCode, false, 1},
		{"a test, and nothing listens", "go test ./...", dial, answers{ProbeService: No}, "environment", true, 1},
	} {
		f, err := c.Classify(context.Background(), Input{Command: tc.command, Exit: Exit{Code: 1}, Stdout: strings.NewReader(tc.text), Probes: tc.probes})
		if err != nil {
			t.Fatal(err)
		}
		if f.Category != tc.category || f.Weak != tc.weak || f.Confidence > tc.most {
			t.Errorf("%s: %s, weak %v, confidence %v; want %s, weak %v, at most %v: %s", tc.name, f.Category, f.Weak, f.Confidence, tc.category, tc.weak, tc.most, f.Why)
		}
	}
}

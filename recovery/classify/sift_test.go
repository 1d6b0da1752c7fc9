package classify_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/classify"
)

// A cause in the middle of an output that is too large to be kept is found; without somebody who looks at what is lost
// the verdict says that it is incomplete.
func TestCauseInTheMiddle(t *testing.T) {
	t.Parallel()
	_, c := embedded(t)
	sp, err := proc.Start(proc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sp.Close() })
	const noise = "[info] copied asset, 0 errors, 0 warnings"
	script := fmt.Sprintf("yes '%s' | head -c 6000000; echo 'npm error code ENOSPC' >&2; echo 'npm error ENOSPC: no space left on device, write' >&2; yes '%s' | head -c 6000000 >&2; exit 1", noise, noise)
	for _, tc := range []struct {
		name       string
		sift       proc.Sift
		category   string
		incomplete bool
	}{{"looked at", c.Sift, "disk_full", false}, {"lost", nil, "unknown", true}} {
		var log bytes.Buffer
		res, err := sp.Run(context.Background(), proc.Spec{Argv: []string{"/bin/sh", "-c", script}, Log: &log, LogLimit: 4 << 20, HeadTail: 2 << 20, Sift: tc.sift})
		if err != nil || res.Code != 1 {
			t.Fatalf("%s: %d, %v", tc.name, res.Code, err)
		}
		for what, in := range map[string]classify.Input{
			"log":      {Stdout: bytes.NewReader(log.Bytes()), Merged: true},
			"captures": {Stdout: strings.NewReader(res.Stdout.Text()), Stderr: strings.NewReader(res.Stderr.Text())},
		} {
			if what == "captures" && tc.sift == nil {
				continue // the cause is the first line of stderr
			}
			in.Command, in.Exit = "npm ci", classify.Exit{Code: 1}
			f, err := c.Classify(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			if f.Category != tc.category || f.Incomplete != tc.incomplete {
				t.Errorf("%s, %s: %s, incomplete %v, want %s, %v: %s", tc.name, what, f.Category, f.Incomplete, tc.category, tc.incomplete, f.Why)
			}
		}
		if most := 6 << 20; log.Len() > most {
			t.Errorf("%s: the log has %d bytes, more than %d", tc.name, log.Len(), most)
		}
	}
}

package recovery

import (
	"strings"
	"testing"
	"time"
)

const published = `{
  "version": 1,
  "timestamp": "2026-01-23T05:36:33Z",
  "category": "dependency",
  "severity": "blocking",
  "diagnosis": {
    "error_pattern": "Cannot start service: Host version .* does not match binary version",
    "root_cause": "esbuild version mismatch between vite and vitest dependencies",
    "evidence": ["test-output.txt:3: Host version \"0.21.5\" does not match binary version \"0.27.2\""]
  },
  "recovery": {
    "command": "rm -rf node_modules && bun install",
    "working_dir": ".",
    "timeout_seconds": 300,
    "expected_outcome": "Consistent esbuild versions, vitest can start",
    "confidence": "high"
  },
  "fallback": {"command": "bun install --force", "confidence": "medium"}
}`

// Conforms: 004-1-example, 004-1-timestamp, 004-1-fallback
func TestPublishedProposal(t *testing.T) {
	t.Parallel()
	p, problems := DecodeProposal([]byte(published), 900*time.Second)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	r, f := p.Recovery, p.Fallback
	if r.Command != "rm -rf node_modules && bun install" || r.WorkingDir != "." || r.Timeout() != 300*time.Second || r.Confidence != "high" || len(p.Notes) != 0 {
		t.Errorf("%+v", r)
	}
	if f == nil || f.Command != "bun install --force" || f.WorkingDir != "." || f.Timeout() != 300*time.Second || f.Expected != "" || f.Confidence != "medium" {
		t.Errorf("the fallback does not inherit: %+v", f)
	}
	if p.Category != "dependency" || p.Severity != "blocking" || len(p.Diagnosis.Evidence) != 1 || p.Timestamp.Year() != 2026 || len(p.Digest) != 64 {
		t.Errorf("%+v", p)
	}
}

// Conforms: 004-1-dir, 004-1-timeout
func TestProposalDefaultsAndCaps(t *testing.T) {
	t.Parallel()
	edit := func(old, new string) string {
		if !strings.Contains(published, old) {
			t.Fatalf("the example has no %q", old)
		}
		return strings.Replace(published, old, new, 1)
	}
	for name, c := range map[string]struct {
		text              string
		max               time.Duration
		recover, fallback time.Duration
		dir, fallbackDir  string
		notes             int
	}{
		"none asked":               {edit(`"timeout_seconds": 300,`, ""), 900 * time.Second, 120 * time.Second, 120 * time.Second, ".", ".", 0},
		"over the cap":             {edit("300", "901"), 900 * time.Second, 900 * time.Second, 900 * time.Second, ".", ".", 1},
		"far over the cap":         {edit("300", "31622400"), 900 * time.Second, 900 * time.Second, 900 * time.Second, ".", ".", 1},
		"a cap below the default":  {edit(`"timeout_seconds": 300,`, ""), 60 * time.Second, 60 * time.Second, 60 * time.Second, ".", ".", 1},
		"a float that is a number": {edit("300", "3e2"), 900 * time.Second, 300 * time.Second, 300 * time.Second, ".", ".", 0},
		"the fallback's own":       {edit(`"confidence": "medium"`, `"confidence": "low", "timeout_seconds": 1000, "working_dir": "b"`), 900 * time.Second, 300 * time.Second, 900 * time.Second, ".", "b", 1},
		"a directory":              {edit(`"working_dir": "."`, `"working_dir": "a"`), 900 * time.Second, 300 * time.Second, 300 * time.Second, "a", "a", 0},
		"no bound":                 {edit("300", "1000"), 0, 1000 * time.Second, 1000 * time.Second, ".", ".", 0},
	} {
		p, problems := DecodeProposal([]byte(c.text), c.max)
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		if p.Recovery.Timeout() != c.recover || p.Fallback.Timeout() != c.fallback || p.Recovery.WorkingDir != c.dir || p.Fallback.WorkingDir != c.fallbackDir || len(p.Notes) != c.notes {
			t.Errorf("%s: %+v, %+v, %v", name, p.Recovery, p.Fallback, p.Notes)
		}
	}
}

// What two readers could read differently is refused, with its place.
// Conforms: 004-principle-structured, 004-1-version, 004-1-pattern
func TestProposalIsReadStrictly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, pointer string }{
		"twice":            {`"command": "rm`, `"command": "ls", "command": "rm`, "/recovery/command"},
		"case":             {`"command": "rm`, `"Command": "ls", "command": "rm`, "/recovery/Command"},
		"unknown":          {`"version": 1,`, `"version": 1, "approved": true,`, "/approved"},
		"version":          {`"version": 1,`, `"version": 2,`, "/version"},
		"surrogate":        {"bun install\",", `bun install\udc00",`, "/recovery/command"},
		"escaped NUL":      {"bun install\",", `bun install\u0000",`, "/recovery/command"},
		"blank":            {"rm -rf node_modules && bun install", " \\n ", "/recovery/command"},
		"zero seconds":     {"300", "0", "/recovery/timeout_seconds"},
		"half a second":    {"300", "0.5", "/recovery/timeout_seconds"},
		"text seconds":     {"300", `"300"`, "/recovery/timeout_seconds"},
		"missing":          {`"confidence": "high"`, `"confidence": "sure"`, "/recovery/confidence"},
		"trailing":         {`"medium"}` + "\n}", `"medium"}}{}`, ""},
		"bytes":            {"bun install\",", "bun install\xff\",", ""},
		"an invalid regex": {"Host version .*", "Host (version .*", "/diagnosis/error_pattern"},
	} {
		text := strings.Replace(published, c.old, c.new, 1)
		if text == published {
			t.Fatalf("%s: nothing was changed", name)
		}
		p, problems := DecodeProposal([]byte(text), 900*time.Second)
		if p != nil || len(problems) == 0 || problems[0].Line == 0 {
			t.Errorf("%s: %+v, %v", name, p, problems)
			continue
		}
		if problems[0].Pointer != c.pointer {
			t.Errorf("%s: %v, want the pointer %q", name, problems, c.pointer)
		}
	}
	if p, problems := DecodeProposal([]byte(published+strings.Repeat(" ", 64<<10)), 0); p != nil || len(problems) != 1 || problems[0].Code != "too_large" {
		t.Errorf("too large: %v", problems)
	}
}

// The digest of an attempt is of the command and the place, not of the talk.

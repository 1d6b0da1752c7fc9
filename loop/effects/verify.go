package effects

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/gate"
)

// maxPattern bounds a proposal's error_pattern; a longer one is not looked for.
const maxPattern = 1000

// What does not count in the signature of a failure: colours, times, numbers, addresses, names of temporary files.
var varying = pattern.Lazy(`0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|/tmp/[^\s:'"]*|[0-9]+(\.[0-9]+)*`)

// signatureLines is how many of the last lines of an output its signature is
// made of: many test runners begin with what differs each time.
const signatureLines = 60

// signature is the same for two outputs that tell of the same failure.
func signature(output []byte) string {
	lines := strings.Split(text.Uncoloured(string(output)), "\n")
	h := sha256.New()
	kept := 0
	for i := len(lines) - 1; i >= 0 && kept < signatureLines; i-- {
		line := strings.TrimSpace(lines[i])
		if line == "" {
			continue
		}
		kept++
		h.Write(append(varying().ReplaceAll([]byte(line), []byte("0")), '\n'))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// failuresOf are the commands that failed.
func failuresOf(results []gate.CommandResult) []loop.TestFailure {
	var out []loop.TestFailure
	for _, r := range results {
		if code := r.Code(); code != 0 {
			out = append(out, loop.TestFailure{Command: r.Command, ExitCode: code, Signature: signature(r.Output)})
		}
	}
	return out
}

// testsThen is what was known of the tests before a recovery, testsNow after it.
type testsThen struct {
	status   string // ok, failed, skipped, or "" when they had not run
	failures []loop.TestFailure
	matched  *bool // the proposal's error_pattern is in the output; nil: not known
}

// verifyRecovery says what the tests tell of a recovery. Harm is looked for
// first; then whether the very failure is gone that the recovery was for.
func verifyRecovery(then, now testsThen) loop.Verification {
	v := loop.Verification{Before: then.String(), After: now.String()}
	set := func(result, why string) loop.Verification {
		v.Result, v.Why = result, why
		return v
	}
	fresh := newFailures(then.failures, now.failures)
	gone := newFailures(now.failures, then.failures)
	ran := then.status == gate.StatusOK || then.status == gate.StatusFailed
	switch {
	case now.status == gate.StatusOK && then.status == gate.StatusOK:
		return set(loop.Unverified, "the tests passed before it too")
	case now.status == gate.StatusOK:
		return set(loop.Verified, "the tests pass")
	case now.status != gate.StatusFailed:
		return set(loop.Unverified, "the tests did not run")
	case ran && len(fresh) > 0:
		return set(loop.Harmful, "passed before it and fails now: "+strings.Join(fresh, ", "))
	case now.matched != nil && !*now.matched && then.matched != nil && *then.matched:
		return set(loop.Verified, "the failure that it was for is gone; the tests fail for another reason")
	case !ran && now.matched != nil && *now.matched:
		return set(loop.Ineffective, "the failure that it was for is there")
	case !ran:
		return set(loop.Unverified, "the tests fail, and had not run before it")
	case slices.Equal(then.failures, now.failures):
		return set(loop.Ineffective, "the same failure")
	case then.matched != nil && *then.matched && now.matched != nil && *now.matched:
		return set(loop.Ineffective, "the failure that it was for is still there")
	case len(gone) > 0:
		return set(loop.Verified, "passes now: "+strings.Join(gone, ", "))
	}
	return set(loop.Unverified, "the tests fail in another way than before")
}

func (t testsThen) String() string {
	if t.status != gate.StatusFailed {
		return t.status
	}
	names := make([]string, 0, len(t.failures))
	for _, f := range t.failures {
		names = append(names, fmt.Sprintf("%s (%d)", f.Command, f.ExitCode))
	}
	return t.status + ": " + strings.Join(names, ", ")
}

// newFailures are the commands that fail in b and not in a.
func newFailures(a, b []loop.TestFailure) []string {
	var out []string
	for _, f := range b {
		if !slices.ContainsFunc(a, func(o loop.TestFailure) bool { return o.Command == f.Command }) {
			out = append(out, f.Command)
		}
	}
	return out
}

// patternIn reports whether an error_pattern is in an output; nil when it is no
// regular expression, or there is no output to look in.
func patternIn(pattern, output string) *bool {
	if pattern == "" || len(pattern) > maxPattern || output == "" {
		return nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil
	}
	found := re.MatchString(output)
	return &found
}

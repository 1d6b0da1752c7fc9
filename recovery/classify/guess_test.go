package classify_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/remedy"
)

// Nothing follows from a guess without an operator: whatever the words of an output are, and although the policy lists
// what it could list, no remedy and no retry runs by itself, and no prompt may have it as a fact.
func TestGuessesRunNothing(t *testing.T) {
	t.Parallel()
	cat, c := embedded(t)
	policy := suggestedPolicy(t)
	profile := remedy.Presets()["debian12"]
	all := messagesOf(t, "testdata/messages.tsv")
	guesses, kinds := 0, map[string]bool{}
	for i := 0; i < len(all); i += testkit.Sample(12, 1, 1) {
		m := all[i]
		f := judged(t, c, realCase{Command: m.command, ExitCode: 1}, "", strings.ReplaceAll(m.text, `\n`, "\n"))
		if f.Handler != "" || f.Category == classify.CategoryUnknown {
			continue
		}
		guesses++
		kinds[f.Category] = true
		plan := remedy.Resolve(cat, f, profile, remedy.Situation{})
		gate, _ := remedy.Gate(&plan, policy)
		if f.Confidence > 0.4 || !f.Code && (!f.Weak || !strings.Contains(f.Why, "by its words")) || slices.Contains([]string{remedy.GateAuto, remedy.GateRetry}, gate) ||
			len(f.Evidence) == 0 || f.Signature == "" {
			t.Errorf("%s: %s, confidence %.2f, weak %t, gate %s: %s", m.text, f.Category, f.Confidence, f.Weak, gate, f.Why)
		}
	}
	if guesses < len(all)/testkit.Sample(12, 1, 1)/10 || len(kinds) < 10 {
		t.Errorf("only %d guesses of %d kinds", guesses, len(kinds))
	}
}

// A guess is about the words of the output, not about its prefixes or its place.
func TestGuess(t *testing.T) {
	t.Parallel()
	_, c := embedded(t)
	for name, tc := range map[string]struct {
		r          realCase
		code       bool
		categories []string
		says       string
	}{
		"a lock":                      {realCase{Command: "./deploy", Stderr: "deploy: another rollout holds the lease since 12:04 (ci-7), not starting a second one\n"}, false, []string{"lock_held"}, "another rollout holds the lease"},
		"in French":                   {realCase{Command: "outil", Stderr: "outil : connexion impossible au serveur de licences : délai dépassé\n"}, false, []string{"network_error", "timeout", "auth"}, "connexion impossible"},
		"what was built, of a server": {realCase{Command: "go run ./cmd/sync", Stderr: "2026/02/01 10:00:00 the license server cannot be reached, is it started?\nexit status 1\n"}, false, []string{"network_error", "environment", "auth"}, "license server"},
		"a checker":                   {realCase{Command: "zqxlint src", Stdout: "src/a.zqx:12:3 warning unused variable total\nsrc/a.zqx:14:1 error expected expression, found '}'\n2 problems\n"}, true, nil, "expected expression"},
		"what ended a test": {realCase{Command: "npx jest", Stdout: "FAIL ./a.test.js\n  ✕ boots (51 ms)\n\n  ● boots\n\n    ZqxError: the license server cannot be reached, is it started?\n\n      at Object.run (lib/run.js:20:37)\n\nTests:       1 failed, 1 total\n"},
			false, []string{"network_error", "environment", "auth", "dependency"}, "license server"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.r.ExitCode = 1
			f := judged(t, c, tc.r, tc.r.Stdout, tc.r.Stderr)
			if f.Code != tc.code || !tc.code && !slices.Contains(tc.categories, f.Category) || len(f.Evidence) == 0 || !strings.Contains(f.Evidence[0].Text, tc.says) {
				t.Errorf("code %t, %s by %q: %s\n%+v", f.Code, f.Category, f.Handler, f.Why, f.Evidence)
			}
		})
	}
	// Without words there is nothing to guess.
	for _, r := range []realCase{{Command: "./x", ExitCode: 1}, {Command: "./x", ExitCode: 1, Stderr: "zqx zqxx\n"},
		{Command: "zqxctl", ExitCode: 1, Stderr: strings.Repeat("c2u5W\u0785~$ k\u01c6mcK=tc:|0R)\u04ba~VcBv,CD4]>1 ,Iaw)N+7P[{T+7N`?y0\n", 80)}} {
		if f := judged(t, c, r, "", r.Stderr); f.Category != classify.CategoryUnknown {
			t.Errorf("%q: %s: %s", r.Stderr, f.Category, f.Why)
		}
	}
}

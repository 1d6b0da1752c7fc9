package recovery

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestStepsMustRun: a step is a command without which the whole cannot succeed; where that is not known, there is none.
func TestStepsMustRun(t *testing.T) {
	for command, want := range map[string]string{
		"npm test":                            "npm test",
		"cd web && npm run 'test'":            "cd web|npm run test",
		"a; b\nc":                             "a|b|c",
		"a | b":                               "a|b",
		"{ a; b; }":                           "a|b",
		"CI=1 npm test":                       "npm test",
		"time a":                              "a",
		"set -e; a":                           "set -e|a",
		"export X=1; a":                       "a",
		"[[ -f x ]] && a":                     "a",
		"a || b":                              "",
		"a; b || c":                           "a",
		"! a":                                 "",
		"a & b":                               "",
		"if a; then b; fi; c":                 "",
		"a; for i in x; do b; done":           "a",
		"f() { a; }; f":                       "",
		"PATH=x:$PATH a":                      "",
		"export PATH=x; a":                    "",
		"a; . ./env; b":                       "a|. ./env",
		"source env && b":                     "source env",
		"$RUN a":                              "",
		"./x \"$Y\"":                          "./x ...",
		"a <<EOF\nx\nEOF\nb":                  "a|b",
		strings.Repeat("(", 1000) + "a":       "",
		"alias a=b\na":                        "alias a=b",
		"echo 'if true; then' && \"my prog\"": "echo if true; then|my prog",
	} {
		got, err := Steps(command)
		var all []string
		for _, s := range got {
			all = append(all, strings.Join(s.Words, " "))
		}
		if strings.Join(all, "|") != want || err != nil {
			t.Errorf("Steps(%q) = %q, %v, want %q", command, all, err, want)
		}
	}
	for _, command := range []string{"if true; then", "echo (a)", `echo "a`, "a &&", "a )"} {
		if got, err := Steps(command); err == nil || got != nil {
			t.Errorf("Steps(%q) = %q, %v, want an error", command, got, err)
		}
	}
}

// TestStepsAreParts: every step is a part of what the policy looks at.
func TestStepsAreParts(t *testing.T) {
	words := []string{"a", "b c", "&&", ";", "|", "||", "'x y'", "$V", "{", "}", "(", ")", "if", "then", "fi", "cd d", "\n", "!", "&"}
	rapid.Check(t, func(t *rapid.T) {
		command := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 8).Draw(t, "words"), " ")
		steps, err := Steps(command)
		if err != nil {
			return
		}
		parts := Analyse(command).Parts
		for _, s := range steps {
			if !slices.ContainsFunc(parts, func(p Part) bool { return slices.Equal(p.Words, s.Words) }) {
				t.Fatalf("the step %q of %q is no part", s.Words, command)
			}
		}
	})
}

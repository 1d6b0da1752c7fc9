package gate

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

func TestPrerequisites(t *testing.T) {
	t.Parallel()
	outside := repo(t, map[string]string{"x.md": "x"})
	root := repo(t, map[string]string{
		"done.md": "- [x] a\n```\n- [ ] b\n```\n", "open.md": "- [ ] a\n- [ ] b\n", "jtbd.md": "| US-001 | Core builder |\n",
		"win.md": "first\r\nlast\r\n", "blank.md": " \n\t", "dir/": "", "loops/t/3.md": "xyz", "out.md": "-> " + outside + "/x.md",
	})
	vars := map[string]string{"repo": root, "loop_id": "t", "loop": "t", "iteration": "3"}
	for _, tt := range []struct {
		check  PrerequisiteCheck
		reason string // "" holds
	}{
		{PrerequisiteCheck{Type: CheckMarkdownComplete, Path: "done.md"}, ""},
		{PrerequisiteCheck{Type: CheckMarkdownComplete, Path: "open.md"}, "unchecked_items_remaining"},
		{PrerequisiteCheck{Type: CheckMarkdownComplete, Path: "gone.md"}, "file_not_found"},
		{PrerequisiteCheck{Type: CheckMarkdownComplete, Path: "dir"}, "not_a_file"},
		{PrerequisiteCheck{Type: CheckMarkdownComplete, Path: "out.md"}, "path_outside_repo"},
		{PrerequisiteCheck{Type: CheckMarkdownComplete, Path: outside + "/x.md"}, "path_outside_repo"},
		{PrerequisiteCheck{Type: CheckMarkdownComplete}, "missing_path"},
		{PrerequisiteCheck{Type: CheckRegexPresent, Path: "jtbd.md", Pattern: `US-\d{3}\s\|`}, ""},
		{PrerequisiteCheck{Type: CheckRegexPresent, Path: "jtbd.md", Pattern: `us-001`}, "pattern_not_found"},
		{PrerequisiteCheck{Type: CheckRegexPresent, Path: "jtbd.md", Pattern: `us-001`, Flags: "gi"}, ""},
		{PrerequisiteCheck{Type: CheckRegexPresent, Path: "jtbd.md", Pattern: `a`, Flags: "x"}, `invalid_regex:unknown flag 'x'; known are g, i, m, s, u, y`},
		{PrerequisiteCheck{Type: CheckRegexPresent, Path: "jtbd.md", Pattern: `a`, Flags: "ii"}, `invalid_regex:flag 'i' is given twice`},
		{PrerequisiteCheck{Type: CheckRegexPresent, Path: "jtbd.md", Pattern: `(`}, "invalid_regex:error parsing regexp: missing closing ): `(`"},
		{PrerequisiteCheck{Type: CheckRegexPresent, Path: "jtbd.md"}, "missing_pattern"},
		{PrerequisiteCheck{Type: CheckRegexPresent, Path: "win.md", Pattern: `^first$`, Flags: "m"}, ""},
		{PrerequisiteCheck{Type: CheckRegexPresent, Path: "win.md", Pattern: `first\r\n`}, ""},
		{PrerequisiteCheck{Type: CheckRegexAbsent, Path: "jtbd.md", Pattern: `\| US-00[1-3] \|\s*\|`}, ""},
		{PrerequisiteCheck{Type: CheckRegexAbsent, Path: "jtbd.md", Pattern: `Core`}, "pattern_present"},
		{PrerequisiteCheck{Type: CheckRegexAbsent, Path: "gone.md", Pattern: `Core`}, "file_not_found"},
		{PrerequisiteCheck{Type: CheckRegexAbsent, Path: "jtbd.md", Pattern: `(?=x)`}, "invalid_regex:error parsing regexp: invalid or unsupported Perl syntax: `(?=`"},
		{PrerequisiteCheck{Type: CheckContainsAll, Path: "jtbd.md", Needles: []string{"Core", "US-001"}}, ""},
		{PrerequisiteCheck{Type: CheckContainsAll, Path: "jtbd.md", Needles: []string{"Core", "nope"}}, "missing_required_content"},
		{PrerequisiteCheck{Type: CheckContainsAll, Path: "jtbd.md"}, "missing_needles"},
		{PrerequisiteCheck{Type: CheckContainsAll, Path: "jtbd.md", Needles: []string{""}}, "empty_needle"},
		{PrerequisiteCheck{Type: CheckNotContainsAny, Path: "jtbd.md", Needles: []string{"TBD", "TODO"}}, ""},
		{PrerequisiteCheck{Type: CheckNotContainsAny, Path: "jtbd.md", Needles: []string{"TBD", "Core"}}, "forbidden_content_present"},
		{PrerequisiteCheck{Type: CheckFileExists, Path: "dir"}, ""},
		{PrerequisiteCheck{Type: CheckFileExists, Path: "dir/../../x"}, "path_outside_repo"},
		{PrerequisiteCheck{Type: CheckFileExists, Path: "gone"}, "file_not_found"},
		{PrerequisiteCheck{Type: CheckFileExists, Path: "{repo}/done.md"}, ""},
		{PrerequisiteCheck{Type: CheckFileNonempty, Path: "loops/{loop}/{iteration}.md", MinChars: 3}, ""},
		{PrerequisiteCheck{Type: CheckFileNonempty, Path: "loops/{loop_id}/{iteration}.md", MinChars: 4}, "file_too_short"},
		{PrerequisiteCheck{Type: CheckFileNonempty, Path: "loops/{unknown}/3.md"}, "file_not_found"},
		{PrerequisiteCheck{Type: CheckFileNonempty, Path: "blank.md"}, "file_too_short"},
		{PrerequisiteCheck{Type: "file_executable", Path: "done.md"}, "unsupported_check_type:file_executable"},
		{PrerequisiteCheck{Path: "done.md"}, "unsupported_check_type:unknown"},
	} {
		res, err := prerequisites(root, []PrerequisiteCheck{tt.check}, vars)
		must(t, err)
		reason := ""
		if len(res.Failed) == 1 {
			reason = res.Failed[0].Reason
		}
		if reason != tt.reason || res.OK != (tt.reason == "") || len(res.Verified)+len(res.Failed) != 1 {
			t.Errorf("%+v: got %q, %+v", tt.check, reason, res)
		}
	}
	if _, err := prerequisites(root+"/gone", nil, nil); err == nil {
		t.Error("a repository that is not there is no error")
	}
}

func TestPrerequisitesResults(t *testing.T) {
	t.Parallel()
	root := repo(t, map[string]string{"a.md": "x TODO\n"})
	res, err := prerequisites(root, []PrerequisiteCheck{
		{ID: "there", Type: CheckFileExists, Path: "a.md"},
		{Type: CheckRegexAbsent, Path: "a.md", Pattern: "TO.O"},
		{Type: CheckFileExists},
	}, nil)
	must(t, err)
	equal(t, "results", string(res.ResultsJSON(noon)), `{
  "ok": false,
  "generated_at": "2026-11-21T12:00:00Z",
  "total": 3,
  "passed": 1,
  "verified": [
    "there"
  ],
  "failed": [
    {
      "id": "file_regex_absent:a.md",
      "type": "file_regex_absent",
      "path": "a.md",
      "reason": "pattern_present",
      "details": {
        "line": 1,
        "match": "TODO",
        "pattern": "TO.O"
      }
    },
    {
      "id": "file_exists:2",
      "type": "file_exists",
      "path": "",
      "reason": "missing_path",
      "details": {
        "path": ""
      }
    }
  ]
}
`)
	equal(t, "status", string(StatusJSON(res.Status(), "l/prerequisites-results.json", noon)),
		"{\n  \"ok\": false,\n  \"status\": \"failed\",\n  \"generated_at\": \"2026-11-21T12:00:00Z\",\n  \"results_file\": \"l/prerequisites-results.json\"\n}\n")
	m := decode(t, StatusJSON(StatusSkipped, "", noon))
	if m["ok"] != true || m["results_file"] != nil {
		t.Errorf("skipped: %v", m)
	}
}

func TestJavaScriptRegex(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, flags, text string
		want                 bool
	}{
		{`a.c`, "", "a\nc", false}, {`a.c`, "s", "a\nc", true},
		{`^b`, "", "a\nb", false}, {`^b`, "m", "a\nb", true},
		{`b`, "y", "ab", false}, {`b|x`, "y", "xb", true}, {`a`, "guy", "ab", true},
		{`\u0041\u{1F600}`, "u", "A\U0001F600", true},
		{`[^]b`, "", "\nb", true}, {`a[]`, "", "a", false},
		{`\s`, "", "\u00a0", true}, {`\S`, "", "\u00a0", false}, {`[\s]`, "", "\ufeff", true}, {`[^\s]`, "", "\v", false},
		{`[[]x`, "", "[x", true}, {`[[:alpha:]]`, "", "l]", true}, {`[\b]`, "", "\b", true},
		{`\/x\-y`, "", "/x-y", true}, {`[a\]b]+$`, "", "a]b", true}, {`(?<year>\d{4})`, "", "2026", true},
		{`\\s`, "", `\s`, true}, {`\$\{x\}`, "", "${x}", true}, {`\.`, "", "x", false},
	} {
		re, err := compileRegex(tt.pattern, tt.flags)
		if err != nil {
			t.Errorf("/%s/%s: %v", tt.pattern, tt.flags, err)
			continue
		}
		if got := re.MatchString(tt.text); got != tt.want {
			t.Errorf("/%s/%s on %q: got %t (%s)", tt.pattern, tt.flags, tt.text, got, re)
		}
	}
	for _, bad := range []string{`(?!x)`, `(a)\1`, `[`, `\`, `a{2,1}`} {
		if _, err := compileRegex(bad, ""); err == nil {
			t.Errorf("/%s/ compiles", bad)
		}
	}
}

// A text that is quoted means itself in both syntaxes, and no pattern makes the
// translation panic.
func TestJavaScriptRegexQuoted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 20, -1).Draw(t, "text")
		re, err := compileRegex(regexp.QuoteMeta(text), "")
		if err != nil || !re.MatchString("x"+text+"y") {
			t.Fatalf("%q: %v %v", text, re, err)
		}
		_, _ = compileRegex(rapid.String().Draw(t, "pattern"), rapid.StringMatching(`[gimsuyx]{0,3}`).Draw(t, "flags"))
		_, _ = compileRegex(rapid.StringMatching(`[\\\[\]\^us{}0-9a]{0,12}`).Draw(t, "odd pattern"), "")
	})
}

func prerequisites(root string, checks []PrerequisiteCheck, vars map[string]string) (r PrerequisitesResult, err error) {
	err = r.Look(root, checks, vars)
	return r, err
}

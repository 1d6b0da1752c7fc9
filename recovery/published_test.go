package recovery

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// changed is the published proposal with one field set, or removed if value is nil. The field is named by its path.
func changed(t *testing.T, path string, value any) []byte {
	t.Helper()
	var whole map[string]any
	if err := json.Unmarshal([]byte(published), &whole); err != nil {
		t.Fatal(err)
	}
	at, keys := whole, strings.Split(path, "/")
	for _, key := range keys[:len(keys)-1] {
		at = at[key].(map[string]any)
	}
	last := keys[len(keys)-1]
	if _, there := at[last]; !there {
		t.Fatalf("the published proposal has no %s", path)
	}
	if at[last] = value; value == nil {
		delete(at, last)
	}
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestRequiredFields: a proposal without a field that the published design requires is none, and the field is named;
// without an optional one it is whole.
// Conforms: 004-1-required, 004-1-expected, 004-1-fallback
func TestRequiredFields(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"version", "timestamp", "category", "severity", "diagnosis", "diagnosis/error_pattern", "diagnosis/root_cause",
		"diagnosis/evidence", "recovery", "recovery/command", "recovery/expected_outcome", "recovery/confidence", "fallback/command", "fallback/confidence"} {
		p, problems := DecodeProposal(changed(t, path, nil), 0)
		key := path[strings.LastIndex(path, "/")+1:]
		if p != nil || len(problems) != 1 || !strings.Contains(problems[0].Pointer+" "+problems[0].Message, key) {
			t.Errorf("without %s: %+v, %v", path, p, problems)
		}
	}
	for _, path := range []string{"recovery/working_dir", "recovery/timeout_seconds", "fallback"} {
		p, problems := DecodeProposal(changed(t, path, nil), 0)
		if len(problems) > 0 || (p.Fallback == nil) != (path == "fallback") {
			t.Errorf("without %s: %+v, %v", path, p, problems)
		}
	}
}

// TestWordsOfAProposal: the words that the published design has for a field are taken, and no others.
// Conforms: 004-1-category, 004-1-severity, 004-1-confidence
func TestWordsOfAProposal(t *testing.T) {
	t.Parallel()
	categories := []string{"dependency", "config", "environment", "permissions", "network"}
	severities := []string{"blocking", "degraded"}
	confidences := []string{"high", "medium", "low"}
	all := slices.Concat(categories, severities, confidences, []string{"", "High", "code", "unknown"})
	for path, words := range map[string][]string{
		"category": categories, "severity": severities, "recovery/confidence": confidences, "fallback/confidence": confidences,
	} {
		for _, word := range all {
			p, problems := DecodeProposal(changed(t, path, word), 0)
			if taken := p != nil && len(problems) == 0; taken != slices.Contains(words, word) {
				t.Errorf("%s %q: taken %t, %v", path, word, taken, problems)
			}
		}
	}
}

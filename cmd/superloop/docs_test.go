package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreatModelNamesTestsThatExist: a defence whose test was renamed or removed
// must not go on being claimed.
func TestThreatModelNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	root := "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "THREAT_MODEL.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 20 {
		t.Fatalf("only %d tests are named", len(named))
	}
	for _, n := range named {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(n[1]), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(source), "\nfunc "+n[2]+"(")
		}
		if !found {
			t.Errorf("%s has no %s", n[1], n[2])
		}
	}
	for _, n := range regexp.MustCompile("`([a-z0-9_-]+\\.txtar)`").FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join("testdata", "script", n[1])); err != nil {
			t.Error(err)
		}
	}
}

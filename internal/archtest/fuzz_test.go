package archtest

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decodes matches what turns bytes into values.
var decodes = regexp.MustCompile(`\bjson\.(Unmarshal|NewDecoder)\(|\btext\.Decode\(|\byaml\.NewDecoder\(|\bbinary\.(Decode|Uvarint)\(|\bzlib\.NewReader\(|\bjsonstream\.`)

// withoutFuzz are the packages that decode something and have no fuzz target, with the reason.
var withoutFuzz = map[string]string{
	"cmd/superloop":                  "what an operator types or pipes in; the configuration, whose reader is loop/config; the holder of a lock, which is shown cleaned",
	"cmd/superloop-fleet":            "the operator's own file, an invitation that an operator hands over, and what a machine says of itself, which is shown cleaned",
	"cmd/superloop/internal/doctor":  "it says whether a file can be decoded; loop/local reads it",
	"cmd/superloop/internal/project": "init reads the repository's manifests by internal/manifest, once, for the operator",
	"internal/batch":                 "it is nothing without the batches of recovery/verify and recovery/classify",
	"internal/testkit/mockapi":       "a test double",
	"internal/tools/prices":          "a developer's tool",
	"internal/tools/record":          "a developer's tool",
	"internal/tools/release":         "a developer's tool",
	"recovery/classify":              "which packages a repository declares is read by internal/manifest; the rest is the kernel's",
	"roles/agent/price":              "the table of prices is part of the program; the operator's own goes through schemas",
	"server/forge/forgefake":         "a test double",
}

// checkFuzz says which packages decode what nobody fuzzes, and which exceptions are not needed.
func checkFuzz(files, tests map[string][]byte, without map[string]string) (problems []string) {
	decoding, fuzzed := map[string]bool{}, map[string]bool{}
	for rel, src := range files {
		decoding[path.Dir(rel)] = decoding[path.Dir(rel)] || decodes.Match(src)
	}
	for rel, src := range tests {
		fuzzed[path.Dir(rel)] = fuzzed[path.Dir(rel)] || regexp.MustCompile(`(?m)^func Fuzz[A-Z]`).Match(src)
	}
	for _, pkg := range slices.Sorted(maps.Keys(decoding)) {
		if decoding[pkg] && !fuzzed[pkg] && without[pkg] == "" {
			problems = append(problems, fmt.Sprintf("package %s decodes something and has no fuzz target: write one with internal/testkit (.ci/run finds it by its name), or say in withoutFuzz of internal/archtest why nobody else writes these bytes", pkg))
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(without)) {
		if !decoding[pkg] || fuzzed[pkg] {
			problems = append(problems, fmt.Sprintf("%s is in withoutFuzz of internal/archtest and needs no exception (any more): remove it there", pkg))
		}
	}
	return problems
}

func TestEveryDecoderIsFuzzed(t *testing.T) {
	for _, problem := range checkFuzz(sources(t), goFiles(t, true), withoutFuzz) {
		t.Error(problem)
	}
}

func TestFuzzFindsViolations(t *testing.T) {
	decoder, target, plain := []byte("json.Unmarshal(data, &v)"), []byte("\nfunc FuzzX(f *testing.F) {"), []byte("")
	for name, c := range map[string]struct {
		files, tests map[string][]byte
		want         string
	}{
		"fuzzed":          {map[string][]byte{"a/b.go": decoder, "c/d.go": decoder}, map[string][]byte{"a/e_test.go": target}, ""},
		"not fuzzed":      {map[string][]byte{"a/b.go": decoder, "c/d.go": decoder}, map[string][]byte{"a/e_test.go": plain}, "package a decodes"},
		"fuzzed by now":   {map[string][]byte{"c/d.go": decoder}, map[string][]byte{"c/e_test.go": target}, "remove it there"},
		"decodes no more": {map[string][]byte{"c/d.go": plain}, nil, "remove it there"},
	} {
		got := strings.Join(checkFuzz(c.files, c.tests, map[string]string{"c": "why"}), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

package archtest

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write "+conformanceFile+" anew")

// documents are the published designs, by their numbers.
var documents = map[string]string{
	"000": "Remediation model",
	"001": "Verification self-repair",
	"002": "Recovery strategy framework",
	"003": "Failure response system",
	"004": "Infrastructure recovery",
}

// TestConformance: docs/conformance.md tells of each requirement of the published designs which tests prove it, from
// the tests' own comments, or why none does.
func TestConformance(t *testing.T) {
	text, err := os.ReadFile("../../" + requirementsFile)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseRequirements(string(text))
	if err != nil {
		t.Fatal(err)
	}
	found := readProofs(t)
	for _, problem := range checkConformance(all, found) {
		t.Error(problem)
	}
	page, want := "../../"+conformanceFile, conformancePage(all, found.of)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%s is not what the requirements and the tests say: go test ./internal/archtest -run TestConformance -update", conformanceFile)
	}
}

// readProofs reads the annotations of all tests of the module.
func readProofs(t *testing.T) proofs {
	t.Helper()
	p := proofs{of: map[string][]proof{}}
	for _, tests := range []bool{false, true} {
		files := goFiles(t, tests)
		for _, rel := range slices.Sorted(maps.Keys(files)) {
			p.readGo(rel, files[rel])
		}
	}
	scripts, err := filepath.Glob("../../" + scriptsDir + "/*/*.txtar")
	if err != nil || len(scripts) < 20 {
		t.Fatalf("%d scripts below %s (%v); is the path right?", len(scripts), scriptsDir, err)
	}
	for _, file := range scripts {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p.readScript(strings.TrimPrefix(filepath.ToSlash(file), "../../"), string(text))
	}
	return p
}

// conformancePage is docs/conformance.md.
func conformancePage(all []requirement, of map[string][]proof) string {
	var page strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }
	say("# Conformance\n")
	say("superloop carries out five published designs. This page lists each of their requirements, and the tests that prove it. A test made the page:")
	say("`go test ./internal/archtest -run TestConformance -update`. It reads the requirements from [requirements.tsv](../%s) and the", requirementsFile)
	say("tests from their own comments (`Conforms: 004-3.1-pause`). It fails when a requirement has neither a test nor a reason, when a test names none that")
	say("exists, or when this page is not current.\n")
	say("*Differs* is on purpose, for the reason that is told; a test that is named proves what superloop does instead. *Later* belongs to a part of superloop")
	say("that is not there yet. *Missing* is a gap.\n")
	say("| design | requirements | tested | differs | later | missing |\n|---|---|---|---|---|---|")
	sum := map[string]int{}
	for _, doc := range slices.Sorted(maps.Keys(documents)) {
		n := map[string]int{}
		for _, r := range all {
			if r.document() == doc {
				n["all"]++
				n[cmp.Or(r.kind, "tested")]++
			}
		}
		say("| [%s %s](#%s) | %d | %d | %d | %d | %d |", doc, documents[doc], anchor(doc+" "+documents[doc]),
			n["all"], n["tested"], n["differs"], n["later"], n["missing"])
		for k, v := range n {
			sum[k] += v
		}
	}
	say("| all | %d | %d | %d | %d | %d |", sum["all"], sum["tested"], sum["differs"], sum["later"], sum["missing"])
	for _, kind := range []string{"missing", "later"} {
		if sum[kind] == 0 {
			continue
		}
		say("\n## %s\n\n| requirement | | %s |\n|---|---|---|", strings.ToUpper(kind[:1])+kind[1:], map[string]string{"missing": "what", "later": "with"}[kind])
		for _, r := range all {
			if r.kind == kind {
				say("| `%s` | %s | %s |", r.id, r.text, r.reason)
			}
		}
	}
	for _, doc := range slices.Sorted(maps.Keys(documents)) {
		say("\n## %s %s", doc, documents[doc])
		section := ""
		for _, r := range all {
			if r.document() != doc {
				continue
			}
			if r.section != section {
				section = r.section
				say("\n### %s\n\n| | requirement | tested by |\n|---|---|---|", section)
			}
			say("| `%s` | %s | %s |", r.id, r.text, evidence(r, of[r.id]))
		}
	}
	return page.String()
}

// evidence is the last cell of a requirement's row: its reason, and links to its tests.
func evidence(r requirement, tests []proof) string {
	tests = slices.SortedFunc(slices.Values(tests), func(a, b proof) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.file, b.file))
	})
	var parts []string
	if r.kind != "" {
		parts = append(parts, "*"+r.kind+"*: "+r.reason)
	}
	for _, by := range tests {
		parts = append(parts, fmt.Sprintf("[%s](../%s)", by.name, by.file))
	}
	return strings.Join(parts, "; ")
}

// anchor is how a heading is linked to.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), " ", "-")
}

const oneRequirement = "004-1-version\t1. Format\tThe version is one\n"

func TestBadRequirementsAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"good":             {"# a comment\n\n" + oneRequirement, ""},
		"with a reason":    {"002-1-p1\t1. Chain\tfirst\tdiffers: it is better so\n", ""},
		"duplicate":        {oneRequirement + oneRequirement, "is there twice"},
		"the same text":    {oneRequirement + "004-1-again\t1. Format\tThe version is one\n", "is there twice"},
		"the same in two":  {oneRequirement + "003-1-again\t1. Format\tThe version is one\n", ""},
		"no such document": {"005-1-x\t1. Format\tx\n", "is no id"},
		"only a document":  {"004\t1. Format\tx\n", "is no id"},
		"large letters":    {"004-1-X\t1. Format\tx\n", "is no id"},
		"no text":          {"004-1-x\t1. Format\n", "want an id, a section"},
		"an empty cell":    {"004-1-x\t\tx\n", "want an id, a section"},
		"blanks":           {"004-1-x \t1. Format\tx\n", "want an id, a section"},
		"too many cells":   {"004-1-x\t1. Format\tx\tlater: y\tz\n", "want an id, a section"},
		"no reason":        {"004-1-x\t1. Format\tx\tdiffers: \n", "want an id, a section"},
		"unknown reason":   {"004-1-x\t1. Format\tx\twontfix: y\n", "is no reason"},
		"reason alone":     {"004-1-x\t1. Format\tx\tlater\n", "is no reason"},
		"a bar":            {"004-1-x\t1. Format\tx | y\n", "would end a cell"},
	} {
		_, err := parseRequirements(c.text)
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestAnnotationsThatProveNothingAreFound(t *testing.T) {
	const doc = "// TestA: something.\n// Conforms: 004-1-version\n"
	for name, c := range map[string]struct{ file, src, want string }{
		"good":               {"a_test.go", doc + "func TestA(t *testing.T) { t.Log() }", ""},
		"alone":              {"a_test.go", "// Conforms: 004-1-version\nfunc FuzzA(f *testing.F) { f.Add() }", ""},
		"two lines":          {"a_test.go", "// Conforms: 004-1-version\n// Conforms: 002-9\nfunc TestA(t *testing.T) { t.Log() }", "conforms to 002-9, which is not in"},
		"in a comment of /*": {"a_test.go", "/*\nConforms: 004-1-version\n*/\nfunc TestA(t *testing.T) { t.Log() }", ""},
		"an example":         {"a_test.go", "// Conforms: 004-1-version\nfunc ExampleA() {\n\tf()\n\t// Output: 1\n}", ""},
		"a script":           {"a.txtar", "# A script.\n# Conforms: 004-1-version\nexec superloop\n", ""},
		"a script's end":     {"a.txtar", "# Conforms: 004-1-version", ""},
		"unknown":            {"a_test.go", "// Conforms: 004-1-version, 004-1-other\nfunc TestA(t *testing.T) { t.Log() }", "conforms to 004-1-other, which is not in"},
		"no id":              {"a_test.go", "// Conforms: 004-1-version and more\nfunc TestA(t *testing.T) { t.Log() }", "is no id"},
		"nothing":            {"a_test.go", "// Conforms:\nfunc TestA(t *testing.T) { t.Log() }", `"" is no id`},
		"twice":              {"a_test.go", "// Conforms: 004-1-version, 004-1-version\nfunc TestA(t *testing.T) { t.Log() }", "twice"},
		"no annotation":      {"a_test.go", "func TestA(t *testing.T) { t.Log() }", "004-1-version (The version is one) has no test"},
		"in a text":          {"a_test.go", "// It Conforms: 004-1-version\nfunc TestA(t *testing.T) { t.Log() }", "has no test"},
		"in the function":    {"a_test.go", "func TestA(t *testing.T) {\n\t// Conforms: 004-1-version\n}", "outside of the doc comment"},
		"of a helper":        {"a_test.go", "// Conforms: 004-1-version\nfunc check(t *testing.T) { t.Log() }", "outside of the doc comment"},
		"of a method":        {"a_test.go", "// Conforms: 004-1-version\nfunc (x) TestA(t *testing.T) { t.Log() }", "outside of the doc comment"},
		"of TestMain":        {"a_test.go", "// Conforms: 004-1-version\nfunc TestMain(m *testing.M) { m.Run() }", "outside of the doc comment"},
		"of Testa":           {"a_test.go", "// Conforms: 004-1-version\nfunc Testa(t *testing.T) { t.Log() }", "outside of the doc comment"},
		"of a variable":      {"a_test.go", "// Conforms: 004-1-version\nvar x = 1", "outside of the doc comment"},
		"of code":            {"a.go", doc + "func TestA(t *testing.T) { t.Log() }", "outside of the doc comment"},
		"skips":              {"a_test.go", doc + "func TestA(t *testing.T) { t.Helper(); t.Skipf(\"later\") }", "only skips"},
		"empty":              {"a_test.go", doc + "func TestA(t *testing.T) {}", "only skips"},
		"skips sometimes":    {"a_test.go", doc + "func TestA(t *testing.T) { if x { t.Skip() } }", ""},
		"an example alone":   {"a_test.go", "// Conforms: 004-1-version\nfunc ExampleA() { f() }", "without output"},
		"no Go":              {"a_test.go", doc + "func", "expected"},
		"a skipped script":   {"a.txtar", "# Conforms: 004-1-version\nskip later\n", "only skips"},
		"a script sometimes": {"a.txtar", "# Conforms: 004-1-version\n[!linux] skip later\n", ""},
		"amid a script":      {"a.txtar", "# A script.\nexec superloop\n# Conforms: 004-1-version\n", "outside of the comment"},
	} {
		all, err := parseRequirements(oneRequirement)
		if err != nil {
			t.Fatal(err)
		}
		p := proofs{of: map[string][]proof{}}
		if strings.HasSuffix(c.file, ".go") {
			p.readGo(c.file, []byte("package a\n\n"+c.src))
		} else {
			p.readScript(c.file, c.src)
		}
		if got := strings.Join(checkConformance(all, p), "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestReasonsAndTestsFit: what is said to be missing has no test, and what differs may have one.
func TestReasonsAndTestsFit(t *testing.T) {
	by := proof{"a.TestA", "a/a_test.go"}
	for kind, want := range map[string]string{"differs": "", "later": "is said to be later", "missing": "is said to be missing"} {
		row := requirement{id: "004-1-x", text: "x", kind: kind, reason: "y"}
		got := strings.Join(checkConformance([]requirement{row}, proofs{of: map[string][]proof{row.id: {by}}}), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s with a test: got %q, want %q", kind, got, want)
		}
		if got := checkConformance([]requirement{row}, proofs{}); got != nil {
			t.Errorf("%s without a test: got %q", kind, got)
		}
		page := conformancePage([]requirement{row}, map[string][]proof{row.id: {by}})
		for _, want := range []string{"| `004-1-x` | x | *" + kind + "*: y; [a.TestA](../a/a_test.go) |", "| all | 1 | 0 |"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page does not hold %q:\n%s", kind, want, page)
			}
		}
	}
}

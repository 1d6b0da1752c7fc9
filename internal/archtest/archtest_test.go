package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sources gives every Go file of the module that is no test, by its path from
// the root.
func sources(t *testing.T) map[string][]byte {
	t.Helper()
	return goFiles(t, false)
}

// goFiles gives the module's Go files, those of tests or all others, by path.
func goFiles(t *testing.T, tests bool) map[string][]byte {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	err = filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (strings.HasPrefix(e.Name(), ".") && file != root || e.Name() == "testdata") {
			return fs.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") != tests {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = os.ReadFile(file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d files were found; is the root right?", len(files))
	}
	return files
}

func TestRules(t *testing.T) {
	files, rows := sources(t), readTable(t)
	for _, rel := range slices.Sorted(maps.Keys(files)) {
		for _, problem := range check(rows, rel, files[rel]) {
			t.Error(problem)
		}
	}
}

// TestTestsKeepTheirRules: tests may write, start processes and import what they
// like, but they hold no clock against an upper bound and waive nothing.
func TestTestsKeepTheirRules(t *testing.T) {
	files := goFiles(t, true)
	for _, rel := range slices.Sorted(maps.Keys(files)) {
		for _, problem := range checkTest(rel, files[rel]) {
			t.Error(problem)
		}
	}
}

// TestEveryPackageSaysWhatItIs: go doc shows a sentence for each package.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]bool{}
	for rel, src := range sources(t) {
		f, err := parser.ParseFile(token.NewFileSet(), rel, src, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Error(err)
			continue
		}
		pkg := path.Dir(rel)
		begin := "Package " + f.Name.Name + " "
		if f.Name.Name == "main" {
			begin = "Command " + path.Base(pkg) + " "
		}
		said[pkg] = said[pkg] || f.Doc != nil && strings.HasPrefix(f.Doc.Text(), begin)
	}
	for pkg, ok := range said {
		if !ok {
			t.Errorf("%s has no package comment (\"// Package ... \", or \"// Command ...\" for a main)", pkg)
		}
	}
}

// TestCommandsOfTheReadme: the two commands of README.md are what a newcomer
// types first, so they may not change unnoticed, and .ci/run runs them.
func TestCommandsOfTheReadme(t *testing.T) {
	for _, file := range []string{"README.md", ".ci/run"} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for _, command := range []string{"go run ./cmd/superloop demo", "go test ./..."} {
			if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, command) }) {
				t.Errorf("%s does not hold the command %q", file, command)
			}
		}
	}
}

// TestRulesFindViolations breaks each rule once.
func TestRulesFindViolations(t *testing.T) {
	rows := readTable(t)
	for name, c := range map[string]struct{ rel, src, want string }{
		"unknown":            {"attic/a.go", "package attic", "is not in the table of"},
		"empty name":         {"loop/util/a.go", "package util", "says nothing"},
		"upward import":      {"roles/a.go", "package roles\nimport _ \"" + module + "/loop\"", "roles may import"},
		"someone's library":  {"loop/a.go", "package loop\nimport _ \"os/exec\"", "which only internal/proc, internal/tools/release may"},
		"write":              {"roles/a.go", "package roles\nimport \"os\"\nvar f = os.WriteFile", "only internal/durable writes"},
		"renamed import":     {"roles/a.go", "package roles\nimport sys \"os\"\nvar f = sys.Rename", "only internal/durable writes"},
		"open for writing":   {"roles/a.go", "package roles\nimport \"os\"\nvar f, _ = os.OpenFile(\"x\", os.O_WRONLY, 0)", "os.OpenFile"},
		"mkdir outside":      {"internal/proc/run.go", "package proc\nimport \"os\"\nvar f = os.Mkdir", "control file of the kernel"},
		"clock":              {"loop/step_x.go", "package loop\nimport \"time\"\nvar t = time.Now()", "the machine has no clock"},
		"init":               {"loop/a.go", "package loop\nfunc init() {}", "no init()"},
		"sleep":              {"loop/a.go", "package loop\nimport \"time\"\nvar f = time.Sleep", "wait for the thing itself"},
		"exit":               {"roles/a.go", "package roles\nimport \"os\"\nvar f = os.Exit", "only main ends the process"},
		"no namespaces":      {"roles/a.go", "package roles\nimport \"" + module + "/internal/proc\"\nvar s, _ = proc.Start(proc.OnHost(\"\"))", "a command can end superloop and outlive it"},
		"timed test":         {"loop/a_test.go", "package loop\nimport \"time\"\nfunc TestA(t *testing.T) { if took := time.Since(x); took > time.Second { t.Fail() } }", "when the machine is busy"},
		"timed by thread":    {"loop/a_test.go", "package loop\nfunc TestA(t *testing.T) { best := min(best, threadTime()-from); worst := best; if worst > limit { t.Fail() } }", "when the machine is busy"},
		"long by itself":     {"loop/a_test.go", "package loop\nvar long = os.Getenv(\"SUPERLOOP_SLOW_TESTS\")", "ask testkit.Sample"},
		"wordy error":        {"loop/a.go", "package loop\nimport \"encoding/json\"\nvar err = json.Unmarshal(x, &y)", "repeats what it read"},
		"wordy decoder":      {"loop/a.go", "package loop\nimport \"encoding/json\"\nvar err = json.NewDecoder(x).Decode(&y)", "repeats what it read"},
		"fine: no error":     {"loop/a.go", "package loop\nimport \"encoding/json\"\nvar ok = json.Unmarshal(x, &y) == nil", ""},
		"shared generator":   {"loop/a_test.go", "package loop\nimport \"pgregory.net/rapid\"\nvar g = rapid.Custom(func(t *rapid.T) int { return rapid.Int().Draw(t, \"\") })", "race for its name"},
		"fine: generator":    {"loop/a_test.go", "package loop\nimport \"pgregory.net/rapid\"\nfunc g() *rapid.Generator[int] { return rapid.Int() }", ""},
		"fine: at least":     {"loop/a_test.go", "package loop\nimport \"time\"\nfunc TestA(t *testing.T) { if time.Since(x) < time.Second { t.Fail() } }", ""},
		"fine: bubble":       {"loop/a_test.go", "package loop\nimport \"time\"\nfunc TestA(t *testing.T) { synctest.Test(t, func() { if time.Since(x) > 1 { t.Fail() } }) }", ""},
		"long":               {"loop/a.go", "package loop\n" + strings.Repeat("\n", 400), "401 lines"},
		"impure machine":     {"loop/step_x.go", "package loop\nimport _ \"os\"", "package loop is the machine"},
		"machine and files":  {"loop/step_x.go", "package loop\nimport _ \"" + module + "/internal/durable\"", "package loop is the machine"},
		"world below":        {"loop/stats/a.go", "package stats\nimport _ \"net/http\"", "only loop/local, loop/effects"},
		"waiver":             {"loop/stats/a.go", "package stats\n// archtest:ignore", "a comment waives no rule"},
		"git by name":        {"roles/a.go", "package roles\nvar x, _ = tool.Run(ctx, \"git\", \"status\")", "only internal/gitcmd"},
		"git in a list":      {"roles/a.go", "package roles\nvar x = [][]string{{\"git\", \"init\"}}", "only internal/gitcmd"},
		"fine: a word":       {"roles/a.go", "package roles\nvar x = Check{\"git\", p.git}", ""},
		"programs of a test": {"roles/a.go", "package roles\nimport \"" + module + "/internal/proc\"\nvar x = proc.TrustInTests", "for tests"},
		"fine: machine":      {"loop/step_x.go", "package loop\nimport _ \"slices\"", ""},
		"fine: leaf":         {"loop/journal/a.go", "package journal\nimport _ \"os\"", ""},
		"read":               {"roles/a.go", "package roles\nimport \"os\"\nvar f = os.ReadFile", "only internal/door opens"},
		"open for reading":   {"roles/a.go", "package roles\nimport \"os\"\nvar f, _ = os.OpenFile(\"x\", os.O_RDONLY, 0)", "only internal/door opens"},
		"fine: door":         {"internal/door/a.go", "package door\nimport \"os\"\nvar f, _ = os.OpenFile(\"x\", os.O_RDONLY, 0)", ""},
		"fine: kernel":       {"escalation/caller.go", "package escalation\nimport \"os\"\nvar f = os.ReadFile", ""},
		"fine: cgroup":       {"internal/proc/cgroup_linux.go", "package proc\nimport \"os\"\nvar f = os.Mkdir", ""},
		"fine: agent sleeps": {"cmd/superloop/internal/script/a.go", "package script\nimport \"time\"\nvar f = time.Sleep", ""},
	} {
		problems := check(rows, c.rel, []byte(c.src))
		if strings.HasSuffix(c.rel, "_test.go") {
			problems = checkTest(c.rel, []byte(c.src))
		}
		got := strings.Join(problems, "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

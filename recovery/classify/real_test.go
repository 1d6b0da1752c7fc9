package classify_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/failures"
	"github.com/superloop/superloop/recovery/remedy"
)

// realCase is a failure that a real tool really had, with what is known to be
// wrong; internal/tools/record makes them.
type realCase struct {
	ID           string   `json:"id"`
	Tool         string   `json:"tool"`
	Command      string   `json:"command"`
	ExitCode     int      `json:"exit_code"`
	Signal       string   `json:"signal"`
	TimedOut     bool     `json:"timed_out"`
	Stdout       string   `json:"stdout"`
	Stderr       string   `json:"stderr"`
	WantCode     bool     `json:"want_code"`
	WantCategory []string `json:"want_category"`
	WantRemedy   []string `json:"want_cure"`
	Note         string   `json:"note"`
	// Files are small files of the project that the output names, by their paths.
	Files map[string]string `json:"files"`
}

// bars are the least shares of right verdicts: infrastructure or code, category,
// recovery. They are a little below what is reached: all corpora but held were
// looked at. cases/README.md of internal/tools/record has what each reached the
// first time. testdata/said.tsv has messages of other programs.
var bars = map[string][3]float64{"dev": {0.99, 0.98, 0.98}, "held": {0.98, 0.94, 0.96}, "fresh": {0.97, 0.92, 0.88}, "last": {0.97, 0.92, 0.88},
	"wide": {0.98, 0.96, 0.97}, "final": {0.98, 0.97, 0.97}, "blind": {0.97, 0.94, 0.95}, "dawn": {0.98, 0.97, 0.98}, "dusk": {0.97, 0.95, 0.97}, "duskheld": {0.97, 0.94, 0.95},
	"noon": {0.98, 0.97, 0.98}, "eve": {0.96, 0.96, 0.96},
	"night": {0.99, 0.98, 0.98}, "morrow": {0.98, 0.95, 0.98}, "frost": {0.98, 0.96, 0.98}, "thaw": {0.96, 0.96, 0.96},
	"rime": {0.98, 0.98, 0.98}, "dew": {0.98, 0.97, 0.98}, "sleet": {0.98, 0.98, 0.98}, "hail": {0.95, 0.95, 0.95},
	"snow": {0.98, 0.98, 0.98}, "fog": {0.98, 0.97, 0.96}}

// score counts what was judged rightly.
type score struct{ cases, code, side, category, cure, dangerous, traps, trapped int }

func (s *score) add(o score) {
	s.cases += o.cases
	s.code += o.code
	s.side += o.side
	s.category += o.category
	s.cure += o.cure
	s.dangerous += o.dangerous
	s.traps += o.traps
	s.trapped += o.trapped
}

func (s score) String() string {
	p := func(n int) string { return fmt.Sprintf("%d/%d %5.1f%%", n, s.cases, 100*float64(n)/float64(s.cases)) }
	return fmt.Sprintf("infra/code %s, category %s, recovery %s, code that a recovery would run on: %d (%d infra, %d code), traps taken for the environment: %d of %d",
		p(s.side), p(s.category), p(s.cure), s.dangerous, s.cases-s.code, s.code, s.trapped, s.traps)
}

// embedded is the catalog as it comes, and its classifier.
func embedded(t *testing.T) (*catalog.Catalog, *classify.Classifier) {
	t.Helper()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	c, err := classify.New(cat, classify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return cat, c
}

// The figures on failures of real tools: those on which the catalog may be
// tuned, and those on which it was not.
// Conforms: 002-plan-1, 003-c2-first, 003-test-classify, 003-r2, 003-sc-classified, 003-sc-fixes
func TestRealFailures(t *testing.T) {
	t.Parallel()
	cat, c := embedded(t)
	policy := suggestedPolicy(t)
	profile := remedy.Presets()["debian12"]
	for i, name := range slices.Sorted(maps.Keys(bars)) {
		if i%testkit.Sample(2, 1, 1) != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var total score
			tools := map[string]*score{}
			mistakes := map[string]int{}
			for _, r := range readReal(t, name+".jsonl") {
				dir := directoryOf(t, &r)
				f, err := c.Classify(context.Background(), classify.Input{
					Source: classify.SourceCommand, Command: r.Command, Dir: dir,
					Exit:   classify.Exit{Code: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut},
					Stdout: strings.NewReader(r.Stdout), Stderr: strings.NewReader(r.Stderr),
				})
				if err != nil {
					t.Errorf("%s: %v", r.ID, err)
					continue
				}
				plan := remedy.Resolve(cat, f, profile, remedy.Situation{})
				gate, option := remedy.Gate(&plan, policy)
				got, wrong := judgeReal(r, f, &plan, gate, option)
				// The held-out cases are told by their figures alone, so that nobody
				// tunes on them by accident.
				if len(wrong) > 0 && name != "held" {
					t.Logf("%s (%s): %s\n\tsaid: %s %s code=%t gate=%s: %s", r.ID, r.Tool, strings.Join(wrong, "; "), f.Category, f.Handler, f.Code, gate, f.Why)
				}
				if got.dangerous > 0 {
					t.Errorf("%s: a failure of the code is called %s (%s), and %s would run", r.ID, f.Category, f.Handler, gate)
				}
				// What is firm, a prompt, a root cause and a check take for a fact.
				if strings.Contains(r.ID, "-trap-") && !f.Code && failures.Firm(f.Weak, f.Confidence) {
					t.Errorf("%s: what only quotes the environment would be told as a fact to be %s (%s)", r.ID, f.Category, f.Handler)
				}
				if f.Code != r.WantCode || !slices.Contains(r.WantCategory, f.Category) {
					mistakes[fmt.Sprintf("%s taken for %s, gate %s", r.WantCategory[0], f.Category, gate)]++
				}
				tool, _, _ := strings.Cut(r.Tool, " ")
				if tools[tool] == nil {
					tools[tool] = &score{}
				}
				tools[tool].add(got)
				total.add(got)
			}
			for _, tool := range slices.Sorted(maps.Keys(tools)) {
				t.Logf("%-12s %s", tool, tools[tool])
			}
			for _, kind := range slices.Sorted(maps.Keys(mistakes)) {
				t.Logf("%3d %s", mistakes[kind], kind)
			}
			t.Logf("%-12s %s", "ALL "+name, total)
			bar := func(what string, n int, least float64) {
				if got := float64(n) / float64(max(1, total.cases)); got < least {
					t.Errorf("%s: %.1f%% are right, %.0f%% are demanded", what, 100*got, 100*least)
				}
			}
			least := bars[name]
			bar("infrastructure or code", total.side, least[0])
			bar("category", total.category, least[1])
			bar("recovery", total.cure, least[2])
		})
	}
}

// judgeReal compares a verdict with what is known, and says what is wrong.
func judgeReal(r realCase, f classify.Failure, plan *remedy.Plan, gate string, option *remedy.Option) (score, []string) {
	s := score{cases: 1}
	var wrong []string
	check := func(ok bool, n *int, format string, args ...any) {
		if ok {
			*n++
		} else {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	if r.WantCode {
		s.code = 1
	}
	if strings.Contains(r.ID, "-trap-") {
		s.traps, s.trapped = 1, 1
		if f.Code {
			s.trapped = 0
		}
	}
	check(f.Code == r.WantCode, &s.side, "code is %t, should be %t", f.Code, r.WantCode)
	check(slices.Contains(r.WantCategory, f.Category), &s.category, "category is %s, should be %s", f.Category, strings.Join(r.WantCategory, " or "))
	check(sensible(r, plan, gate, option), &s.cure, "no cure like %s among %s", strings.Join(r.WantRemedy, " or "), offered(plan))
	// The same command once more changes nothing, so a plain retry of what nobody
	// knows is a wrong side, not a danger.
	if r.WantCode && (gate == remedy.GateAuto || gate == remedy.GateRetry && f.Infra) {
		s.dangerous = 1
		wrong = append(wrong, "a recovery would run: "+gate)
	}
	return s, wrong
}

// firstOptions is how many options of a plan an operator looks at.
const firstOptions = 3

// sensible reports whether what would be done, or one of the first options that
// are possible, is what cures it.
func sensible(r realCase, plan *remedy.Plan, gate string, option *remedy.Option) bool {
	if slices.Contains(r.WantRemedy, "none") {
		return gate == remedy.GateNone
	}
	for _, want := range r.WantRemedy {
		switch {
		case want == "human" && (gate == remedy.GateHuman || option != nil && option.Executor == catalog.ByHuman),
			want == "retry" && gate == remedy.GateRetry:
			return true
		}
		n := 0
		for i := range plan.Options {
			o := &plan.Options[i]
			if o.Availability == remedy.Impossible {
				continue
			}
			if n++; n > firstOptions {
				break
			}
			text := strings.ToLower(strings.Join([]string{o.ID, o.Label, string(o.Strategy), o.Command, o.Instructions}, "\n"))
			if strings.Contains(text, strings.ToLower(want)) {
				return true
			}
		}
	}
	return false
}

func offered(plan *remedy.Plan) string {
	var out []string
	for i := range plan.Options {
		if o := &plan.Options[i]; o.Availability != remedy.Impossible && len(out) < firstOptions {
			out = append(out, fmt.Sprintf("%s (%s)", o.ID, o.Command))
		}
	}
	return strings.Join(out, ", ")
}

// suggestedPolicy lists everything that the documentation suggests to list, so
// that whatever could run, would.
func suggestedPolicy(t *testing.T) *recovery.Policy {
	t.Helper()
	list := []string{
		"npm install", "npm ci", "pnpm install", "yarn install", "bun install", "npm cache verify",
		"rm -rf node_modules && npm install", "rm -rf node_modules && npm ci", "rm -rf node_modules && pnpm install",
		"rm -rf node_modules && yarn install", "rm -rf node_modules && bun install",
		"rm -rf .next && npm run build", "rm -rf dist && npm run build",
		"go mod download", "go mod vendor", "go mod tidy", "go clean -cache", "cargo fetch", "cargo clean", "cmake -B build",
		"python3 -m venv .venv && .venv/bin/pip install -r requirements.txt", "bundle install", "composer install", "git worktree prune",
	}
	raw, err := json.Marshal(map[string]any{"enabled": true, "auto_approve": list})
	if err != nil {
		t.Fatal(err)
	}
	p, problems := recovery.ReadPolicy(recovery.Section{Raw: raw, Pointer: "/recovery"})
	if p == nil {
		t.Fatal(problems)
	}
	return p
}

// directoryOf returns a directory with the files of a case, or "" if it has none.
// What the case says of files in its repository is then about those.
func directoryOf(t *testing.T, r *realCase) string {
	t.Helper()
	if len(r.Files) == 0 {
		return ""
	}
	dir := t.TempDir()
	for name, text := range r.Files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.Stdout, r.Stderr = strings.ReplaceAll(r.Stdout, "/repo/", dir+"/"), strings.ReplaceAll(r.Stderr, "/repo/", dir+"/")
	return dir
}

func readReal(t *testing.T, name string) []realCase {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "real", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []realCase
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var r realCase
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatalf("%s: line %d: %v", name, len(list)+1, err)
		}
		list = append(list, r)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatalf("%s has no cases", name)
	}
	return list
}

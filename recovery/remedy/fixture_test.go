package remedy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

func embedded(t testing.TB) *catalog.Catalog {
	t.Helper()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// repo makes a directory with the files.
func repo(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func npmRepo(t testing.TB) string {
	return repo(t, map[string]string{
		"package.json":      `{"name":"x","scripts":{"build":"tsc","test":"vitest"},"devDependencies":{"vitest":"1"}}`,
		"package-lock.json": `{"lockfileVersion":3}`,
	})
}

// failure is one that the handler with these options recognised.
func failure(category string, dir string, argv []string, h *catalog.Handler, captures map[string]string) classify.Failure {
	f := classify.Failure{
		Category: category, Area: "environment", Persistence: "environment", Severity: "blocking", Infra: true, Confidence: .9,
		Argv: argv, Command: strings.Join(argv, " "), Dir: dir, Signature: "s", Why: "Something of the environment is wrong.",
		Evidence: []classify.Evidence{{Stream: "stderr", Line: 3, Text: "npm error code X (1)"}},
	}
	if h != nil {
		f.Handler, f.Layer, f.Captures = h.ID, h.Layer, captures
		f.Matches = []classify.Match{{Handler: h, Stream: "stderr", Line: 3, Text: "npm error code X (1)", Captures: captures}}
	}
	return f
}

func handler(id string, layer catalog.Layer, family string, options ...catalog.Option) *catalog.Handler {
	return &catalog.Handler{ID: id, Label: id, Category: "dependency", Layer: layer, Family: family, Options: options,
		Origin: catalog.Origin{Source: catalog.SourceEmbedded}}
}

// one works a single option of a handler out, and gives it.
func one(t *testing.T, cat *catalog.Catalog, o catalog.Option, p Profile, change func(*classify.Failure, *Situation)) Option {
	t.Helper()
	o.ID, o.Label = "x", "X"
	f := failure("auth", npmRepo(t), []string{"npm", "test"}, handler("h", catalog.LayerMethod, "npm", o), nil)
	s := Situation{Dir: f.Dir}
	if change != nil {
		change(&f, &s)
	}
	plan := Resolve(cat, f, p, s)
	for _, got := range plan.Options {
		if got.From.ID == "h" {
			return got
		}
	}
	t.Fatalf("the option is not in the plan: %+v", plan.Options)
	return Option{}
}

// check says what is wrong with a plan, whatever it is about.
func check(p *Plan, profile Profile, cat *catalog.Catalog) (problems []string) {
	bad := func(s ...string) { problems = append(problems, strings.Join(s, " ")) }
	if n := len(p.Options); n == 0 || p.Options[n-1].ID != AskUser {
		bad("the last option is not to ask an operator")
	}
	keys, effects, recommended := map[string]bool{}, map[string]bool{}, 0
	for i := range p.Options {
		o := &p.Options[i]
		if o.ID == AskUser && i < len(p.Options)-1 {
			bad("an operator is asked before the end")
		}
		if o.effect != "" && effects[o.effect] {
			bad(o.Key, "does what another does")
		}
		if keys[o.Key] {
			bad(o.Key, "is there twice")
		}
		keys[o.Key], effects[o.effect] = true, true
		if o.Recommended {
			recommended++
			if i != 0 {
				bad(o.Key, "is recommended and not the first")
			}
		}
		problems = append(problems, checkOption(o, profile, cat)...)
	}
	if recommended > 1 {
		bad("several are recommended")
	}
	return problems
}

func checkOption(o *Option, profile Profile, cat *catalog.Catalog) (problems []string) {
	bad := func(s ...string) { problems = append(problems, o.Key+": "+strings.Join(s, " ")) }
	switch o.Availability {
	case Ready:
		if len(o.UnlockDeps) > 0 {
			bad("is ready and needs", strings.Join(o.UnlockDeps, " "))
		}
	case Locked:
		if o.LockReason == "" || len(o.UnlockDeps) == 0 || len(o.UnlockPreview) != len(o.UnlockDeps) {
			bad("is locked without saying on what")
		}
		for _, v := range o.UnlockPreview {
			if v.Availability == Impossible || v.Command == "" {
				bad("is locked on what cannot be had:", v.Dep, v.Reason)
			}
		}
	case Impossible:
		if o.ImpossibleReason == "" {
			bad("is impossible without a reason")
		}
		if len(o.Steps) > 0 || o.Command != "" {
			bad("is impossible and has steps")
		}
	default:
		bad("has no availability")
	}
	if (o.Command != "") != (len(o.Steps) > 0) {
		bad("its text and its steps do not go together")
	}
	if o.Executor == catalog.ByWrapper && o.Availability == Ready && len(o.Steps) == 0 {
		bad("is ready and does nothing")
	}
	if placeholder().MatchString(o.Command) && !strings.Contains(o.Command, "${") && o.From.Kind != FromProposal {
		bad("has a placeholder left:", o.Command)
	}
	made := map[string]bool{}
	for _, s := range o.Steps {
		if len(s.Argv) == 0 || s.For == "" {
			bad("has an empty step")
			continue
		}
		argv := s.Argv
		if argv[0] == "sudo" {
			if profile.Root || profile.Sudo == SudoNone {
				bad("uses sudo where it cannot")
			}
			argv = argv[1:]
			if argv[0] == "-n" {
				argv = argv[1:]
			}
		} else if s.Sudo && !profile.Root {
			bad("needs the superuser and does not say sudo")
		}
		if strings.Contains(argv[0], "/") || o.From.Kind == FromProposal || o.Substitutes && s.For == o.GoalKey {
			made[filepath.Base(argv[0])] = true
			continue
		}
		provided := slices.ContainsFunc(o.Steps, func(other Step) bool {
			r, ok := cat.Recipe(strings.TrimPrefix(other.For, "tool/"))
			return ok && other.For != s.For && r.CLI == argv[0]
		})
		if !profile.Has(argv[0]) && !provided {
			bad("calls", argv[0], "which nobody provides")
		}
	}
	return problems
}

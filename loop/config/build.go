package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/schemas"
)

// Defaults of the contract.
const (
	defaultTestTimeout       = 30 * time.Minute
	defaultValidationTimeout = 10 * time.Minute
	defaultStuckThreshold    = 5
	defaultSubjectLength     = 72
	defaultAttempts          = 3
	defaultBackoff           = 5 * time.Second
	legacyRunner             = "default"
)

// defaultIgnore are the globs of stuck.ignore when none is given.
func defaultIgnore() []string {
	return []string{".superloop/**", ".git/**", "node_modules/**", "dist/**", "build/**",
		"coverage/**", ".next/**", ".venv/**", ".tox/**", ".cache/**"}
}

// builder makes a Config of a file and collects what is wrong with it beyond
// the schema.
type builder struct {
	doc    *schemas.Document
	repo   string // absolute
	schema []Problem

	runners  map[string]Runner
	problems []Problem
	warnings []Problem
}

// wrong notes a problem at a pointer, unless the schema has one for the same
// value: the second would only be its echo.
func (b *builder) wrong(ptr string, p Problem) {
	if !b.named(ptr) {
		b.problems = append(b.problems, b.at(ptr, p))
	}
}

func (b *builder) warn(ptr, code, message string) {
	b.warnings = append(b.warnings, b.at(ptr, Problem{Code: code, Message: message}))
}

func (b *builder) at(ptr string, p Problem) Problem { return placed(b.doc, ptr, p) }

// placed gives a problem its place: that of the value, or of the nearest one
// around it when the value is not there.
func placed(doc *schemas.Document, ptr string, p Problem) Problem {
	p.Pointer = ptr
	for {
		line, col, ok := doc.Position(ptr)
		if ok {
			p.Line, p.Column = line, col
			return p
		}
		ptr = ptr[:max(0, strings.LastIndexByte(ptr, '/'))]
	}
}

// pointer joins tokens into a JSON pointer.
func pointer(tokens ...any) string {
	var s strings.Builder
	for _, t := range tokens {
		s.WriteByte('/')
		s.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(t)))
	}
	return s.String()
}

func (b *builder) config(f file) *Config {
	c := &Config{Runners: b.runnersOf(f), Prices: prices(f.Prices)}
	b.defaultRoles(f)
	b.defaultRespond(f)
	for i, l := range f.Loops {
		c.Loops = append(c.Loops, b.loop(f, l, pointer("loops", i)))
	}
	if len(f.Loops) == 0 && !b.named("/loops") {
		b.warn("/loops", CodeNoEffect, "there is no loop: nothing can run")
	}
	b.ids(f)
	b.webhook(f.Webhooks.OnEscalation)
	c.Escalation = b.escalation(f)
	return c
}

func prices(in map[string]fileRate) map[string]Rate {
	if in == nil {
		return nil
	}
	out := map[string]Rate{}
	for model, r := range in {
		out[model] = Rate(r)
	}
	return out
}

// named reports whether the schema has a problem at a pointer, or with the file
// as a whole.
func (b *builder) named(ptr string) bool {
	return slices.ContainsFunc(b.schema, func(p Problem) bool { return p.Pointer == ptr || p.Pointer == "" })
}

func (b *builder) loop(f file, l fileLoop, at string) Loop {
	out := Loop{
		ID: l.ID, SpecFile: b.inside(at+"/spec_file", l.SpecFile), MaxIterations: l.MaxIterations,
		MaxWallTime: l.MaxWallTime.d, MaxCostUSD: l.MaxCostUSD, MaxTokens: l.MaxTokens, CompletionPromise: strings.TrimSpace(l.CompletionPromise),
		Checklists: b.globs(at+"/checklists", l.Checklists),
		Evidence: Evidence{Enabled: l.Evidence.Enabled, RequireOnCompletion: l.Evidence.RequireOnCompletion,
			Artifacts: b.globs(at+"/evidence/artifacts", l.Evidence.Artifacts)},
		Approval:       Approval{Enabled: l.Approval.Enabled, RequireOnCompletion: l.Approval.RequireOnCompletion},
		ReviewerPacket: l.ReviewerPacket.Enabled,
		Retry:          Retry{Attempts: l.Retry.Attempts, Backoff: min(l.Retry.Backoff.or(defaultBackoff), 5*time.Minute)},
		Recovery:       b.doc.Raw(at+"/recovery", isComment),
	}
	if out.Retry.Attempts == 0 {
		out.Retry.Attempts = defaultAttempts
	}
	out.Tests = b.tests(l, at+"/tests")
	out.Validation = b.validation(l, at+"/validation")
	out.Prerequisites = b.prerequisites(l, at+"/prerequisites")
	out.Stuck = b.stuck(l, at+"/stuck")
	out.Git = b.git(l, at+"/git")
	out.Roles = b.roles(f, l, at)
	out.Respond = b.respond(f, l, at, out.Roles)
	b.ends(l, at)
	return out
}

func (b *builder) tests(l fileLoop, at string) Tests {
	t := Tests{Mode: l.Tests.Mode, Timeout: l.Tests.Timeout.or(defaultTestTimeout)}
	t.Commands = b.commands(at+"/commands", l.Tests.Commands)
	b.longSeconds(at+"/timeout", l.Tests.Timeout)
	switch {
	case t.Mode == "" && len(t.Commands) > 0:
		t.Mode = TestsEvery
	case t.Mode == "":
		t.Mode = TestsDisabled
	case (t.Mode == TestsEvery || t.Mode == TestsOnPromise) && len(t.Commands) == 0:
		b.wrong(at+"/commands", Problem{Code: schemas.CodeCombination, Found: "no command", Allowed: "at least one command",
			Message: fmt.Sprintf("tests.mode is %q, but there is no command; add one, or set the mode to %q", t.Mode, TestsDisabled)})
	}
	return t
}

// commands leaves blank ones out: under a shell they would pass and say nothing.
func (b *builder) commands(at string, list []string) []string {
	var out []string
	for i, c := range list {
		if strings.TrimSpace(c) == "" {
			b.warn(at+pointer(i), CodeNoEffect, "a blank command is left out")
			continue
		}
		out = append(out, c)
	}
	return out
}

func (b *builder) validation(l fileLoop, at string) Validation {
	in := l.Validation
	v := Validation{
		Enabled: in.Enabled && in.Mode != "disabled", Mode: TestsEvery, RequireOnCompletion: in.RequireOnCompletion,
		Commands: b.commands(at+"/commands", in.Commands), Timeout: in.Timeout.or(defaultValidationTimeout),
	}
	if in.Mode == TestsOnPromise {
		v.Mode = TestsOnPromise
	}
	b.longSeconds(at+"/timeout", in.Timeout)
	if p := in.Preflight; p != nil && (p.Enabled == nil || *p.Enabled) {
		v.Preflight = &Preflight{
			Entry: p.Entry, WebRoot: p.WebRoot, RequiredSelectors: p.RequiredSelectors, RequiredText: p.RequiredText,
			MinScriptBytes: p.MinScriptBytes, MaxScriptKB: p.MaxScriptKB, RequireScripts: p.RequireScripts,
		}
		if v.Preflight.WebRoot == "" {
			v.Preflight.WebRoot = "."
		}
		if p.Entry == "" {
			b.wrong(at+"/preflight/entry", Problem{Code: schemas.CodeMissingKey, Found: "nothing", Allowed: `"entry"`,
				Message: `preflight needs the HTML file to look at: the key "entry" is missing`})
		}
	}
	if v.Enabled && len(v.Commands) == 0 && v.Preflight == nil {
		b.warn(at, CodeNoEffect, "validation is enabled but has neither commands nor preflight: the gate is skipped")
	}
	if !v.Enabled && (len(v.Commands) > 0 || v.Preflight != nil) && in.Mode != "disabled" && !b.present(at+"/enabled") {
		b.warn(at, CodeNoEffect, "validation is not enabled, so nothing of it runs; set enabled to true")
	}
	return v
}

// present reports whether the file has a value at a pointer.
func (b *builder) present(ptr string) bool {
	_, _, ok := b.doc.Position(ptr)
	return ok
}

func (b *builder) stuck(l fileLoop, at string) Stuck {
	s := Stuck{Enabled: l.Stuck.Enabled, Threshold: defaultStuckThreshold, Action: "report_and_stop",
		Ignore: b.globs(at+"/ignore", l.Stuck.Ignore)}
	if l.Stuck.Threshold != nil {
		s.Threshold = *l.Stuck.Threshold
	}
	if s.Enabled && s.Threshold == 0 {
		b.warn(at+"/threshold", CodeNoEffect, "a threshold of 0 turns the stuck check off")
		s.Enabled = false
	}
	if len(s.Ignore) == 0 {
		s.Ignore = defaultIgnore()
	}
	return s
}

func (b *builder) git(l fileLoop, at string) Git {
	g := Git{CommitStrategy: l.Git.CommitStrategy, MaxSubjectLength: l.Git.CommitMessage.MaxSubjectLength, Worktree: l.Git.Worktree}
	if w := l.Git.PreCommitCommands; !w.isText {
		g.PreCommitCommands = w.list
	} else if strings.TrimSpace(w.text) != "" {
		g.PreCommitCommands = []string{w.text}
	}
	if g.CommitStrategy == "" {
		g.CommitStrategy = "never"
	}
	if g.MaxSubjectLength == 0 {
		g.MaxSubjectLength = defaultSubjectLength
	}
	if g.CommitStrategy == "on_test_pass" && len(l.Tests.Commands) == 0 {
		b.warn(at+"/commit_strategy", CodeNoEffect, "on_test_pass never commits in a loop without tests")
	}
	return g
}

// inside cleans a path of the repository and makes it relative to it.
func (b *builder) inside(ptr, path string) string {
	if path == "" {
		return "" // the schema wants one
	}
	rel := filepath.Clean(path)
	if filepath.IsAbs(rel) {
		if r, err := filepath.Rel(b.repo, rel); err == nil {
			rel = r
		}
	}
	if !filepath.IsLocal(rel) || rel == "." {
		b.wrong(ptr, Problem{Code: CodeOutside, Found: quoted(path), Allowed: "a file inside the repository",
			Message: fmt.Sprintf("%s is not a file inside the repository %s", quoted(path), b.repo)})
		return ""
	}
	return rel
}

// ids are the names of directories: the second of two that are the same is
// wrong.
func (b *builder) ids(f file) {
	exact := map[string]int{}
	folded := map[string]int{}
	for i, l := range f.Loops {
		ptr := pointer("loops", i, "id")
		fold := strings.ToLower(l.ID)
		if j, dup := exact[l.ID]; dup && l.ID != "" {
			b.wrong(ptr, Problem{Code: CodeDuplicate, Found: quoted(l.ID), Allowed: "an id that no other loop has",
				Message: fmt.Sprintf("the id %s is that of loops[%d] already", quoted(l.ID), j)})
		} else if j, near := folded[fold]; near && l.ID != "" {
			b.warn(ptr, CodeSuspicious, fmt.Sprintf("the id %s differs only in case from that of loops[%d]; some file systems hold them for one", quoted(l.ID), j))
		} else {
			exact[l.ID], folded[fold] = i, i
		}
	}
}

func (b *builder) runnerNames() []string { return slices.Sorted(maps.Keys(b.runners)) }

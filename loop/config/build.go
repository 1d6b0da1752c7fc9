package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/schemas"
)

const legacyRunner = "default" // the name of the runner that the top-level "runner" describes

func defaultIgnore() []string {
	return strings.Fields(".superloop/** .git/** node_modules/** dist/** build/** coverage/** .next/** .venv/** .tox/** .cache/**")
}

// builder makes a Config from a file and collects the problems that the schema does not find.
type builder struct {
	doc    *schemas.Document
	repo   string // absolute
	schema []Problem

	file     file
	runners  map[string]Runner
	problems []Problem
	warnings []Problem
}

// wrong notes a problem at a pointer. It ignores the problem if the schema has reported one for the same value, since
// the second would only repeat the first.
func (b *builder) wrong(ptr string, p Problem) {
	if !b.named(ptr) {
		b.problems = append(b.problems, placed(b.doc, ptr, p))
	}
}

func (b *builder) warn(ptr, code, message string) {
	b.warnings = append(b.warnings, placed(b.doc, ptr, Problem{Code: code, Message: message}))
}

// Placed fills in the problem's line and column in the file that c was read from.
func (c *Config) Placed(ptr string, p Problem) Problem { return placed(c.doc, ptr, p) }

// placed fills in the problem's pointer, line and column. If the file has no value at ptr, the nearest value around it
// gives line and column.
func placed(doc *schemas.Document, ptr string, p Problem) Problem {
	p.Pointer = ptr
	for found := doc == nil; !found; ptr = ptr[:max(0, strings.LastIndexByte(ptr, '/'))] {
		p.Line, p.Column, found = doc.Position(ptr)
	}
	return p
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer joins tokens into a JSON pointer.
func Pointer(tokens ...any) string {
	var s strings.Builder
	for _, t := range tokens {
		s.WriteString("/" + escape.Replace(fmt.Sprint(t)))
	}
	return s.String()
}

// file is the form into which config.json is decoded. Loops, Escalation and Respond stay plain values: the builder
// decodes them later over defaults and other sections.
type file struct {
	Runner       *fileRunner           `json:"runner"`
	Runners      map[string]fileRunner `json:"runners"`
	RoleDefaults map[string]fileRole   `json:"role_defaults"`
	Loops        []any                 `json:"loops"`
	Prices       map[string]Rate       `json:"prices"`
	Webhooks     struct {
		OnEscalation string `json:"on_escalation"`
	} `json:"webhooks"`
	Escalation  any     `json:"escalation"`
	Respond     any     `json:"respond"`
	Protect     Protect `json:"protect"`
	Permissions any     `json:"permissions"`
}

// fileLoop is a loop in the form in which the file holds it. It replaces the fields of Loop that have another form
// there.
type fileLoop struct {
	Loop
	Validation struct {
		Validation
		Preflight *struct {
			Preflight
			Enabled *bool `json:"enabled"`
		} `json:"preflight"`
	} `json:"validation"`
	ReviewerPacket struct {
		Enabled bool `json:"enabled"`
	} `json:"reviewer_packet"`
	Git struct {
		Git
		CommitMessage struct {
			MaxSubjectLength int `json:"max_subject_length"`
		} `json:"commit_message"`
	} `json:"git"`
	Timeouts timeouts `json:"timeouts"`
	Roles    any      `json:"roles"`
	Respond  any      `json:"respond"`
}

func (b *builder) config() *Config {
	b.into(b.tree(), &b.file)
	f := &b.file
	c := &Config{Runners: b.runnersOf(), Prices: f.Prices}
	b.defaultRoles()
	b.defaultRespond()
	for i, l := range f.Loops {
		c.Loops = append(c.Loops, b.loop(l, Pointer("loops", i)))
	}
	if len(f.Loops) == 0 && !b.named("/loops") {
		b.warn("/loops", CodeNoEffect, "there is no loop: nothing can run")
	}
	b.ids(c.Loops)
	b.webhook(f.Webhooks.OnEscalation)
	c.Escalation = b.escalation()
	c.Permissions = b.permissions()
	c.Protect = f.Protect
	for _, list := range []*[]string{&c.Protect.Paths, &c.Protect.Allow} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return c
}

// named reports whether the schema has reported a problem at the pointer, or one of the file as a whole.
func (b *builder) named(ptr string) bool {
	return slices.ContainsFunc(b.schema, func(p Problem) bool { return p.Pointer == ptr || p.Pointer == "" })
}

// loop decodes a loop, fills in its defaults and checks it.
func (b *builder) loop(in any, at string) Loop {
	var l fileLoop
	l.Tests.Timeout, l.Validation.Timeout = 30*time.Minute, 10*time.Minute
	l.Stuck = Stuck{Threshold: 5, TestsThreshold: 2, Action: "report_and_stop"}
	l.Completion = Completion{RequireChange: true, RequireReports: []string{"review"}, TestsBaseline: true}
	l.Loop.Retry = Retry{Attempts: 3, Backoff: 5 * time.Second}
	l.Git.CommitStrategy, l.Git.CommitMessage.MaxSubjectLength = "never", 72
	b.into(in, &l)
	out := &l.Loop
	out.Recovery, out.ReviewerPacket = b.doc.Raw(at+"/recovery", isComment), l.ReviewerPacket.Enabled
	out.SpecFile = b.inside(at+"/spec_file", out.SpecFile)
	out.CompletionPromise = strings.TrimSpace(out.CompletionPromise)
	b.globs(at+"/checklists", out.Checklists)
	b.globs(at+"/evidence/artifacts", out.Evidence.Artifacts)
	out.Retry.Backoff = min(out.Retry.Backoff, 5*time.Minute)
	b.tests(&out.Tests, at+"/tests")
	out.Validation = b.validation(&l, at+"/validation")
	b.prerequisites(&out.Prerequisites, at+"/prerequisites")
	b.stuck(&out.Stuck, at+"/stuck")
	out.Git = l.Git.Git
	out.Git.MaxSubjectLength = l.Git.CommitMessage.MaxSubjectLength
	if out.Git.CommitStrategy == "on_test_pass" && len(out.Tests.Commands) == 0 {
		b.warn(at+"/git/commit_strategy", CodeNoEffect, "on_test_pass never commits in a loop without tests")
	}
	b.finalGates(out, at+"/gates")
	out.Roles = b.roles(&l, at)
	b.promptOnly(out, at)
	out.Respond = b.respond(&l, at)
	b.ends(out, at)
	return *out
}

func (b *builder) finalGates(l *Loop, at string) {
	g := &l.Gates
	if g.Setup = b.commands(at+"/setup", g.Setup); g.Final != FinalCheckout {
		g.Final = ""
	}
	switch {
	case g.Final == "" && len(g.Setup) > 0:
		b.warn(at+"/setup", CodeNoEffect, "it runs in a fresh checkout only, which gates.final asks for")
	case g.Final == "":
	case l.Tests.Mode == TestsDisabled:
		b.warn(at+"/final", CodeNoEffect, "there are no tests that could run in a checkout")
	case l.Git.CommitStrategy == "never":
		b.warn(at+"/final", CodeNoEffect, "superloop commits nothing in this loop, so the checkout has only what the agents commit; see git.commit_strategy")
	}
}

func (b *builder) tests(t *Tests, at string) {
	t.Commands = b.commands(at+"/commands", t.Commands)
	b.globs(at+"/outputs", t.Outputs)
	switch {
	case t.Mode == "" && len(t.Commands) > 0:
		t.Mode = TestsEvery
	case t.Mode == "":
		t.Mode = TestsDisabled
	case (t.Mode == TestsEvery || t.Mode == TestsOnPromise) && len(t.Commands) == 0:
		b.wrong(at+"/commands", Problem{Code: schemas.CodeCombination, Found: "no command", Allowed: "at least one command",
			Message: fmt.Sprintf("tests.mode is %q, but there is no command; add one, or set the mode to %q", t.Mode, TestsDisabled)})
	}
}

// commands drops blank commands and warns of them. A shell would run a blank command with exit code 0, so it would test
// nothing.
func (b *builder) commands(at string, list []string) []string {
	var out []string
	for i, c := range list {
		if strings.TrimSpace(c) != "" {
			out = append(out, c)
		} else {
			b.warn(at+Pointer(i), CodeNoEffect, "a blank command is left out")
		}
	}
	return out
}

func (b *builder) validation(l *fileLoop, at string) Validation {
	v, off := l.Validation.Validation, l.Validation.Mode == TestsDisabled
	if v.Enabled = v.Enabled && !off; v.Mode != TestsOnPromise {
		v.Mode = TestsEvery
	}
	v.Commands = b.commands(at+"/commands", v.Commands)
	if p := l.Validation.Preflight; p != nil && (p.Enabled == nil || *p.Enabled) {
		v.Preflight = &p.Preflight
		p.WebRoot = cmp.Or(p.WebRoot, ".")
		if p.Entry == "" {
			b.wrong(at+"/preflight/entry", missingKey("entry", "preflight needs the HTML file to look at"))
		}
	}
	some := len(v.Commands) > 0 || v.Preflight != nil
	switch {
	case v.Enabled && !some:
		b.warn(at, CodeNoEffect, "validation is enabled but has neither commands nor preflight: the gate is skipped")
	case !v.Enabled && some && !off && !b.present(at+"/enabled"):
		b.warn(at, CodeNoEffect, "validation is not enabled, so nothing of it runs; set enabled to true")
	}
	return v
}

// present reports whether the file has a value at the pointer.
func (b *builder) present(ptr string) bool {
	_, _, ok := b.doc.Position(ptr)
	return ok
}

func (b *builder) stuck(s *Stuck, at string) {
	b.globs(at+"/ignore", s.Ignore)
	if s.Enabled && s.Threshold == 0 {
		b.warn(at+"/threshold", CodeNoEffect, "a threshold of 0 turns the stuck check off")
		s.Enabled = false
	}
	if len(s.Ignore) == 0 {
		s.Ignore = defaultIgnore()
	}
}

// inside cleans a path and makes it relative to the repository. A path outside of the repository is a problem.
func (b *builder) inside(ptr, path string) string {
	if path == "" {
		return "" // the schema has reported it
	}
	rel := filepath.Clean(path)
	if r, err := filepath.Rel(b.repo, rel); err == nil && filepath.IsAbs(rel) {
		rel = r
	}
	if !filepath.IsLocal(rel) || rel == "." {
		b.wrong(ptr, Problem{Code: CodeOutside, Found: quoted(path), Allowed: "a file inside the repository",
			Message: fmt.Sprintf("%s is not a file inside the repository %s", quoted(path), b.repo)})
		return ""
	}
	return rel
}

// ids checks that the ids of loops differ, because superloop names directories after them. It warns of ids that differ
// only in case.
func (b *builder) ids(loops []Loop) {
	exact, folded := map[string]int{}, map[string]int{}
	for i, l := range loops {
		ptr, fold := Pointer("loops", i, "id"), strings.ToLower(l.ID)
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

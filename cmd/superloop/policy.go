package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/schemas"
)

// policyFile is a config as far as it is about recovery.
type policyFile struct {
	path string // as it is said
	doc  *schemas.Document
	// sections are the top-level one, and for each loop with its own that one.
	sections []policySection
}

type policySection struct {
	loop   string // "" for the config's own
	policy *recovery.Policy
}

// policies reads the config of a repository, and the policies in it.
func (a *app) policies(c *cli.Context) (*policyFile, *config.Config, error) {
	repo, err := a.repo(c)
	if err != nil {
		return nil, nil, err
	}
	// With its own tests failing a configuration is not taken; here they are shown.
	cfg, err := config.LoadUntested(filepath.Join(repo, ".superloop", "config.json"))
	if err != nil {
		return nil, nil, err
	}
	f := &policyFile{path: relTo(repo, filepath.Join(repo, ".superloop", "config.json"))}
	// For the places only: the values are the checked ones.
	if data, err := os.ReadFile(cfg.Path); err == nil {
		f.doc, _ = schemas.Read(schemas.Config, data)
	}
	top := recovery.Section{Raw: cfg.Recovery, Pointer: "/recovery"}
	if err := f.add("", top); err != nil {
		return nil, nil, err
	}
	for i, l := range cfg.Loops {
		if l.Recovery == nil {
			continue
		}
		if err := f.add(l.ID, top, recovery.Section{Raw: l.Recovery, Pointer: fmt.Sprintf("/loops/%d/recovery", i)}); err != nil {
			return nil, nil, err
		}
	}
	return f, cfg, nil
}

func (f *policyFile) add(loop string, sections ...recovery.Section) error {
	p, problems := recovery.ReadPolicy(sections...)
	if len(problems) > 0 {
		for i := range problems {
			problems[i].Line, problems[i].Column = f.position(problems[i].Pointer)
		}
		return &config.Error{Path: f.path, Problems: problems}
	}
	f.sections = append(f.sections, policySection{loop, p})
	return nil
}

// of is the policy of a loop; loops without a section of their own have the config's.
func (f *policyFile) of(loop string) *recovery.Policy {
	i := slices.IndexFunc(f.sections, func(s policySection) bool { return s.loop == loop })
	return f.sections[max(i, 0)].policy
}

// position is where a value stands, or 0, 0.
func (f *policyFile) position(pointer string) (line, column int) {
	if f.doc == nil {
		return 0, 0
	}
	line, column, _ = f.doc.Position(pointer)
	return line, column
}

// place is "file:line:column", or the file and the pointer of what is not there.
func (f *policyFile) place(pointer string) string {
	if line, column := f.position(pointer); line > 0 {
		return fmt.Sprintf("%s:%d:%d", f.path, line, column)
	}
	return f.path + ":" + pointer
}

// placed is a finding and where it stands.
type placed struct {
	recovery.Finding
	Loop   string `json:"loop,omitempty"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

func (a *app) policyLint(c *cli.Context) error {
	f, _, err := a.policies(c)
	if err != nil {
		return err
	}
	all, worst := []placed{}, recovery.Severity("")
	seen := map[recovery.Finding]bool{}
	for _, s := range f.sections {
		for _, found := range s.policy.Lint() {
			if seen[found] {
				continue // a loop has it from the config's own section
			}
			seen[found] = true
			line, column := f.position(found.Pointer)
			all = append(all, placed{found, s.loop, f.path, line, column})
			worst = recovery.Worst([]recovery.Finding{found, {Severity: worst}})
		}
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, map[string]any{"findings": all, "worst": worst})
	} else {
		for _, p := range all {
			fmt.Fprintf(a.stdout, "%s: %s: %s\n", f.place(p.Pointer), p.Severity, p.Message)
		}
		if len(all) == 0 {
			fmt.Fprintf(a.stdout, "%s: nothing to say\n", f.path)
		}
	}
	return failedUnless(worst != recovery.SevError, err)
}

func (a *app) policyTest(c *cli.Context) error {
	f, _, err := a.policies(c)
	if err != nil {
		return err
	}
	all, failed := []recovery.TestResult{}, 0
	for _, s := range f.sections {
		for _, r := range s.policy.RunTests() {
			all = append(all, r)
			verdict := "ok  "
			if !r.OK {
				verdict = "FAIL"
				failed++
			}
			if c.Bool("json") {
				continue
			}
			fmt.Fprintf(a.stdout, "%s %s: %s is %s", verdict, f.place(r.Pointer), text.Display(r.Test.Command), r.Verdict.Decision)
			if !r.OK {
				fmt.Fprintf(a.stdout, ", not %s: %s", r.Test.Expect, r.Verdict.Reason)
			}
			fmt.Fprintln(a.stdout)
		}
	}
	if c.Bool("json") {
		err = render.JSON(a.stdout, map[string]any{"tests": all, "failed": failed})
	} else if len(all) == 0 {
		fmt.Fprintf(a.stdout, "%s has no tests; write some into recovery.tests\n", f.path)
	} else {
		fmt.Fprintf(a.stdout, "%s, %d failed\n", count(len(all), "test"), failed)
	}
	return failedUnless(failed == 0, err)
}

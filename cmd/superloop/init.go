package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/project"
	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/worktree"
	"github.com/superloop/superloop/roles"
)

func (a *app) init(c *cli.Context) error {
	repo, err := filepath.Abs(c.String("repo"))
	if err != nil {
		return err
	}
	if _, err := worktree.Open(c.Context, repo); err != nil {
		return err
	}
	id := c.String("loop")
	facts := project.Look(repo, lookPath(a.env))
	choice := project.Choice{LoopID: id, Test: facts.Test, Runners: facts.Agents}
	if c.IsSet("runner") {
		choice.Runners = c.StringSlice("runner")
	}
	if c.IsSet("test") {
		choice.Test = c.String("test")
	}
	guessed := len(choice.Runners) == 0
	if guessed {
		choice.Runners = []string{"claude"}
	}
	data, err := project.Config(choice)
	if err != nil {
		return err
	}
	path := filepath.Join(repo, ".superloop", "config.json")
	if _, err := config.LoadBytes(path, data); err != nil {
		return err // for instance because the loop id is invalid
	}
	files, err := a.initFiles(c, id, data)
	if err != nil {
		return err
	}
	var written, kept []string
	for _, f := range files {
		full := filepath.Join(repo, f.path)
		if _, err := os.Lstat(full); err == nil && !c.Bool("force") {
			if full == path {
				return failf(exitFailed, "superloop validate   (or superloop init --force)", "%s exists already", path)
			}
			kept = append(kept, f.path)
			continue
		}
		if err := a.disk.MkdirAll("init", filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := a.disk.WriteFile("init", full, f.data, 0o644); err != nil {
			return err
		}
		written = append(written, f.path)
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, map[string]any{"found": facts, "runners": choice.Runners, "test": choice.Test,
			"written": orEmpty(written), "kept": orEmpty(kept)})
	}
	w := a.stdout
	say := func(name, value string) { fmt.Fprintf(w, "%-16s %s\n", name, value) }
	if guessed {
		say("agent", "none found on PATH; the configuration names claude, put your own CLI there")
	} else {
		say("agent", strings.Join(choice.Runners, ", "))
	}
	if facts.Manager != "" {
		say("package manager", facts.Manager)
	}
	switch {
	case choice.Test == "":
		say("tests", "no test command found: tests are disabled, set loops[0].tests")
	case c.IsSet("test"):
		say("tests", choice.Test)
	default:
		say("tests", fmt.Sprintf("%s   (from %s)", choice.Test, facts.From))
	}
	for _, f := range written {
		say("wrote", f)
	}
	for _, f := range kept {
		say("kept", f)
	}
	fmt.Fprintf(w, "next: write what the loop is to build into .superloop/specs/%s.md, then: superloop doctor && superloop run --loop %s\n", id, id)
	return nil
}

type initFile struct {
	path string
	data []byte
}

// initFiles returns the files of a new repository. The configuration is the first one, so init stops there if it
// exists, and touches no other file.
func (a *app) initFiles(c *cli.Context, id string, cfg []byte) ([]initFile, error) {
	files := []initFile{
		{".superloop/config.json", cfg},
		{".superloop/specs/" + id + ".md", fmt.Appendf(nil, specTemplate, id)},
		{".superloop/.gitignore", []byte(layout.Gitignore)},
	}
	if c.Bool("roles") {
		for _, role := range roles.All() {
			text, err := roles.Embedded(role)
			if err != nil {
				return nil, err
			}
			files = append(files, initFile{".superloop/roles/" + role + ".md", []byte(text)})
		}
	}
	return files, nil
}

const specTemplate = `# %s

What is to be built, and how a reviewer can tell that it is done. The agents read this file in every iteration.

## Goal

One paragraph.

## Done when

- [ ] Each thing that must be true, one per line.
`

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/schemas"
)

// LookPath finds a program on the PATH, as os/exec does.
type LookPath func(file string) (string, error)

// Check compares the configuration with the file system, for the repository at root. It returns a problem for each spec
// or role prompt that superloop cannot read or that lies outside the repository, for each program of a runner that a
// loop may use and that is not installed, and for each command that bash cannot read. Check changes nothing.
func (c *Config) Check(root string, lookPath LookPath) []Problem {
	k := &checker{c: c, root: root, look: lookPath, seen: map[string]bool{}}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		k.root = real
	}
	for i, l := range c.Loops {
		k.spec(Pointer("loops", i, "spec_file"), l.SpecFile)
		k.syntax(i, l)
		for _, r := range l.Roles {
			k.prompt(Pointer("loops", i), r.Name)
			for _, choice := range r.Runners {
				k.runner(choice.Runner)
				k.asked(choice.Runner)
			}
		}
		if d := l.Respond.Diagnostician; d != nil && l.Respond.Enabled {
			k.runner(d.Runner)
			k.asked(d.Runner)
		}
	}
	return schemas.Sort(k.problems)
}

// CanComplete returns a problem for each of these loops that could not complete honestly: the promise alone would decide
// (Loop.Gated), or the spec is still the template of init. Unlike Check it is about the loops that are to run now.
func (c *Config) CanComplete(root string, ids ...string) []Problem {
	k := &checker{c: c, root: root}
	for i, l := range c.Loops {
		if !slices.Contains(ids, l.ID) {
			continue
		}
		if !l.Gated() && !l.Completion.AllowUngated {
			k.wrong(Pointer("loops", i), Problem{Code: CodeUngated, Found: "no gate", Allowed: "at least one executed gate",
				Message: fmt.Sprintf("nothing that superloop itself executes decides whether the loop %s is done; %s", quoted(l.ID), wantsGate)})
		}
		if k.unwritten(l.SpecFile) {
			k.wrong(Pointer("loops", i, "spec_file"), Problem{Code: CodeUnwritten, Found: quoted(l.SpecFile), Allowed: "a spec that says what is to be built",
				Message: fmt.Sprintf("%s says nothing yet: it is the template that `superloop init` wrote; write into it what the loop %s is to build, and how a reviewer can tell that it is done",
					l.SpecFile, quoted(l.ID))})
		}
	}
	return schemas.Sort(k.problems)
}

// wantsGate says what an operator writes for a loop without an executed gate.
const wantsGate = `write the command that tests the work into "tests": {"commands": [...]}, or require validation, prerequisites, evidence or approval on completion; ` +
	`"completion": {"allow_ungated": true} lets the promise alone decide`

type checker struct {
	c        *Config
	root     string
	look     LookPath
	problems []Problem
	seen     map[string]bool // the keys are "runner NAME" and "role NAME"
}

func (k *checker) wrong(ptr string, p Problem) {
	k.problems = append(k.problems, k.c.Placed(ptr, p))
}

// first reports whether this is the first call with this name.
func (k *checker) first(name string) bool {
	was := k.seen[name]
	k.seen[name] = true
	return !was
}

func (k *checker) spec(ptr, file string) {
	switch why := k.readable(file); why {
	case "":
	case missing:
		k.wrong(ptr, Problem{Code: CodeNotFound, Found: quoted(file), Allowed: "a file that exists",
			Message: fmt.Sprintf("there is no %s; write into it what the loop is to build", file)})
	default:
		k.wrong(ptr, Problem{Code: CodeUnreadable, Found: quoted(file), Allowed: "a readable file inside the repository",
			Message: fmt.Sprintf("the spec %s %s", file, why)})
	}
}

// prompt checks the operator's role prompt that replaces the embedded one, if the file exists.
func (k *checker) prompt(ptr, role string) {
	if !k.first("role " + role) {
		return
	}
	file := filepath.Join(".superloop", "roles", role+".md")
	why := k.readable(file)
	if why == missing {
		if _, err := os.Lstat(filepath.Join(k.root, file)); err == nil {
			why = "is a link to nowhere" // a problem: the operator believes that superloop uses the prompt
		}
	}
	if why != "" && why != missing {
		k.wrong(ptr, Problem{Code: CodeUnreadable, Found: quoted(file), Allowed: "a readable file, or none",
			Message: fmt.Sprintf("the prompt %s %s; mend it, or remove it to use the embedded one", file, why)})
	}
}

const missing = "is not there"

// readable returns the reason why superloop cannot use a file of the repository, or "" when it can.
func (k *checker) readable(file string) string {
	real, err := filepath.EvalSymlinks(filepath.Join(k.root, file))
	if errors.Is(err, fs.ErrNotExist) {
		return missing
	}
	var info fs.FileInfo
	if err == nil {
		if rel, err := filepath.Rel(k.root, real); err != nil || !filepath.IsLocal(rel) {
			return "is a link that leads out of the repository"
		}
		info, err = os.Stat(real)
	}
	switch {
	case err != nil:
	case info.IsDir():
		return "is a directory"
	case !info.Mode().IsRegular():
		return "is not a regular file"
	case info.Size() == 0:
		return "is empty"
	default:
		var f *os.File
		if f, _, err = door.OpenOwn(real); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return "cannot be read: " + plain(err)
	}
	return ""
}

// runner checks that the program of a runner can be started. It checks each runner only once.
func (k *checker) runner(name string) {
	r, ok := k.c.Runners[name]
	if !ok || len(r.Command) == 0 || !k.first("runner "+name) {
		return
	}
	program := strings.ReplaceAll(r.Command[0], "{repo}", k.root)
	if why := k.cannotStart(program); why != "" {
		ptr := Pointer("runners", name, "command")
		if name == legacyRunner && k.c.doc != nil {
			if _, _, legacy := k.c.doc.Position("/runner/command"); legacy {
				ptr = "/runner/command"
			}
		}
		k.wrong(ptr, Problem{Code: CodeNotFound, Found: quoted(r.Command[0]), Allowed: "a program that can be started",
			Message: fmt.Sprintf("the runner %s cannot start: %s", quoted(name), why)})
	}
}

func (k *checker) cannotStart(program string) string {
	if !strings.ContainsRune(program, '/') {
		if _, err := k.look(program); err != nil {
			return program + " is not on the PATH; install it, or give its path"
		}
		return ""
	}
	full := program
	if !filepath.IsAbs(full) {
		full = filepath.Join(k.root, full) // superloop starts an agent in the repository
	}
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no " + full
	case err != nil:
		return fmt.Sprintf("%s cannot be started: %s", full, plain(err))
	case !info.Mode().IsRegular():
		return full + " is not a file"
	case info.Mode().Perm()&0o111 == 0:
		return full + " is not executable; chmod +x it"
	}
	return ""
}

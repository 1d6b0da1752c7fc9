package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/schemas"
)

// Refused returns what the shell that runs configured commands says about a text that it cannot read as a command, or
// "". It runs nothing of the text. Where there is no such shell, it knows nothing and returns "".
func Refused(ctx context.Context, command string) string {
	const patience = 10 * time.Second // bash needs milliseconds
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, shell := range []string{"bash", "sh"} { // as the tests look for it
		_, err := proc.System(ctx, "", shell, "-n", "-c", command)
		bad, ok := errors.AsType[*proc.ToolError](err)
		switch {
		case err == nil:
			return ""
		case !ok || errors.Is(err, fs.ErrNotExist):
			continue
		case bad.Code <= 0: // it did not end by itself
			return ""
		}
		said, _, _ := strings.Cut(strings.TrimSpace(bad.Stderr), "\n")
		if name, rest, ok := strings.Cut(said, ": "); ok && filepath.Base(name) == shell {
			said = rest
		}
		said = strings.TrimPrefix(said, "-c: ")
		return text.Display(text.Cut(said, 200))
	}
	return ""
}

// shellCommands calls do for each command of a loop that a shell runs: the tests, the validation, the setup of a fresh
// checkout and the checks before a commit, in this order, with the key of its list and its JSON pointer.
func (c *Config) shellCommands(i int, l Loop, do func(key, ptr, command string)) {
	for _, list := range []struct {
		key      string
		commands []string
	}{{"tests/commands", l.Tests.Commands}, {"validation/commands", l.Validation.Commands}, {"gates/setup", l.Gates.Setup}, {"git/pre_commit_commands", l.Git.PreCommitCommands}} {
		at := Pointer("loops", i) + "/" + list.key
		var raw []string // with the blank commands, which the loop does not have
		if c.doc == nil || json.Unmarshal(c.doc.Raw(at, nil), &raw) != nil {
			raw = nil
		}
		from := 0
		for _, command := range list.commands {
			ptr := at
			if n := slices.Index(raw[min(from, len(raw)):], command); n >= 0 {
				ptr, from = at+Pointer(from+n), from+n+1
			}
			do(list.key, ptr, command)
		}
	}
}

// syntax checks that the shell can read the commands of a loop. Only what both the parser and the shell refuse is a
// problem, so that no odd but valid command is refused.
func (k *checker) syntax(i int, l Loop) {
	k.c.shellCommands(i, l, func(_, ptr, command string) {
		if _, err := recovery.Steps(command); err == nil {
			return
		}
		if why := Refused(context.Background(), command); why != "" {
			k.wrong(ptr, Problem{Code: CodeSyntax, Found: quoted(command), Allowed: "a command that bash can read",
				Message: fmt.Sprintf("bash cannot read this command: %s; correct it here", why)})
		}
	})
}

// CheckCommands looks for what the commands of tests and validation name and what is not there: programs, scripts of
// package.json, targets of a Makefile. wrong are the findings that no earlier command can change. maybe are those of
// which this is not known, and programs that this machine lacks. A loop can run in spite of both, because it may be to
// write what is missing. Check reports commands that bash cannot read. CheckCommands runs nothing.
func (c *Config) CheckCommands(root string, lookPath LookPath) (wrong, maybe []Problem) {
	for i, l := range c.Loops {
		v := &visitor{root: root, look: lookPath}
		c.shellCommands(i, l, func(key, ptr, command string) {
			if key == "tests/commands" && l.Tests.Mode == TestsDisabled || key == "validation/commands" && !l.Validation.Enabled ||
				key != "tests/commands" && key != "validation/commands" {
				return
			}
			for _, f := range v.command(command) {
				p := c.Placed(ptr, Problem{Code: CodeNotFound, Found: quoted(f.step), Allowed: f.allowed, Message: f.message})
				if f.sure {
					wrong = append(wrong, p)
				} else {
					maybe = append(maybe, p)
				}
			}
		})
	}
	return schemas.Sort(wrong), schemas.Sort(maybe)
}

// finding is something that a command names and that is not there.
type finding struct {
	step, allowed, message string
	sure                   bool // nothing that runs before can have made it
}

// visitor follows the commands of a loop in the order in which they run.
type visitor struct {
	root string
	look LookPath
	// made says what the commands so far can have made: nothing, installed packages, or anything.
	made effect
}

// effect says what a command can leave behind for those that follow.
type effect int

const (
	makesNothing effect = iota
	makesFiles          // files, programs and directories, but no script of package.json and no target of a Makefile
	makesAnything
)

// harmless are programs that make nothing that a later command could need.
const harmless = " cd echo printf test [ [[ true false : set unset export pwd ls cat grep which type command wait sleep read "

// command returns the findings of one command, which begins in the root of the repository.
func (v *visitor) command(command string) []finding {
	steps, err := recovery.Steps(command)
	if err != nil {
		return nil // syntax has reported it
	}
	var out []finding
	dir := "."
	for _, s := range steps {
		program := s.Words[0]
		if program == "cd" {
			next, f := v.enter(dir, s)
			if out = append(out, f...); next == "" {
				return out
			}
			dir = next
			continue
		}
		if f, lacks := v.lacks(dir, s); lacks {
			out = append(out, f)
		} else {
			out = append(out, v.targets(dir, s)...)
		}
		if strings.Contains(harmless, " "+program+" ") {
			continue
		}
		v.made = max(v.made, effectOf(s.Words))
	}
	if len(steps) == 0 {
		v.made = makesAnything
	}
	return out
}

// unknownWord reports whether only bash will know the word.
func unknownWord(w string) bool { return strings.ContainsAny(w, "*?[~") || strings.Contains(w, "...") }

// enter returns the directory to which a cd leads, or "" if that is not known.
func (v *visitor) enter(dir string, s recovery.Step) (string, []finding) {
	if len(s.Words) != 2 || strings.HasPrefix(s.Words[1], "-") || unknownWord(s.Words[1]) || filepath.IsAbs(s.Words[1]) {
		return "", nil
	}
	next := filepath.Join(dir, s.Words[1])
	if !filepath.IsLocal(next) {
		return "", nil
	}
	if info, err := os.Stat(filepath.Join(v.root, next)); err == nil && info.IsDir() {
		return next, nil
	}
	return "", []finding{{s.Text, "a directory of the repository", fmt.Sprintf("there is no directory %s in the repository; make it, or correct the command", next), v.made == makesNothing}}
}

// produced are directories that an installation or a build makes.
const produced = " node_modules .venv venv vendor target build dist out bin .tox _build deps "

// lacks returns the finding of a step whose program is not there.
func (v *visitor) lacks(dir string, s recovery.Step) (finding, bool) {
	program := s.Words[0]
	if unknownWord(program) || builtin(program) {
		return finding{}, false
	}
	if !strings.Contains(program, "/") {
		if _, err := v.look(program); err == nil || v.made != makesNothing {
			return finding{}, false
		}
		return finding{s.Text, "a program on the PATH", program + " is not on the PATH of this machine; install it, or correct the command", false}, true
	}
	full := program
	if !filepath.IsAbs(full) {
		full = filepath.Join(v.root, dir, full)
	}
	info, err := os.Stat(full)
	made := v.made != makesNothing || filepath.IsAbs(program)
	for part := range strings.SplitSeq(program, "/") {
		made = made || strings.Contains(produced, " "+part+" ")
	}
	f := finding{s.Text, "a program that can be started", "", !made}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.message = fmt.Sprintf("there is no %s; write it, or correct the command", shownPath(dir, program))
	case err != nil:
		return f, false
	case info.IsDir():
		f.message = shownPath(dir, program) + " is a directory, not a program; correct the command"
	case info.Mode().Perm()&0o111 == 0:
		f.message = fmt.Sprintf("%s is not executable; chmod +x it, or name the program that runs it", shownPath(dir, program))
	default:
		return f, false
	}
	return f, true
}

func shownPath(dir, program string) string {
	if filepath.IsAbs(program) {
		return program
	}
	return filepath.Join(dir, program)
}

// builtin reports whether bash itself has a command of this name.
func builtin(name string) bool {
	return slices.Contains(strings.Fields(": [ [[ . alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo "+
		"enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray "+
		"readonly return set shift shopt source suspend test time times trap true type typeset ulimit umask unalias unset wait"), name)
}

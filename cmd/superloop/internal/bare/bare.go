// Package bare makes the loop of `run --prompt`: one agent that gets one prompt again and again, with a configuration
// that superloop writes into the loop's own directory.
package bare

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/project"
	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/roles"
)

// Loop is what an operator has typed, and the place of the loop. The prompt is Text, or the content of File if that is
// not "". File is relative to the current directory.
type Loop struct {
	ID, Repo, Text, File string
	Paths                layout.Paths
	Words, Tests         []string
	MaxIterations        int
	MaxCostUSD           float64
	MaxTime, MaxSilence  time.Duration
	Promise              string
	Base                 []byte // the repository's configuration, or nil
	Disk                 durable.Disk
	LookPath             func(string) (string, error)
}

// UsageError is a mistake in what the operator typed. Next is the command to type.
type UsageError struct {
	Err  error
	Next string
}

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func usage(next, format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...), Next: next}
}

// Made is the loop that Make has made. Anew says that it begins from the start, because the last one is complete and had
// another prompt.
type Made struct {
	Config *config.Config
	Anew   bool
	prompt string
	data   []byte
}

// Make reads the prompt and makes the configuration. It writes nothing. Its errors are of the operator's making
// (*UsageError, *config.Error), or of reading.
func (l Loop) Make() (Made, error) {
	prompt, err := l.prompt()
	if err != nil {
		return Made{}, err
	}
	facts, err := project.Look(l.Repo, l.LookPath)
	if err != nil {
		return Made{}, err
	}
	m := Made{prompt: prompt}
	m.data, _, err = project.PromptConfig(project.Prompted{LoopID: l.ID, SpecFile: l.spec(), Words: l.Words, Agents: facts.Agents, Tests: l.Tests,
		Installs: facts.Installs, Managers: facts.Managers, MaxIterations: l.MaxIterations, MaxTime: l.MaxTime, MaxSilence: l.MaxSilence,
		MaxCostUSD: l.MaxCostUSD, Promise: l.Promise, Base: l.Base})
	if err != nil {
		return m, usage("superloop run --prompt PROMPT.md -- claude", "%w", err)
	}
	if m.Config, err = config.LoadBytes(l.Paths.OwnConfig(), bytes.Clone(m.data)); err != nil {
		return m, err
	}
	m.Anew, err = l.anew(prompt)
	return m, err
}

// prompt returns the text of the prompt. A prompt that cannot be one is an error.
func (l Loop) prompt() (string, error) {
	prompt, where := l.Text, "the prompt"
	if l.File != "" {
		where = l.File
		info, err := os.Stat(l.File)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", usage("superloop run -p 'what is to be done'", "there is no file %s; -p takes the prompt itself", l.File)
		case err == nil && !info.Mode().IsRegular():
			return "", usage("superloop run --prompt PROMPT.md", "%s is not a file", l.File)
		}
		if prompt, err = roles.LoadPrompt(l.File); err != nil {
			return "", usage("superloop run --prompt PROMPT.md", "%w", err)
		}
	}
	switch {
	case strings.TrimSpace(prompt) == "":
		return "", usage("superloop run -p 'what is to be done'", "%s is empty", where)
	case len(prompt) > roles.MaxTemplate:
		return "", usage("superloop run --prompt PROMPT.md", "%s has %d bytes; a prompt has at most %d, so name files in it for the rest", where, len(prompt), roles.MaxTemplate)
	}
	return prompt, nil
}

// spec returns the file from which the agent's prompt is made at each run, relative to the repository: the operator's own
// file, which may be edited while the loop runs, or a copy if it is not in the repository.
func (l Loop) spec() string {
	if l.File != "" {
		real, err := filepath.Abs(l.File)
		if err == nil {
			real, err = filepath.EvalSymlinks(real)
		}
		if rel, rerr := filepath.Rel(l.Paths.Repo, real); err == nil && rerr == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return l.Paths.Rel(l.Paths.OwnPrompt())
}

// anew reports whether the last run of the loop is complete and was one of another prompt. The loop then has to begin
// from the start, since there is nothing to go on with.
func (l Loop) anew(prompt string) (bool, error) {
	was, err := door.Read(l.Paths.OwnPrompt(), roles.MaxTemplate)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || string(was) == prompt {
		return false, err
	}
	fold, err := local.Fold(l.Paths.Events())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && fold.State.Status == loop.Completed, nil // the run itself says what is wrong with a journal
}

// Write writes the configuration and the prompt into the loop's directory.
func (l Loop) Write(m Made) error { return WriteOwn(l.Disk, l.Paths, []byte(m.prompt), m.data) }

// WriteOwn writes the prompt or the spec of a loop, and its own configuration, into the loop's directory. The
// configuration comes last: with it superloop knows the loop.
func WriteOwn(disk durable.Disk, p layout.Paths, prompt, config []byte) error {
	if err := disk.MkdirAll("prompt-loop", p.Loop, 0o755); err != nil {
		return err
	}
	if err := disk.WriteFile("prompt-loop", p.OwnPrompt(), prompt, 0o644); err != nil {
		return err
	}
	return disk.WriteFile("prompt-loop", p.OwnConfig(), config, 0o644)
}

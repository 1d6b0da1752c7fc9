package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Bounds of a scenario.
const (
	maxScenario = 4 << 20 // bytes of the file
	maxSleepMS  = 24 * 60 * 60 * 1000
	maxFlood    = 1 << 40
)

type scenario struct {
	turns []turn
	// fallback is nil when the scenario has no default.
	fallback []step
}

// turn matches by what is not nil.
type turn struct {
	role               *string
	iteration, attempt *int
	steps              []step
}

// step has exactly one action; Detach goes with Spawn.
type step struct {
	Say         *string   `json:"say"`
	Stderr      *string   `json:"stderr"`
	Write       *fileText `json:"write"`
	Append      *fileText `json:"append"`
	Delete      *filePath `json:"delete"`
	Report      *string   `json:"report"`
	LastMessage *string   `json:"last_message"`
	Run         *[]string `json:"run"`
	Spawn       *[]string `json:"spawn"`
	Detach      *bool     `json:"detach"`
	SleepMS     *int64    `json:"sleep_ms"`
	FloodBytes  *int64    `json:"flood_bytes"`
	IgnoreTerm  *bool     `json:"ignore_term"`
	Exit        *int      `json:"exit"`
}

type fileText struct {
	Path    *string `json:"path"`
	Content *string `json:"content"`
}

type filePath struct {
	Path *string `json:"path"`
}

func readScenario(path string) (scenario, error) {
	f, err := os.Open(path)
	if err != nil {
		return scenario{}, fmt.Errorf("reading the scenario: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxScenario+1))
	if err != nil {
		return scenario{}, fmt.Errorf("reading the scenario: %w", err)
	}
	if len(b) > maxScenario {
		return scenario{}, fmt.Errorf("scenario %s is larger than %d bytes", path, maxScenario)
	}
	sc, err := parse(b)
	if err != nil {
		return scenario{}, fmt.Errorf("scenario %s: %w", path, err)
	}
	return sc, nil
}

// parse checks the whole scenario before any of it is played.
func parse(b []byte) (scenario, error) {
	var file struct {
		Schema      string            `json:"$schema"`
		Description string            `json:"description"`
		Version     *int              `json:"version"`
		Turns       []json.RawMessage `json:"turns"`
		Default     []json.RawMessage `json:"default"`
	}
	if err := decode(b, &file); err != nil {
		return scenario{}, err
	}
	if file.Version == nil || *file.Version != 1 {
		return scenario{}, errors.New(`"version" must be 1`)
	}
	var sc scenario
	for i, raw := range file.Turns {
		t, err := parseTurn(raw, i)
		if err != nil {
			return scenario{}, err
		}
		sc.turns = append(sc.turns, t)
	}
	if file.Default != nil {
		steps, err := parseSteps(file.Default, "default", "/default")
		if err != nil {
			return scenario{}, err
		}
		sc.fallback = steps
	}
	return sc, nil
}

func parseTurn(raw json.RawMessage, i int) (turn, error) {
	var t struct {
		Description string            `json:"description"`
		Role        *string           `json:"role"`
		Iteration   *int              `json:"iteration"`
		Attempt     *int              `json:"attempt"`
		Steps       []json.RawMessage `json:"steps"`
	}
	name, at := fmt.Sprintf("turn %d", i+1), fmt.Sprintf("/turns/%d", i)
	if err := decode(raw, &t); err != nil {
		return turn{}, fmt.Errorf("%s (%s): %w", name, at, err)
	}
	if t.Steps == nil {
		return turn{}, fmt.Errorf(`%s (%s): "steps" is missing`, name, at)
	}
	for _, m := range []struct {
		name  string
		value *int
	}{{"iteration", t.Iteration}, {"attempt", t.Attempt}} {
		if m.value != nil && *m.value < 1 {
			return turn{}, fmt.Errorf(`%s (%s): "%s" counts from 1`, name, at, m.name)
		}
	}
	steps, err := parseSteps(t.Steps, name, at+"/steps")
	return turn{role: t.Role, iteration: t.Iteration, attempt: t.Attempt, steps: steps}, err
}

func parseSteps(list []json.RawMessage, name, at string) ([]step, error) {
	steps := make([]step, len(list))
	for i, raw := range list {
		err := decode(raw, &steps[i])
		if err == nil {
			err = steps[i].check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s, step %d (%s/%d): %w", name, i+1, at, i, err)
		}
	}
	return steps, nil
}

// actions names the actions that a step has.
func (s step) actions() []string {
	var list []string
	for _, a := range []struct {
		name string
		has  bool
	}{
		{"say", s.Say != nil}, {"stderr", s.Stderr != nil}, {"write", s.Write != nil}, {"append", s.Append != nil},
		{"delete", s.Delete != nil}, {"report", s.Report != nil}, {"last_message", s.LastMessage != nil},
		{"run", s.Run != nil}, {"spawn", s.Spawn != nil}, {"sleep_ms", s.SleepMS != nil},
		{"flood_bytes", s.FloodBytes != nil}, {"ignore_term", s.IgnoreTerm != nil}, {"exit", s.Exit != nil},
	} {
		if a.has {
			list = append(list, a.name)
		}
	}
	return list
}

func (s step) check() error {
	if a := s.actions(); len(a) != 1 {
		if len(a) == 0 {
			return errors.New(`no action: one of say, stderr, write, append, delete, report, last_message, run, spawn, sleep_ms, flood_bytes, ignore_term, exit`)
		}
		return fmt.Errorf("one action a step, not %s: make steps of them", strings.Join(a, " and "))
	}
	switch {
	case s.Detach != nil && s.Spawn == nil:
		return errors.New(`"detach" goes with "spawn" only`)
	case s.Run != nil:
		return checkArgv("run", *s.Run)
	case s.Spawn != nil:
		return checkArgv("spawn", *s.Spawn)
	case s.Write != nil:
		return checkFile("write", *s.Write)
	case s.Append != nil:
		return checkFile("append", *s.Append)
	case s.Delete != nil:
		return checkPath("delete", s.Delete.Path)
	case s.SleepMS != nil && (*s.SleepMS < 0 || *s.SleepMS > maxSleepMS):
		return fmt.Errorf("sleep_ms must be between 0 and %d", maxSleepMS)
	case s.FloodBytes != nil && (*s.FloodBytes < 0 || *s.FloodBytes > maxFlood):
		return fmt.Errorf("flood_bytes must be between 0 and %d", int64(maxFlood))
	case s.Exit != nil && (*s.Exit < 0 || *s.Exit > 255):
		return errors.New("exit must be between 0 and 255")
	}
	return nil
}

func checkArgv(name string, argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return fmt.Errorf("%s needs a program", name)
	}
	return nil
}

func checkFile(name string, f fileText) error {
	if f.Content == nil {
		return fmt.Errorf(`%s needs "content"`, name)
	}
	return checkPath(name, f.Path)
}

func checkPath(name string, path *string) error {
	switch {
	case path == nil || *path == "":
		return fmt.Errorf(`%s needs "path"`, name)
	case !filepath.IsAbs(*path) && !filepath.IsLocal(*path):
		return fmt.Errorf("%s: the path %q leaves the working directory", name, *path)
	}
	return nil
}

// decode reads exactly one JSON value without unknown fields.
func decode(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			return errors.New("there is more after the end of the JSON value")
		}
		return nil
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		before := b[:min(int(syntax.Offset), len(b))]
		return fmt.Errorf("line %d: %w", 1+bytes.Count(before, []byte("\n")), err)
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Errorf("%q cannot be a %s", kind.Field, kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("an object is expected, not a %s", kind.Value)
	case errors.Is(err, io.EOF):
		return errors.New("the file is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON ends in the middle")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

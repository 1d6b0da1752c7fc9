package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// Bounds of a scenario.
const (
	maxScenario = 4 << 20 // bytes of the file
	maxSleepMS  = 24 * 60 * 60 * 1000
	maxFlood    = 1 << 40
)

type scenario struct {
	turns    []turn
	fallback []step // nil when the scenario has no default
}

// turn matches by what is not nil.
type turn struct {
	Description string            `json:"description"`
	Role        *string           `json:"role"`
	Iteration   *int              `json:"iteration"`
	Attempt     *int              `json:"attempt"`
	Steps       []json.RawMessage `json:"steps"`
	steps       []step
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
	SleepMS     *int64    `json:"sleep_ms"`
	FloodBytes  *int64    `json:"flood_bytes"`
	IgnoreTerm  *bool     `json:"ignore_term"`
	Exit        *int      `json:"exit"`
	Detach      *bool     `json:"detach"`
}

type fileText struct {
	filePath
	Content *string `json:"content"`
}

type filePath struct {
	Path *string `json:"path"`
}

func readScenario(path string) (sc scenario, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sc, fmt.Errorf("reading the scenario: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxScenario+1))
	if err != nil {
		return sc, fmt.Errorf("reading the scenario: %w", err)
	}
	if len(b) > maxScenario {
		return sc, fmt.Errorf("scenario %s is larger than %d bytes", path, maxScenario)
	}
	if sc, err = parse(b); err != nil {
		return sc, fmt.Errorf("scenario %s: %w", path, err)
	}
	return sc, nil
}

// parse checks the whole scenario before any of it is played.
func parse(b []byte) (sc scenario, err error) {
	var file struct {
		Schema      string            `json:"$schema"`
		Description string            `json:"description"`
		Version     *int              `json:"version"`
		Turns       []json.RawMessage `json:"turns"`
		Default     []json.RawMessage `json:"default"`
	}
	if err := decode(b, &file); err != nil {
		return sc, err
	}
	if file.Version == nil || *file.Version != 1 {
		return sc, errors.New(`"version" must be 1`)
	}
	for i, raw := range file.Turns {
		name, at := fmt.Sprintf("turn %d", i+1), fmt.Sprintf("/turns/%d", i)
		t, err := parseTurn(raw)
		if err != nil {
			return sc, fmt.Errorf("%s (%s): %w", name, at, err)
		}
		if t.steps, err = parseSteps(t.Steps, name, at+"/steps"); err != nil {
			return sc, err
		}
		sc.turns = append(sc.turns, t)
	}
	if file.Default != nil {
		sc.fallback, err = parseSteps(file.Default, "default", "/default")
	}
	return sc, err
}

// parseTurn reads a turn but for its steps.
func parseTurn(raw json.RawMessage) (t turn, err error) {
	if err = decode(raw, &t); err != nil {
		return t, err
	}
	switch {
	case t.Steps == nil:
		return t, errors.New(`"steps" is missing`)
	case t.Iteration != nil && *t.Iteration < 1:
		return t, errors.New(`"iteration" counts from 1`)
	case t.Attempt != nil && *t.Attempt < 1:
		return t, errors.New(`"attempt" counts from 1`)
	}
	return t, nil
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

// actions names the actions that there are, and those that the step has.
func (s step) actions() (known, has []string) {
	for field, value := range reflect.ValueOf(s).Fields() {
		if name := field.Tag.Get("json"); name != "detach" {
			known = append(known, name)
			if !value.IsNil() {
				has = append(has, name)
			}
		}
	}
	return known, has
}

func (s step) check() error {
	known, has := s.actions()
	switch {
	case len(has) == 0:
		return errors.New("no action: one of " + strings.Join(known, ", "))
	case len(has) > 1:
		return fmt.Errorf("one action a step, not %s: make steps of them", strings.Join(has, " and "))
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

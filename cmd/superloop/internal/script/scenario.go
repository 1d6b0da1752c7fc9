package script

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/superloop/superloop/schemas"
)

// scenario is a scenario file, as schemas/scenario.schema.json describes it.
type scenario struct {
	Turns   []turn `json:"turns"`
	Default []step `json:"default"` // the steps if no turn matches; nil if the scenario has none
}

// turn holds the steps for the role runs whose role, iteration and attempt equal the fields that are not nil.
type turn struct {
	Role      *string `json:"role"`
	Iteration *int    `json:"iteration"`
	Attempt   *int    `json:"attempt"`
	Steps     []step  `json:"steps"`
}

// step has exactly one action. Detach goes with Spawn.
type step struct {
	Say         *string   `json:"say"`
	Stderr      *string   `json:"stderr"`
	Write       *fileText `json:"write"`
	Append      *fileText `json:"append"`
	Delete      *fileText `json:"delete"`
	Report      *string   `json:"report"`
	LastMessage *string   `json:"last_message"`
	Run         []string  `json:"run"`
	Spawn       []string  `json:"spawn"`
	SleepMS     *int64    `json:"sleep_ms"`
	FloodBytes  *int64    `json:"flood_bytes"`
	IgnoreTerm  *bool     `json:"ignore_term"`
	Exit        *int      `json:"exit"`
	Detach      bool      `json:"detach"`
}

type fileText struct {
	Path    string `json:"path"`
	Content string `json:"content"` // "" for Delete
}

func readScenario(path string) (sc scenario, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sc, fmt.Errorf("reading the scenario: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(schemas.Scenario.Limit())+1))
	if err != nil {
		return sc, fmt.Errorf("reading the scenario: %w", err)
	}
	if sc, err = parse(b); err != nil {
		return sc, fmt.Errorf("scenario %s: %w", path, err)
	}
	return sc, nil
}

// parse checks the whole scenario before any step is played: by the schema, and that its paths stay in the working
// directory.
func parse(b []byte) (sc scenario, err error) {
	if problems := schemas.Into(schemas.Scenario, b, &sc); len(problems) > 0 {
		return sc, errors.New(problems[0].String())
	}
	for i, t := range sc.Turns {
		err = errors.Join(err, check(t.Steps, fmt.Sprintf("/turns/%d/steps", i)))
	}
	return sc, errors.Join(err, check(sc.Default, "/default"))
}

func check(steps []step, at string) error {
	for i, s := range steps {
		for _, f := range []*fileText{s.Write, s.Append, s.Delete} {
			if f != nil && !filepath.IsAbs(f.Path) && !filepath.IsLocal(f.Path) {
				return fmt.Errorf("%s/%d: the path %q leaves the working directory", at, i, f.Path)
			}
		}
		for _, argv := range [][]string{s.Run, s.Spawn} {
			if argv != nil && argv[0] == "" {
				return fmt.Errorf("%s/%d: %s needs a program", at, i, s.action())
			}
		}
	}
	return nil
}

func (s step) action() (name string) {
	for field, value := range reflect.ValueOf(s).Fields() {
		if field.Name != "Detach" && !value.IsZero() {
			name = field.Tag.Get("json")
		}
	}
	return name
}

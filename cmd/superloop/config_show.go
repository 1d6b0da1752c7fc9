package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/schemas"
)

// shownValue is a value that is in force.
type shownValue struct {
	Path  string `json:"path"`
	Value any    `json:"value"`
	// From is file, default or pin.
	From string `json:"from"`
	Line int    `json:"line,omitempty"`
	// File is what the file says, when that is held.
	File any `json:"file,omitempty"`
}

func (a *app) configShow(c *cli.Context) error {
	t, err := a.trusted(c)
	if err != nil {
		return err
	}
	var damaged *trust.DamagedError
	if errors.As(t.pinErr, &damaged) {
		return t.unpinned()
	}
	force, held := t.file, trust.Diff{}
	if t.pinErr == nil {
		held = trust.Compare(t.pin.Section, t.section)
		if force, err = trust.Apply(t.file, trust.Effective(t.pin.Section, t.section, false)); err != nil {
			return err
		}
	}
	values, err := a.values(t.file, force)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		out := t.report(held, t.pinErr == nil && len(held.Loosening) == 0)
		delete(out, "tightening")
		delete(out, "loosening")
		out["held"], out["values"] = orEmpty(held.Loosening), values
		return render.JSON(a.stdout, out)
	}
	for _, v := range values {
		from := v.From
		if v.Line > 0 {
			from = fmt.Sprintf("%s:%d", v.From, v.Line)
		}
		line := fmt.Sprintf("%-9s %s  %s", from, asciiText(v.Path), ascii(v.Value))
		if v.From == "pin" {
			line += "   (held: the file says " + ascii(v.File) + ")"
		}
		fmt.Fprintln(a.stdout, line)
	}
	switch {
	case t.pinErr != nil:
		fmt.Fprintf(a.stderr, "nothing is pinned yet: the first run pins the file as it is\n")
	case len(held.Loosening) > 0:
		fmt.Fprintf(a.stderr, "%s; %s held\nnext: superloop config diff, then: %s\n", pinnedBy(t.pin), changesAre(len(held.Loosening)), t.trustLine())
	default:
		fmt.Fprintln(a.stderr, pinnedBy(t.pin))
	}
	return nil
}

func changesAre(n int) string {
	if n == 1 {
		return "1 change of the file is"
	}
	return fmt.Sprintf("%d changes of the file are", n)
}

// values are those of force with their origins. A value is the file's when force says what the file does.
func (a *app) values(file, force *config.Config) ([]shownValue, error) {
	data, err := os.ReadFile(file.Path)
	if err != nil {
		return nil, failf(exitConfig, "superloop validate", "%w", err)
	}
	doc, problems := schemas.Read(schemas.Config, data)
	if doc == nil {
		return nil, &config.Error{Path: file.Path, Problems: problems}
	}
	written, err := settingsOf(file, doc)
	if err != nil {
		return nil, err
	}
	says := map[string]setting{}
	for _, s := range written {
		says[s.path] = s
	}
	inForce, err := settingsOf(force, doc)
	if err != nil {
		return nil, err
	}
	out := []shownValue{}
	for _, s := range inForce {
		v := shownValue{Path: s.path, Value: s.shown(), From: "default"}
		w, known := says[s.path]
		delete(says, s.path)
		switch {
		case !known || !reflect.DeepEqual(w.value, s.value):
			v.From, v.File = "pin", w.shown()
		default:
			for _, ptr := range s.origins {
				if line, _, ok := doc.Position(ptr); ok {
					v.From, v.Line = "file", line
					break
				}
			}
		}
		out = append(out, v)
	}
	for _, w := range says { // held whole: it is not in force at all
		out = append(out, shownValue{Path: w.path, From: "pin", File: w.shown()})
	}
	slices.SortStableFunc(out, func(a, b shownValue) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

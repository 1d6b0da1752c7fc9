package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/schemas"
)

// shownValue is one value in the output of config show --json.
type shownValue struct {
	Path  string `json:"path"`
	Value any    `json:"value"`
	From  string `json:"from"` // file, default or pin
	Line  int    `json:"line,omitempty"`
	File  any    `json:"file,omitempty"` // the file's value, while superloop holds it until an operator trusts it
}

func (a *app) configShow(c *cli.Context) error {
	t, err := a.trusted(c)
	if err != nil {
		return err
	}
	force, held, err := t.inForce()
	if err != nil {
		return err
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
		changes := "1 change of the file is"
		if n := len(held.Loosening); n > 1 {
			changes = fmt.Sprintf("%d changes of the file are", n)
		}
		fmt.Fprintf(a.stderr, "%s; %s held\nnext: superloop config diff, then: %s\n", pinnedBy(t.pin), changes, t.trustLine())
	default:
		fmt.Fprintln(a.stderr, pinnedBy(t.pin))
	}
	return nil
}

// values returns the values of force with their origins. The origin of a value is "pin" if file has another value.
// Otherwise it is "file" where the file states the value, and "default" where it does not. A value that only file has
// is listed as held.
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
	inForce, wrong := settingsOf(force, doc)
	if err := cmp.Or(err, wrong); err != nil {
		return nil, err
	}
	says := map[string]setting{}
	for _, s := range written {
		says[s.path] = s
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
	for _, w := range says { // only the file has the value: superloop holds all of it
		out = append(out, shownValue{Path: w.path, From: "pin", File: w.shown()})
	}
	slices.SortStableFunc(out, func(a, b shownValue) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// shortestDigest is the number of hex digits that --digest needs at least.
const shortestDigest = 8

func (a *app) configTrust(c *cli.Context) error {
	t, err := a.trusted(c)
	if err != nil {
		return err
	}
	want := strings.ToLower(c.String("digest"))
	if c.IsSet("digest") && (len(want) < shortestDigest || !strings.HasPrefix(t.digest, want)) {
		return failf(exitNothing, "superloop config diff", "%s has the digest %s, and not %q (at least %d hex digits of it)",
			t.name(), t.digest, c.String("digest"), shortestDigest)
	}
	d := trust.Compare(t.pin.Section, t.section)
	if t.pinErr == nil && d.Empty() {
		return failf(exitNothing, "superloop config show", "there is nothing to trust: %s says what is pinned", t.name())
	}
	if err := a.mayTrust(c, t, d); err != nil {
		return err
	}
	// superloop pins the section that it has shown, even if the file has changed meanwhile.
	pin, err := t.store.Save(trust.Pin{Section: t.section, At: time.Now(), How: trust.Trusted, By: a.who(c), Config: t.file.Path})
	if err != nil {
		return err
	}
	t.pin, t.pinErr = pin, nil
	return a.told(c, t.report(d, true), "trusted by %s: %s\n", render.Clean(pin.By), t.digest)
}

// mayTrust shows the changes that are to be trusted and asks the operator to confirm them. Without a pin it does not
// ask: superloop holds no change then, and the first run would pin the same section. It does not ask either with --yes,
// or with --digest where there is no terminal.
func (a *app) mayTrust(c *cli.Context, t trusted, d trust.Diff) error {
	asJSON := c.Bool("json")
	damaged, isDamaged := errors.AsType[*trust.DamagedError](t.pinErr)
	switch {
	case isDamaged:
		fmt.Fprintf(a.stderr, "superloop: %v\nwhatever %s says would be trusted; it is kept as %s.broken-0\n", damaged, t.name(), t.store.Path)
		if !asJSON {
			a.showDiff(d)
		}
	case t.pinErr != nil:
		fmt.Fprintf(a.stderr, "nothing was pinned yet: %s is pinned as it is\n", t.name())
		return nil
	case !asJSON:
		a.showDiff(d)
	}
	in := ttyOf(a.stdin)
	switch {
	case c.Bool("yes"), c.IsSet("digest") && (in == nil || asJSON):
		return nil
	case in != nil && !asJSON:
		yes, err := a.ask(c.Context, in, fmt.Sprintf("trust %s as it is (digest %s)", t.name(), t.digest[:shortestDigest]))
		if yes || err != nil {
			return err
		}
		return failf(exitFailed, t.trustLine(), "not trusted; nothing was changed")
	}
	return failf(exitUsage, t.trustLine()+"   (or --yes, whatever it says)", "there is no terminal to ask on; say what is trusted")
}

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/recovery/execute"
	"github.com/superloop/superloop/recovery/inputs"
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
		delete(out, "inputs")
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
		fmt.Fprint(a.stderr, a.here(fmt.Sprintf("%s; %s held\nnext: superloop config diff, then: %s\n", pinnedBy(t.pin), changes, t.trustLine())))
	default:
		fmt.Fprintln(a.stderr, pinnedBy(t.pin))
	}
	return nil
}

// values returns the values of force with their origins. The origin of a value is "pin" if file has another value.
// Otherwise it is "file" where the file states the value, and "default" where it does not. A value that only file has
// is listed as held.
func (a *app) values(file, force *config.Config) ([]shownValue, error) {
	data, err := config.Read(file.Path)
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
	if err := t.look(c.Context); err != nil {
		return err
	}
	if want := strings.ToLower(c.String("digest")); c.IsSet("digest") {
		enough := len(want) >= shortestDigest
		switch {
		case enough && strings.HasPrefix(t.asked(), want):
		case enough && strings.HasPrefix(t.digest, want):
			t.reads = nil // the digest names the file alone
		default:
			return failf(exitNothing, "superloop config diff", "%s has the digest %s, and not %q (at least %d hex digits of it)",
				t.name(), t.asked(), c.String("digest"), shortestDigest)
		}
	}
	d := trust.Compare(t.pin.Section, t.section)
	same := t.pinErr == nil && d.Empty()
	if same && len(t.reads) == 0 {
		return failf(exitNothing, "superloop config show", "there is nothing to trust: %s says what is pinned", t.name())
	}
	if err := a.mayTrust(c, t, d); err != nil {
		return err
	}
	if err := t.trustReads(c.Context); err != nil {
		return err
	}
	by := a.who(c)
	if !same {
		// superloop pins the section that it has shown, even if the file has changed meanwhile.
		if t.pin, err = t.store.Save(trust.Pin{Section: t.section, At: time.Now(), How: trust.Trusted, By: by, Config: t.file.Path}); err != nil {
			return err
		}
		t.pinErr = nil
	}
	return a.told(c, t.report(d, true), "trusted by %s: %s\n", render.Clean(by), t.asked())
}

// mayTrust shows the changes that are to be trusted and asks the operator to confirm them. Without a pin it does not
// ask about the file: superloop holds no change then, and the first run would pin the same section. It does not ask
// either with --yes, or with --digest where there is no terminal.
func (a *app) mayTrust(c *cli.Context, t trusted, d trust.Diff) error {
	asJSON := c.Bool("json")
	damaged, isDamaged := errors.AsType[*trust.DamagedError](t.pinErr)
	switch {
	case isDamaged:
		fmt.Fprintf(a.stderr, "superloop: %v\nwhatever %s says would be trusted; it is kept as %s.broken-0\n", damaged, t.name(), t.store.Path)
	case t.pinErr != nil:
		fmt.Fprintf(a.stderr, "nothing was pinned yet: %s is pinned as it is\n", t.name())
		if len(t.reads) == 0 {
			return nil
		}
		d = trust.Diff{}
	}
	if !asJSON {
		a.showDiff(d)
		a.showReads(t.reads)
	}
	what := "trust " + t.name() + " as it is"
	switch {
	case len(t.reads) > 0 && d.Empty():
		what = "trust what listed commands read as it is"
	case len(t.reads) > 0:
		what = "trust " + t.name() + ", and what listed commands read, as they are"
	}
	in := ttyOf(a.stdin)
	switch {
	case c.Bool("yes"), c.IsSet("digest") && (in == nil || asJSON):
		return nil
	case in != nil && !asJSON:
		yes, err := a.ask(c.Context, in, fmt.Sprintf("%s (digest %s)", what, t.asked()[:shortestDigest]))
		if yes || err != nil {
			return err
		}
		return failf(exitFailed, t.trustLine(), "not trusted; nothing was changed")
	}
	return failf(exitUsage, t.trustLine()+"   (or --yes, whatever it says)", "there is no terminal to ask on; say what is trusted")
}

// reads says how the files that listed commands read in a work tree differ from those that an operator has trusted.
type reads struct {
	Tree    string          `json:"tree"`
	Changes []inputs.Change `json:"changes"`
	// Unknown says why nothing is known about the trusted files. Then the operator trusts all files as they are.
	Unknown string `json:"unknown,omitempty"`

	queries []inputs.Query
}

// look fills in t.reads: the work trees in which listed commands read something that is not trusted.
func (t *trusted) look(ctx context.Context) error {
	tops, err := t.ledger.Trees(ctx)
	if err != nil {
		return err
	}
	for _, top := range tops {
		tree, err := inputs.Open(top)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the loop's own work tree is removed
		}
		if err != nil {
			return err
		}
		r, err := t.readsOf(top, tree)
		_ = tree.Close() // it was only read
		if err != nil {
			return err
		}
		if len(r.Changes) > 0 || r.Unknown != "" {
			t.reads = append(t.reads, r)
		}
	}
	return nil
}

func (t *trusted) readsOf(top string, tree *inputs.WorkTree) (reads, error) {
	r := reads{Tree: top, Changes: []inputs.Change{}}
	for _, l := range t.file.Loops {
		if p, problems := t.file.Policy(l.ID); p != nil && len(problems) == 0 {
			r.queries = append(r.queries, execute.Listed(p, top, os.Environ())...)
		}
	}
	base, err := t.ledger.Base(top)
	if none, ok := errors.AsType[*inputs.NoBaselineError](err); ok {
		r.Unknown = none.Err.Error()
		return r, nil
	}
	if err != nil {
		return r, err
	}
	seen := map[string]bool{}
	for _, q := range r.queries {
		report, err := inputs.Check(base, tree, q)
		if err != nil {
			return r, err
		}
		for _, c := range report.Changes {
			// What cannot be watched stays a question.
			if id := inputs.DigestOf([]inputs.Change{c}); c.Kind != inputs.Lost && !seen[id] {
				seen[id] = true
				r.Changes = append(r.Changes, c)
			}
		}
	}
	return r, nil
}

// asked returns the digest of all that an operator is asked to trust: that of the section, if it is the section alone.
func (t trusted) asked() string {
	if len(t.reads) == 0 {
		return t.digest
	}
	h := sha256.New()
	fmt.Fprintln(h, t.digest)
	for _, r := range t.reads {
		fmt.Fprintf(h, "%q %s %t\n", r.Tree, inputs.DigestOf(r.Changes), r.Unknown != "")
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (t trusted) trustReads(ctx context.Context) error {
	for _, r := range t.reads {
		var err error
		if r.Unknown != "" {
			err = t.ledger.Renew(ctx, r.Tree, execute.Outside(os.Environ(), r.Tree), r.queries, time.Now())
		} else {
			err = t.ledger.Trust(ctx, r.Tree, r.Changes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// showReads prints how what listed commands read differs from what is trusted.
func (a *app) showReads(list []reads) {
	for _, r := range list {
		if r.Unknown != "" {
			fmt.Fprintf(a.stdout, "%s: it is not known which files an operator trusts (%s); all files as they are would be trusted\n", asciiText(r.Tree), asciiText(r.Unknown))
			continue
		}
		fmt.Fprintf(a.stdout, "%s: what listed commands read is not what was trusted:\n%s", asciiText(r.Tree), inputs.WholeDiff(r.Changes))
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/loop/config/trust"
)

// shortestDigest is how much of a digest names it, in hex digits.
const shortestDigest = 8

func (a *app) configTrust(c *cli.Context) error {
	if err := a.person(); err != nil {
		return err
	}
	t, err := a.trusted(c)
	if err != nil {
		return err
	}
	want := strings.ToLower(c.String("digest"))
	if c.IsSet("digest") && (len(want) < shortestDigest || !strings.HasPrefix(t.digest, want)) {
		return failf(exitNothing, "superloop config diff", "%s has the digest %s, and not %q (at least %d hex digits of it)",
			relTo(t.repo, t.file.Path), t.digest, c.String("digest"), shortestDigest)
	}
	d := trust.Compare(t.pin.Section, t.section)
	if t.pinErr == nil && d.Empty() {
		return failf(exitNothing, "superloop config show", "there is nothing to trust: %s says what is pinned", relTo(t.repo, t.file.Path))
	}
	if err := a.mayTrust(c, t, d); err != nil {
		return err
	}
	// What was shown is pinned, whatever the file says by now.
	pin, err := t.store.Save(trust.Pin{Section: t.section, At: time.Now(), How: trust.Trusted, By: a.who(c), Config: t.file.Path})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		t.pin, t.pinErr = pin, nil
		return render.JSON(a.stdout, t.report(d, true))
	}
	fmt.Fprintf(a.stdout, "trusted by %s: %s\n", render.Clean(pin.By), t.digest)
	return nil
}

// mayTrust shows what is to be trusted and asks, where there is something to
// ask: without a pin nothing is held, and the first run would pin the same.
func (a *app) mayTrust(c *cli.Context, t trusted, d trust.Diff) error {
	asJSON := c.Bool("json")
	var damaged *trust.DamagedError
	switch {
	case errors.As(t.pinErr, &damaged):
		fmt.Fprintf(a.stderr, "superloop: %v\nwhatever %s says would be trusted; it is kept as %s.broken-0\n", damaged, relTo(t.repo, t.file.Path), t.store.Path)
		if !asJSON {
			a.showDiff(d)
		}
	case t.pinErr != nil:
		fmt.Fprintf(a.stderr, "nothing was pinned yet: %s is pinned as it is\n", relTo(t.repo, t.file.Path))
		return nil
	case !asJSON:
		a.showDiff(d)
	}
	if c.Bool("yes") {
		return nil
	}
	if in := ttyOf(a.stdin); in != nil && !asJSON {
		return a.askTrust(c.Context, in, t)
	}
	if c.IsSet("digest") {
		return nil
	}
	return failf(exitUsage, t.trustLine()+"   (or --yes, whatever it says)", "there is no terminal to ask on; say what is trusted")
}

// askTrust asks on the terminal.
func (a *app) askTrust(ctx context.Context, in io.Reader, t trusted) error {
	yes, err := a.ask(ctx, in, fmt.Sprintf("trust %s as it is (digest %s)", relTo(t.repo, t.file.Path), t.digest[:shortestDigest]))
	if yes || err != nil {
		return err
	}
	return failf(exitFailed, t.trustLine(), "not trusted; nothing was changed")
}

package remedy

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/classify"
)

// The remedies that the published table of 004 names stand first, or among the first as a proposal.
// Conforms: 004-app-eresolve, 004-app-lockfile
func TestPublishedRemedies(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	k, err := classify.New(cat, classify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command, stderr string
		files           map[string]string
		want            string
		place           int
	}{
		{"bun install --frozen-lockfile", "error: lockfile had changes, but lockfile is frozen\n", map[string]string{"package.json": "{}", "bun.lock": ""}, "bun install", 1},
		{"npm install", "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree\n",
			map[string]string{"package.json": "{}", "package-lock.json": "{}"}, "npm install --legacy-peer-deps", 2},
	} {
		top := repo(t, c.files)
		f, err := k.Classify(context.Background(), classify.Input{Source: classify.SourceCommand, Command: c.command, Dir: top, Exit: classify.Exit{Code: 1},
			Stderr: strings.NewReader(c.stderr)})
		if err != nil {
			t.Fatal(err)
		}
		plan := Resolve(cat, f, Presets()["ci_container"].With("bun", "npm", "git"), Situation{Dir: top})
		at := slices.IndexFunc(plan.Options, func(o Option) bool { return o.Command == c.want })
		if at < 0 || at >= c.place {
			t.Errorf("%s: %q is number %d, want %d at most", c.command, c.want, at+1, c.place)
		}
	}
}

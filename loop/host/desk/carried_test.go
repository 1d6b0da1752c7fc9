package desk

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/carry"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/local"
)

// pool is a bare repository and machines that share nothing else.
type pool struct {
	*testing.T
	top   string
	claim host.Claim
}

// member is a machine of a pool.
type member struct {
	*pool
	name string
	*host.Client
	place host.Place
	ended chan error
	gone  atomic.Int64 // how often another machine was let have the loop
}

func (p *pool) git(args ...string) string {
	p.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e@example.com", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (p *pool) environ(name string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(p.top, name), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=e@example.com", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=e@example.com"}
}

func (p *pool) carry(name string) carry.Options {
	return carry.Options{StateHome: filepath.Join(p.top, name, "state"), Environ: p.environ(name), Disk: durable.OS(), Log: zap.NewNop(), Now: time.Now}
}

// newPool offers a loop of a clone. Each role runs agent, and appends to work.txt, which nobody commits.
func newPool(t *testing.T, agent, loopKeys string) *pool {
	t.Helper()
	return newPoolOf(t, agent, loopKeys, `"recovery": {"enabled": false}`)
}

func newPoolOf(t *testing.T, agent, loopKeys, recovery string) *pool {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{T: t, top: top, claim: host.Claim{Workflow: "superloop/f/shop/l", Remote: filepath.Join(top, "remote.git"), Loop: "l", Grant: "g1", By: "ann", Keys: [][]byte{[]byte("key")}}}
	write := func(name, text string) {
		path := filepath.Join(top, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("agent.sh", `cat > /dev/null
echo "$SUPERLOOP_ROLE $SUPERLOOP_ITERATION $SUPERLOOP_ATTEMPT" >> work.txt
echo "$SUPERLOOP_ROLE $SUPERLOOP_ITERATION $SUPERLOOP_ATTEMPT" >> "`+filepath.Join(top, "ran")+`"
case $SUPERLOOP_ROLE in planner) f=plan.md ;; *) f=review.md ;; esac
echo "$SUPERLOOP_ROLE $SUPERLOOP_ITERATION" > "$SUPERLOOP_LOOP_DIR/$f"
`+agent+"\n")
	write("clone/spec.md", "build it\n")
	write("clone/old.txt", "old\n")
	write("clone/.gitignore", "*.o\n")
	write("clone/heal.sh", "echo ran >> ran.txt; sleep 30; touch fixed\n")
	write("proposal.json", `{"version": 1, "timestamp": "2026-01-23T05:36:33Z", "category": "dependency", "severity": "blocking",
  "diagnosis": {"error_pattern": "x", "root_cause": "it is broken", "evidence": ["test-output.txt:1: x"]},
  "recovery": {"command": "sh heal.sh", "expected_outcome": "it works", "confidence": "high"}}`)
	p.git("init", "-q", "--bare", p.claim.Remote)
	p.git("-C", filepath.Join(top, "clone"), "init", "-q")
	p.git("-C", filepath.Join(top, "clone"), "add", "-A")
	p.git("-C", filepath.Join(top, "clone"), "commit", "-q", "-m", "begin")
	write("clone/.superloop/config.json", `{"runners": {"sh": {"command": ["sh", "`+filepath.Join(top, "agent.sh")+`"]}}, `+recovery+`,
  "loops": [{"id": "l", "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": 3, "roles": ["planner", "reviewer"]`+loopKeys+`}]}`)
	p.offer(false)
	return p
}

func (p *pool) offer(fresh bool) {
	p.Helper()
	cfg, err := config.Load(filepath.Join(p.top, "clone/.superloop/config.json"))
	if err != nil {
		p.Fatal(err)
	}
	p.claim.Digest = cfg.Digest
	if err := carry.Offer(p.Context(), filepath.Join(p.top, "clone"), p.claim, fresh, p.carry("person")); err != nil {
		p.Fatal(err)
	}
}

// machine begins the process of a machine.
func (p *pool) machine(name string) *member {
	p.Helper()
	if err := os.MkdirAll(filepath.Join(p.top, name), 0o755); err != nil {
		p.Fatal(err)
	}
	m := &member{pool: p, name: name, ended: make(chan error, 1)}
	in, to := io.Pipe()
	from, out := io.Pipe()
	go func() {
		err := Serve(context.Background(), in, out, Options{Log: zap.NewNop(), Carry: p.carry(name), Gone: func(host.Place) { m.gone.Add(1) },
			Prepare: func(at host.Place, by string) (local.Options, func(), error) {
				cfg, err := config.Load(filepath.Join(at.Repo, ".superloop", "config.json"))
				return local.Options{Repo: at.Repo, LoopID: at.Loop, Config: cfg, Version: "v", StateHome: filepath.Join(p.top, name, "state"), Disk: durable.OS(), Containment: proc.ProcessGroup, Unprotected: true,
					Environ: p.environ(name), By: by}, func() {}, err
			},
			Verb: func(_ context.Context, v host.Verb) ([]byte, error) {
				return []byte("done"), os.WriteFile(filepath.Join(v.Of.Repo, "note.txt"), []byte(strings.Join(v.Args, " ")), 0o644)
			}})
		_ = out.Close()
		m.ended <- err
	}()
	m.Client = host.NewClient(to, from, func(host.Place) {}, nil)
	p.Cleanup(func() { m.end() })
	return m
}

func (m *member) end() {
	if m.Client == nil {
		return
	}
	_ = m.Client.Close()
	if err := <-m.ended; err != nil {
		m.Error(err)
	}
	m.Client = nil
}

func (m *member) take() error {
	m.Helper()
	q := m.claim
	q.Machine = m.name
	p, err := m.Client.Claim(m.Context(), q)
	m.place = p
	return err
}

// adopt takes the loop up.
func (m *member) adopt() (loop.State, int64) {
	m.Helper()
	if err := m.take(); err != nil {
		m.Fatal(err)
	}
	t, err := m.Client.Turn(m.Context(), host.Turn{Place: m.place, Start: true, By: "ann"})
	if err != nil || t.State == nil {
		m.Fatal(t, err)
	}
	return *t.State, t.Seq
}

// poolEngine folds what machines tell, as the workflow does.
type poolEngine struct {
	fold *loop.Replay
	seq  int64
	rest host.Rest
}

func (e *poolEngine) turn(m *member) error {
	m.Helper()
	due, _ := loop.Due(e.fold.State)
	t, err := m.Client.Turn(m.Context(), host.Turn{Place: m.place, Effect: due.ID, Since: e.seq, By: "ann"})
	if err != nil {
		return err
	}
	for _, l := range t.Lines {
		ev := l.Event()
		if ev.Seq != e.seq+1 {
			m.Fatalf("event %d after %d", ev.Seq, e.seq)
		}
		if err := e.fold.Add(ev); err != nil {
			m.Fatal(err)
		}
		e.seq = ev.Seq
	}
	e.rest = t.Rest
	return nil
}

// until turns until the loop rests, or what is due is of a kind.
func (e *poolEngine) until(m *member, kind loop.EffectKind, role string) {
	m.Helper()
	for range 40 {
		due, _ := loop.Due(e.fold.State)
		if e.rest == host.Ended || due.Kind == kind && due.Role == role {
			return
		}
		if err := e.turn(m); err != nil {
			m.Fatal(err)
		}
	}
	m.Fatal("it goes on and on")
}

func (m *member) begin() *poolEngine {
	m.Helper()
	s, seq := m.adopt()
	e := &poolEngine{fold: loop.NewReplay(), seq: seq}
	e.fold.State = s
	return e
}

func (p *pool) ran() string {
	data, _ := os.ReadFile(filepath.Join(p.top, "ran"))
	return strings.TrimSpace(string(data))
}

func (m *member) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(m.place.Repo, name))
	return string(data)
}

const promise = `[ "$SUPERLOOP_ROLE$SUPERLOOP_ITERATION" != reviewer2 ] || echo '<promise>DONE</promise>'`

// TestCarried takes a loop from machine to machine in the middle of its work: the next one has all files, also those that
// nobody has committed, and goes on with the next effect. A machine that was left and comes back gets nothing through.
func TestCarried(t *testing.T) {
	t.Parallel()
	p := newPool(t, `rm -f old.txt; echo x > "a b.o"; mkdir -p sub; ln -sf ../spec.md sub/link; printf 'bin\r\n\000' > sub/raw; chmod +x sub/raw; git add sub/raw; `+promise, "")
	a, b := p.machine("a"), p.machine("b")
	e := a.begin()
	e.until(a, loop.RunRole, "reviewer")
	if err := b.take(); err != nil {
		t.Fatal(err)
	}
	if got := b.read("work.txt"); got != "planner 1 1\n" || b.read("sub/raw") != "bin\r\n\x00" || b.read("old.txt") != "" || b.read("a b.o") != "" || b.read("sub/link") != "build it\n" {
		t.Errorf("the work tree: %q %q %q", got, b.read("sub/raw"), b.read("old.txt"))
	}
	if was, is := p.git("-C", a.place.Repo, "status", "--porcelain"), p.git("-C", b.place.Repo, "status", "--porcelain"); was != is || !strings.Contains(is, "A  sub/raw") {
		t.Errorf("git status:\n%s\n%s", was, is)
	}
	// The old machine is asked once more: it begins nothing.
	var said *host.Error
	if err := e.turn(a); !errors.As(err, &said) || !said.Moved || a.gone.Load() != 1 || !strings.Contains(said.Text, "refs/superloop-lost/l/") {
		t.Errorf("the old machine: %v", err)
	}
	if got := p.ran(); got != "planner 1 1" {
		t.Errorf("ran %q", got)
	}
	e.until(b, "none", "")
	if e.fold.State.Status != loop.Completed || p.ran() != "planner 1 1\nreviewer 1 1\nplanner 2 1\nreviewer 2 1" {
		t.Errorf("%s\n%s", e.fold.State.Status, p.ran())
	}
	// A third machine is asked for an outcome that it did not see, and nothing begins anew.
	c := p.machine("c")
	if s, seq := c.adopt(); s.Status != loop.Completed || seq != e.seq {
		t.Errorf("%s %d, want event %d", s.Status, seq, e.seq)
	}
	p.claim.Grant = "g2"
	p.offer(true)
	e = a.begin()
	if e.fold.State.Iteration != 2 && e.fold.State.Status != loop.Completed { // nobody asked the machine to begin anew
		t.Errorf("%+v", e.fold.State)
	}
	if a.read("work.txt") != "" {
		t.Errorf("a fresh loop has the work of the last one: %q", a.read("work.txt"))
	}
}

// TestCarriedDiesInRole: the machine that had the loop is gone in the middle of a role. The other one begins the next attempt.
func TestCarriedDiesInRole(t *testing.T) {
	t.Parallel()
	p := newPool(t, `[ "$SUPERLOOP_ROLE$SUPERLOOP_ITERATION$SUPERLOOP_ATTEMPT" != reviewer11 ] || exec sleep 60; `+promise, "")
	a, b := p.machine("a"), p.machine("b")
	e := a.begin()
	e.until(a, loop.RunRole, "reviewer")
	late := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		due, _ := loop.Due(e.fold.State)
		_, err := a.Client.Turn(ctx, host.Turn{Place: a.place, Effect: due.ID, Since: e.seq, By: "ann"})
		late <- err
	}()
	for !strings.Contains(p.ran(), "reviewer 1 1") {
		<-time.After(10 * time.Millisecond)
	}
	if err := b.take(); err != nil {
		t.Fatal(err)
	}
	e.until(b, "none", "")
	if e.fold.State.Status != loop.Completed || p.ran() != "planner 1 1\nreviewer 1 1\nreviewer 1 2\nplanner 2 1\nreviewer 2 1" {
		t.Errorf("%s\n%s", e.fold.State.Status, p.ran())
	}
	stop() // as the server does with an activity that has no right any more
	var said *host.Error
	if err := <-late; !errors.As(err, &said) || !said.Moved {
		t.Errorf("the late answer: %v", err)
	}
	if refs := p.git("-C", a.place.Repo, "for-each-ref", "refs/superloop-lost/l"); strings.Count(refs, "\n") != 0 || refs == "" {
		t.Errorf("what was kept: %q", refs)
	}
}

// TestCarriedDiesInRecovery: the machine that had the loop is gone while it executes a command. The other one asks, and does not
// execute it again.
func TestCarriedDiesInRecovery(t *testing.T) {
	t.Parallel()
	p := newPoolOf(t, `[ "$SUPERLOOP_ROLE" != reviewer ] || [ -f fixed ] || cp "${0%/*}/proposal.json" "$SUPERLOOP_LOOP_DIR/recovery.json"`, `, "tests": {"commands": ["test -f fixed"]}`,
		`"recovery": {"first_aid": false, "auto_approve": ["sh heal.sh"], "cooldown_seconds": 0}`)
	a, b := p.machine("a"), p.machine("b")
	e := a.begin()
	e.until(a, loop.ExecuteRecovery, "")
	if e.rest == host.Ended {
		t.Fatalf("%+v", e.fold.State)
	}
	late := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		due, _ := loop.Due(e.fold.State)
		_, err := a.Client.Turn(ctx, host.Turn{Place: a.place, Effect: due.ID, Since: e.seq, By: "ann"})
		late <- err
	}()
	for a.read("ran.txt") == "" {
		<-time.After(10 * time.Millisecond)
	}
	if err := b.take(); err != nil {
		t.Fatal(err)
	}
	for e.rest != host.Waits && e.rest != host.Ended {
		if err := e.turn(b); err != nil {
			t.Fatal(err)
		}
	}
	if s := e.fold.State; s.Status != loop.AwaitingHuman || s.Human == nil || b.read("ran.txt") != "" {
		t.Errorf("%s %+v %q", s.Status, s.Human, b.read("ran.txt"))
	}
	stop()
	var said *host.Error
	if err := <-late; !errors.As(err, &said) || !said.Moved {
		t.Errorf("the late answer: %v", err)
	}
}

// TestCarriedLeaves: a machine that is to leave lets the loop go, which counts for nothing; and so does one whose process ends.
func TestCarriedLeaves(t *testing.T) {
	t.Parallel()
	p := newPool(t, promise, "")
	a, b := p.machine("a"), p.machine("b")
	e := a.begin()
	e.until(a, loop.RunRole, "reviewer")
	got, err := a.Client.Turn(t.Context(), host.Turn{Place: a.place, Leave: true})
	if err != nil || !got.LetGo || a.gone.Load() != 1 || b.gone.Load() != 0 {
		t.Fatal(got, err, a.gone.Load())
	}
	if err := b.take(); err != nil {
		t.Fatal(err)
	}
	if said, err := b.Verb(t.Context(), host.Verb{Args: []string{"note", "it"}, Of: b.place}); err != nil || string(said) != "done" {
		t.Fatal(string(said), err)
	}
	b.end()
	if err := a.take(); err != nil {
		t.Fatal(err)
	}
	if got := a.read("note.txt"); got != "note it" {
		t.Errorf("what the verb wrote: %q", got)
	}
	e.until(a, "none", "")
	if e.fold.State.Status != loop.Completed || p.ran() != "planner 1 1\nreviewer 1 1\nplanner 2 1\nreviewer 2 1" {
		t.Errorf("%s\n%s", e.fold.State.Status, p.ran())
	}
}

// TestCarriedRefused: a machine takes no loop that was not started as it is said to have been.
func TestCarriedRefused(t *testing.T) {
	t.Parallel()
	p := newPool(t, promise, "")
	a := p.machine("a")
	good := p.claim
	for want, change := range map[string]func(q *host.Claim){
		"by another signature":                          func(q *host.Claim) { q.Grant = "old" },
		"this machine runs no other":                    func(q *host.Claim) { q.Digest = strings.Repeat("0", 64) },
		"was not written by a machine of this fleet":    func(q *host.Claim) { q.Keys = [][]byte{[]byte("another")} },
		"has no loop m":                                 func(q *host.Claim) { q.Loop = "m" },
		"somebody has put an old state in its place":    func(q *host.Claim) { q.Since = 99 },
		"was not written by a machine of this fleet (t": func(q *host.Claim) { q.Workflow = "superloop/f/other/l" },
	} {
		p.claim = good
		change(&p.claim)
		var said *host.Error
		if err := a.take(); !errors.As(err, &said) || !said.Final || !strings.Contains(said.Text, want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	p.claim = good
	e := a.begin()
	e.until(a, "none", "")
	if e.fold.State.Status != loop.Completed {
		t.Error(e.fold.State.Status)
	}
}

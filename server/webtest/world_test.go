package webtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds a wait for what has to happen.
const patience = 60 * time.Second

// world is a daemon with loops, for all tests of the run.
type world struct {
	root, bin, port string
	env             []string
	daemon          *exec.Cmd
	log             bytes.Buffer
}

var the struct {
	once sync.Once
	w    *world
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, w := range []*world{the.w, ofNight.w} {
		if w != nil {
			w.kill()
			_ = os.RemoveAll(w.root) // what is left is a temporary directory
		}
	}
	stopBrowser()
	os.Exit(code)
}

// begin returns the world.
func begin(t *testing.T) *world {
	t.Helper()
	if chromium() == "" {
		t.Skip("there is no chromium on PATH; in Debian: apt-get install -y --no-install-recommends chromium fonts-dejavu-core")
	}
	the.once.Do(func() { the.w, the.err = newWorld() })
	if the.err != nil {
		t.Fatal(the.err)
	}
	return the.w
}

func newWorld() (*world, error) {
	root, err := os.MkdirTemp("", "superloop web ü")
	if err != nil {
		return nil, err
	}
	w := &world{root: root, bin: filepath.Join(root, "superloop")}
	build := exec.Command("go", "build", "-o", w.bin, "./cmd/superloop")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building superloop: %w\n%s", err, out)
	}
	for _, v := range []string{"PATH", "TMPDIR", "LANG"} {
		w.env = append(w.env, v+"="+os.Getenv(v))
	}
	w.env = append(w.env, "HOME="+root+"/home", "XDG_STATE_HOME="+root+"/state", "USER=ann", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+root+"/gitconfig",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	err = errors.Join(os.MkdirAll(root+"/home/.config/superloop/recovery", 0o700),
		os.WriteFile(root+"/home/.config/superloop/recovery/own.yaml", []byte(staleIndex), 0o600),
		os.WriteFile(root+"/gitconfig", []byte("[user]\n\tname = ann\n\temail = ann@example.com\n[init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = *\n"), 0o600),
		os.WriteFile(root+"/agent.sh", []byte(agent), 0o600))
	if err == nil {
		err = w.serve()
	}
	return w, err
}

// serve starts a daemon at the port of the one before.
func (w *world) serve() error {
	at := "localhost:0"
	if w.port != "" {
		at = "localhost:" + w.port
	}
	w.daemon = exec.Command(w.bin, "serve", "--listen", at)
	w.daemon.Env, w.daemon.Dir, w.daemon.Stderr = w.env, w.root, &w.log
	if err := w.daemon.Start(); err != nil {
		return err
	}
	link, err := "", errors.New("not asked yet")
	for late := time.Now().Add(patience); err != nil; { // it holds its lock a moment later
		if link, err = w.try("ui", "--no-open", "--json"); err != nil && time.Now().After(late) {
			return fmt.Errorf("%w\n%s", err, w.log.String())
		}
	}
	var l struct{ URL string }
	if err := json.Unmarshal([]byte(link), &l); err != nil {
		return err
	}
	u, err := url.Parse(l.URL)
	if err == nil {
		w.port = u.Port()
	}
	return err
}

func (w *world) kill() {
	if w.daemon != nil {
		_ = w.daemon.Process.Kill()
		_ = w.daemon.Wait()
		w.daemon = nil
	}
}

func (w *world) try(args ...string) (string, error) {
	c := exec.Command(w.bin, args...)
	var out, errs bytes.Buffer
	c.Env, c.Dir, c.Stdout, c.Stderr = w.env, w.root, &out, &errs
	if err := c.Run(); err != nil {
		return out.String(), fmt.Errorf("superloop %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}

func (w *world) verb(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// link returns the address of the page with a code.
func (w *world) link(t *testing.T) string {
	t.Helper()
	var l struct{ URL string }
	if err := json.Unmarshal([]byte(w.verb(t, "ui", "--no-open", "--json")), &l); err != nil {
		t.Fatal(err)
	}
	return l.URL
}

// a loop of its own repository.
type spec struct {
	repo, id, branch string
	roles            string // JSON
	more             string // JSON members of the loop
	channels         string // JSON: the channels by which people are told
	proposal         map[string]any
	says             string // what the roles print
	iterations       int
	idle             bool   // it is not started
	priced           bool   // its agents tell what they cost, as claude does
	runners          string // JSON members: runners besides it
	top              string // JSON members of the configuration
	listed           string // JSON members of recovery.auto_approve
}

// loop makes a repository with one loop, and starts it. Its tests fail until a file "ok" is there.
func (w *world) loop(t *testing.T, s spec) (repo string) {
	t.Helper()
	repo = filepath.Join(w.root, s.repo)
	if s.roles == "" {
		s.roles = `["tester", "reviewer"]`
	}
	if s.iterations == 0 {
		s.iterations = 4
	}
	if s.more == "" {
		s.more = `"tests": {"commands": ["./check"]}`
	}
	runner, adapter := "sh", ""
	if s.priced {
		runner, adapter = "claude", `, "adapter": "claude"`
	}
	proposal, err := json.Marshal(s.proposal)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		file := filepath.Join(repo, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("spec.md", "# Do it\n", 0o600)
	write("check", "#!/bin/sh\n[ -f ok ] && exit 0\ncat says\necho 'mytool: the index is stale' >&2\nexit 3\n", 0o700)
	write("refresh", "#!/bin/sh\ntouch ok\n", 0o700)
	write("proposal.json", string(proposal), 0o600)
	write("says", cmp.Or(s.says, "I look at the index.")+"\n", 0o600)
	write(".gitignore", "ok\ntheirs\n", 0o600)
	write(".superloop/config.json", fmt.Sprintf(`{"runners": {%q: {"command": ["sh", %q]%s}%s}, %s"recovery": {"auto_approve": ["true", "touch okay"%s], "require_human": ["rm *"]}, "escalation": {"channels": {%s}},
		"loops": [{"id": %q, "spec_file": "spec.md", "completion_promise": "DONE", "max_iterations": %d, "roles": %s, %s}]}`, runner, w.root+"/agent.sh", adapter, s.runners, s.top, s.listed, s.channels, s.id, s.iterations, s.roles, s.more), 0o600)
	branch := s.branch
	if branch == "" {
		branch = "main"
	}
	for _, args := range [][]string{{"init", "-q", "-b", branch, "--template="}, {"add", "."}, {"commit", "-q", "-m", "all"}} {
		c := exec.Command("git", append([]string{"-C", repo}, args...)...)
		c.Env = w.env
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if !s.idle {
		w.verb(t, "start", "--repo", repo, "--loop", s.id)
	}
	return repo
}

func proposes(command string) map[string]any {
	return map[string]any{"version": 1, "category": "environment", "severity": "blocking",
		"diagnosis": map[string]any{"error_pattern": "index is stale", "root_cause": "the index is older than what it indexes", "evidence": []string{"test-output.txt:1: mytool: the index is stale"}},
		"recovery":  map[string]any{"command": command, "working_dir": ".", "timeout_seconds": 60, "expected_outcome": "the index is fresh", "confidence": "high"}}
}

// agent is every role: it writes its report, and a tester leaves the proposal.
const agent = `cat > /dev/null
case $SUPERLOOP_ROLE in implementer) f=implementer.md ;; tester) f=test-report.md ;; planner) f=plan.md ;; *) f=review.md ;; esac
date +%s%N > "$SUPERLOOP_LOOP_DIR/$f"
cat says
grep -qs "$SUPERLOOP_RUN_ID" work.txt || echo "$SUPERLOOP_RUN_ID" >> work.txt
[ "$SUPERLOOP_ROLE" != implementer ] || date +%s%N >> work.txt
if [ "$SUPERLOOP_ROLE" = tester ] && ! [ -f ok ]; then
	sed "s/^{/{\"timestamp\": \"$(date -u +%Y-%m-%dT%H:%M:%SZ)\", /" proposal.json > "$SUPERLOOP_LOOP_DIR/recovery.json"
fi
said=
[ "$SUPERLOOP_ROLE" != reviewer ] || ! [ -f ok ] || said='<promise>DONE</promise>'
case "$*" in
*stream-json*) # as claude speaks: it tells what it has cost
	cost=0.$(( $(date +%N | cut -c1-2 | sed 's/^0//') + 11 ))
	echo '{"type":"system","subtype":"init","session_id":"s1","model":"'"$MODEL"'"}'
	echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I look at the index, and at what reads it."}]},"session_id":"s1"}'
	echo '{"type":"result","subtype":"success","is_error":false,"result":"done '"$said"'","session_id":"s1","total_cost_usd":'$cost',"usage":{"input_tokens":21000,"output_tokens":3400}}' ;;
*) [ -z "$said" ] || echo "$said" ;;
esac
`

// staleIndex is a rule of the user: what fails so can be mended by ./refresh.
const staleIndex = `layer: infra
handlers:
  - id: stale_index
    label: The index is stale
    description: The index is older than what it indexes.
    category: environment
    match: {any: ['^mytool: the index is stale']}
    options:
      - {id: refresh, label: Make the index anew, strategy: env_fix, recommended: true, confidence: 0.9, commands: [[./refresh]], expect: the index is fresh}
    examples:
      - {tool: mytool 1, command: ./check, exit_code: 1, stderr: "mytool: the index is stale"}
    counter_examples:
      - {tool: mytool 1, command: ./check, exit_code: 1, stderr: "mytool: no index"}
`

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !ok() {
		select {
		case <-late.C:
			t.Fatalf("never: %s\n%s", what, the.w.log.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// state is the status of a loop, "" before it has one.
func state(repo, id string) string {
	var v struct{ Status string }
	data, err := os.ReadFile(filepath.Join(repo, ".superloop", "loops", id, "state.json"))
	if err == nil {
		_ = json.Unmarshal(data, &v) // it is being written
	}
	return v.Status
}

// question is the question of a loop.
type question struct{ ID, Digest string }

func asks(t *testing.T, repo, id string) (q question) {
	t.Helper()
	until(t, id+" asks", func() bool {
		var v struct{ ID, Digest, Status string }
		data, err := os.ReadFile(filepath.Join(repo, ".superloop", "loops", id, "escalation.json"))
		if err == nil {
			_ = json.Unmarshal(data, &v)
		}
		q = question{v.ID, v.Digest}
		return v.Status == "pending" && v.ID != ""
	})
	return q
}

//go:build generated

package routes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ogen-go/ogen/ogenerrors"

	"github.com/superloop/superloop/server/clienttest/testdata/api/ogen"
)

// patience bounds a wait for what has to happen.
const patience = 60 * time.Second

// world is a daemon that answers over its socket and over TCP, and notes how.
type world struct {
	t       *testing.T
	root    string
	program string // SUPERLOOP
	fleet   string // SUPERLOOP_FLEET
	socket  string
	lacks   []string // the names of the routes that no machine has
	at      string   // HOST:PORT over TCP
	env     []string
	log     bytes.Buffer
	paths   map[string]map[string]operation // of the description
	general []string                        // the problems of every route

	mu  sync.Mutex
	met map[string]bool // "tcp GET /path good"
}

type operation struct {
	Name     string   `json:"operationId"`
	Problems []string `json:"x-problems"`
	Scope    string   `json:"x-scope"`
	Summary  string   `json:"summary"`
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, root: t.TempDir(), program: os.Getenv("SUPERLOOP"), fleet: os.Getenv("SUPERLOOP_FLEET"), met: map[string]bool{}}
	var doc struct {
		Paths   map[string]map[string]operation
		General []string `json:"x-problems"`
	}
	text, err := os.ReadFile("../testdata/api/api.json")
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil || w.program == "" {
		t.Fatalf("%v; type: go test ./... in server/clienttest", err)
	}
	w.paths, w.general = doc.Paths, doc.General
	for _, v := range []string{"PATH", "TMPDIR", "LANG"} {
		w.env = append(w.env, v+"="+os.Getenv(v))
	}
	w.env = append(w.env, "HOME="+w.root+"/home", "XDG_STATE_HOME="+w.root+"/state", "USER=ann", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+w.root+"/gitconfig")
	w.write("home/.config/superloop/recovery/own.yaml", staleIndex)
	w.write("gitconfig", "[user]\n\tname = ann\n\temail = ann@example.com\n[init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = *\n")
	w.write("agent.sh", agent)
	w.socket = filepath.Join(w.root, "state/superloop/daemon/sock")
	return w
}

// begin begins a process, which ends with the test.
func (w *world) begin(env []string, program string, args ...string) {
	w.t.Helper()
	c := exec.Command(program, args...)
	c.Env, c.Dir, c.Stderr = env, w.root, &w.log
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	})
}

// serve begins the daemon.
func (w *world) serve() { w.begin(w.env, w.program, "serve", "--listen", "127.0.0.1:0") }

// gateway begins the gateway of a fleet, and lets the machine of the daemon be one of it. There is no Temporal server: a loop
// that the daemon knows is run by the daemon.
func (w *world) gateway() {
	w.t.Helper()
	gate := append(slices.Clone(w.env), "XDG_STATE_HOME="+w.root+"/gate", "TEMPORAL_ADDRESS=127.0.0.1:1")
	machine := append(slices.Clone(w.env), "TEMPORAL_ADDRESS=127.0.0.1:1")
	run := func(env []string, args ...string) string {
		c := exec.Command(w.fleet, args...)
		c.Env = env
		out, err := c.Output()
		if err != nil {
			w.t.Fatalf("superloop-fleet %v: %v", args, err)
		}
		return string(out)
	}
	var ports [2]string
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.t.Fatal(err)
		}
		ports[i] = fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
		_ = l.Close()
	}
	run(gate, "init", "--fleet", "routes")
	w.write("invitation", run(gate, "invite"))
	run(machine, "init", "--join", w.root+"/invitation")
	w.begin(gate, w.fleet, "gateway", "--listen", "localhost:"+ports[0], "--machines", "127.0.0.1:"+ports[1])
	w.begin(machine, w.fleet, "worker", "--superloop", w.program, "--gateway", "127.0.0.1:"+ports[1])
	w.at, w.socket = "localhost:"+ports[0], filepath.Join(w.root, "gate/superloop/fleet/gateway/superloop/daemon/sock")
}

func (w *world) write(name, text string) {
	w.t.Helper()
	file := filepath.Join(w.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o700)); err != nil {
		w.t.Fatal(err)
	}
}

// verb runs superloop; its exit code does not matter.
func (w *world) verb(dir string, args ...string) string {
	c := exec.Command(w.program, args...)
	c.Env, c.Dir = w.env, dir
	out, _ := c.CombinedOutput()
	return string(out)
}

// repo makes a repository with loops that ask: each one's tests fail until ok-LOOP is there.
func (w *world) repo(name string) string {
	w.t.Helper()
	repo := filepath.Join(w.root, name)
	w.write(name+"/spec.md", "# Do it\n")
	w.write(name+"/built/old", "old\n")
	w.write(name+"/.gitignore", "built\nok-*\n")
	w.write(name+"/check", "#!/bin/sh\n[ -f \"ok-$1\" ] && exit 0\necho 'mytool: the index is stale' >&2\nexit 3\n")
	w.write(name+"/refresh", "#!/bin/sh\ntouch ok-asks\n")
	w.write(name+"/ok-done", "")
	var loops []string
	for _, id := range []string{"asks", "hold", "undo"} {
		loops = append(loops, fmt.Sprintf(`{"id": %q, "spec_file": "spec.md", "completion_promise": "DONE", "max_iterations": 4, "roles": ["tester", "reviewer"], "tests": {"commands": ["./check %s"]}}`, id, id))
	}
	loops = append(loops, `{"id": "done", "spec_file": "spec.md", "completion_promise": "DONE", "approval": {"enabled": true, "require_on_completion": true}, "roles": ["reviewer"], "tests": {"commands": ["./check done"]}}`)
	w.write(name+"/.superloop/config.json", fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "recovery": {"auto_approve": ["true"], "require_human": []}, "escalation": {"channels": {"note": {"type": "command", "command": "cat", "tell": ["alert"]}}}, "loops": [%s]}`, w.root+"/agent.sh", strings.Join(loops, ",\n")))
	for _, args := range [][]string{{"init", "-q", "--template="}, {"add", "."}, {"commit", "-q", "-m", "all"}} {
		c := exec.Command("git", append([]string{"-C", repo}, args...)...)
		c.Env = w.env
		if out, err := c.CombinedOutput(); err != nil {
			w.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return repo
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !ok() {
		select {
		case <-late.C:
			w.t.Fatalf("never: %s\n%s", what, w.log.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// client is a generated client, and how it asks.
type client struct {
	*ogen.Client
	w       *world
	channel string // socket or tcp
	token   string
	origin  string // a web page that sends the requests
}

// Token is asked for by the generated client.
func (c *client) Token(context.Context, ogen.OperationName) (ogen.Token, error) {
	if c.token == "" {
		return ogen.Token{}, ogenerrors.ErrSkipClientSecurity
	}
	return ogen.Token{Token: c.token}, nil
}

// RoundTrip notes which routes answer well, and which with a problem.
func (c *client) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.origin != "" {
		r.Header.Set("Origin", c.origin)
	}
	t := http.DefaultTransport
	if c.channel == "socket" {
		t = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", c.w.socket)
		}}
	}
	res, err := t.RoundTrip(r)
	if err == nil {
		c.w.mu.Lock()
		c.w.met[fmt.Sprintf("%s %s %s %v", c.channel, r.Method, c.w.template(r.URL.Path), res.StatusCode < 400)] = true
		c.w.mu.Unlock()
	}
	return res, err
}

// template returns the described path that a path is one of.
func (w *world) template(path string) (best string) {
	parts := strings.Split(path, "/")
	literal := -1
	for t := range w.paths {
		of, n := strings.Split(t, "/"), 0
		if len(of) == len(parts) && slices.EqualFunc(of, parts, func(x, y string) bool {
			if x == y {
				n++
			}
			return x == y || strings.HasPrefix(x, "{")
		}) && n > literal {
			best, literal = t, n
		}
	}
	return best
}

func (w *world) client(channel, at, token, origin string) *client {
	w.t.Helper()
	c := &client{w: w, channel: channel, token: token, origin: origin}
	var err error
	if c.Client, err = ogen.NewClient("http://"+at, c, ogen.WithClient(&http.Client{Transport: c})); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// playing is the test. There is one, and good gets what a call returns and nothing else.
var playing *testing.T

// good fails the test unless a route has answered well, and returns its answer.
func good[T any](v T, err error) T {
	playing.Helper()
	if p, ok := errors.AsType[*ogen.ProblemStatusCode](err); ok {
		playing.Fatalf("%d %s: %s", p.StatusCode, p.Response.Type, p.Response.Detail.Value)
	}
	if err != nil {
		playing.Fatal(err)
	}
	return v
}

// bad fails the test unless err is a problem of this type.
func bad(kind string) func(answer any, err error) ogen.Problem {
	return func(_ any, err error) ogen.Problem {
		playing.Helper()
		return refused(kind, err)
	}
}

func refused(kind string, err error) ogen.Problem {
	playing.Helper()
	p, ok := errors.AsType[*ogen.ProblemStatusCode](err)
	if !ok || p.Response.Type != "urn:superloop:"+kind || p.Response.Status != int64(p.StatusCode) || p.Response.ExitCode == 0 || p.Response.Detail.Value == "" {
		playing.Errorf("want the problem %s, got %T %v", kind, err, err)
		return ogen.Problem{}
	}
	return p.Response
}

// agent is every role: it writes its report, and a tester leaves a proposal.
const agent = `cat > /dev/null
case $SUPERLOOP_ROLE in tester) f=test-report.md ;; *) f=review.md ;; esac
date +%s%N > "$SUPERLOOP_LOOP_DIR/$f"
echo "I look at the index."
grep -qs "$SUPERLOOP_RUN_ID" work.txt || echo "$SUPERLOOP_RUN_ID" >> work.txt
command='touch theirs'
[ "$SUPERLOOP_LOOP" != undo ] || command='rm -rf built && touch ok-undo'
if [ "$SUPERLOOP_ROLE" = tester ] && ! [ -f "ok-$SUPERLOOP_LOOP" ]; then
	printf '{"version": 1, "timestamp": "%s", "category": "environment", "severity": "blocking", "diagnosis": {"error_pattern": "index is stale", "root_cause": "the index is older than what it indexes",
 "evidence": ["test-output.txt:1: mytool: the index is stale"]}, "recovery": {"command": "%s", "working_dir": ".", "timeout_seconds": 60, "expected_outcome": "the index is fresh", "confidence": "high"}}' \
		"$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$command" > "$SUPERLOOP_LOOP_DIR/recovery.json"
fi
[ "$SUPERLOOP_ROLE" != reviewer ] || ! [ -f "ok-$SUPERLOOP_LOOP" ] || echo '<promise>DONE</promise>'
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

package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/layout"
)

// hookSecret stands in every URL, token and secret of these tests.
const hookSecret = "hunter2hunter2"

// slackWorld plays Slack on this machine.
type slackWorld struct {
	*httptest.Server
	conns   chan *websocket.Conn // of Socket Mode, after the hello
	posts   chan string          // messages to the webhook
	answers chan string          // to response URLs

	mu   sync.Mutex
	open []*websocket.Conn // a connection that nobody refers to any more is closed
}

func newSlackWorld(t *testing.T) *slackWorld {
	w := &slackWorld{conns: make(chan *websocket.Conn, 100), posts: make(chan string, 100), answers: make(chan string, 100)}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/api/apps.connections.open":
			fmt.Fprintf(rw, `{"ok":true,"url":"ws%s/ws?ticket=%s"}`, strings.TrimPrefix(w.URL, "http"), hookSecret)
		case "/ws":
			conn, err := up.Upgrade(rw, r, nil)
			w.mu.Lock()
			w.open = append(w.open, conn)
			w.mu.Unlock()
			if err == nil && conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"hello","num_connections":1}`)) == nil {
				w.conns <- conn
			}
		case "/services/" + hookSecret:
			w.posts <- string(body)
			fmt.Fprint(rw, "ok")
		case "/answer/" + hookSecret:
			w.answers <- string(body)
			fmt.Fprint(rw, "ok")
		default:
			http.NotFound(rw, r)
		}
	}))
	t.Cleanup(w.Close)
	return w
}

// receive waits for what comes.
func receive[T any](t testing.TB, from chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s within %s", what, patience)
		panic("not reached")
	}
}

// asked waits for the message that asks, and gives what its buttons carry.
func (w *slackWorld) asked(t *testing.T) (value string) {
	t.Helper()
	for {
		post := receive(t, w.posts, "message with buttons")
		var msg struct {
			Blocks []struct {
				Elements json.RawMessage `json:"elements"`
			} `json:"blocks"`
		}
		if err := json.Unmarshal([]byte(post), &msg); err != nil {
			t.Fatal(err)
		}
		for _, b := range msg.Blocks {
			var buttons []struct {
				ActionID string `json:"action_id"`
				Value    string `json:"value"`
			}
			_ = json.Unmarshal(b.Elements, &buttons) // not every block has buttons
			for _, button := range buttons {
				if button.ActionID == "superloop_approve" {
					return button.Value
				}
			}
		}
	}
}

// payload is one press of a button; n tells presses apart.
func (w *slackWorld) payload(user, action, value string, n int) string {
	text, err := json.Marshal(map[string]any{
		"type": "block_actions", "team": map[string]any{"id": "T1"}, "user": map[string]any{"id": user, "name": "anna"},
		"trigger_id": fmt.Sprintf("trigger.%d", n), "response_url": w.URL + "/answer/" + hookSecret,
		"actions": []map[string]any{{"type": "button", "action_id": "superloop_" + action, "block_id": "superloop_answer", "value": value,
			"action_ts": fmt.Sprintf("1700000000.%06d", n)}},
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// clickEnv is a loop that asks an operator whether "touch ok" may run, and the
// supervisor that runs it.
type clickEnv struct {
	*testEnv
	world  *slackWorld
	cmd    *exec.Cmd
	out    *bytes.Buffer
	ended  chan error
	answer escalation.Store
}

// startClicks runs the loop; slack is that section of the configuration, variable
// what it names, NAME=VALUE, and proposes what the tester does, if it is not to
// propose "touch ok".
func startClicks(t *testing.T, slack, variable string, proposes ...string) *clickEnv {
	t.Helper()
	n := &clickEnv{testEnv: newTestEnv(t, false), world: newSlackWorld(t), out: &bytes.Buffer{}, ended: make(chan error, 1)}
	agent, err := os.ReadFile("testdata/agent.sh")
	if err != nil {
		t.Fatal(err)
	}
	n.write("agent.sh", string(agent))
	proposes = append(proposes, "[ -f ok ] || propose 'touch ok'\n")
	n.write("tester.sh", "env >> ../agent-env\n"+proposes[0])
	n.configure(slack)
	n.env = append(n.env, "WORK="+n.root, "USER=ann", "SUPERLOOP_TEST_SLACK="+n.world.URL+"/api/", variable, "TEAM_HOOK="+n.world.URL+"/services/"+hookSecret)
	paths, err := layout.NewPaths(n.path("repo"), "l", n.path("state"))
	if err != nil {
		t.Fatal(err)
	}
	n.answer = escalation.Store{Disk: durable.OS(), Dir: paths.Questions(), Loop: "l"}
	n.cmd = exec.Command(n.path("bin/superloop"), "run", "--verbose")
	n.cmd.Dir, n.cmd.Env, n.cmd.Stdout, n.cmd.Stderr = n.path("repo"), n.env, n.out, n.out
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { n.ended <- n.cmd.Wait(); close(over) }()
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill() // it has ended, unless the test failed half way
		<-over
		n.noSecret()
		if t.Failed() {
			t.Logf("it said\n%s", n.out)
		}
	})
	return n
}

func (n *clickEnv) configure(slack string) {
	n.write("new.json", fmt.Sprintf(`{
  "runners": {"sh": {"command": ["sh", %q]}}, "recovery": {},
  "escalation": {"channels": {"team": {"type": "slack", "url_env": "TEAM_HOOK"}}, "slack": %s},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "completion_promise": "DONE", "max_iterations": 3, "roles": ["implementer", "tester", "reviewer"],
    "tests": {"commands": ["test -f ok"]}}]}`, n.path("agent.sh"), slack))
	if err := os.Rename(n.path("new.json"), n.path("repo/.superloop/config.json")); err != nil {
		n.t.Fatal(err)
	}
}

// noSecret looks through all that was printed and written for people.
func (n *clickEnv) noSecret() {
	n.t.Helper()
	leak := func(where, text string) {
		for _, part := range []string{hookSecret, "xapp-"} {
			if strings.Contains(text, part) {
				n.t.Errorf("%s shows %s", where, part)
			}
		}
	}
	leak("the output", n.out.String())
	env, err := os.ReadFile(n.path("agent-env"))
	if err != nil {
		n.t.Error(err)
	}
	leak("the agent's environment", string(env))
	for _, root := range []string{"repo", "state"} {
		err := filepath.WalkDir(n.path(root), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path)
			leak(path, string(data))
			return err
		})
		if err != nil {
			n.t.Error(err)
		}
	}
}

// exit waits for the supervisor to end.
func (n *clickEnv) exit(want int) {
	n.t.Helper()
	_ = receive(n.t, n.ended, "end of the run") // how it ended is in the exit code
	if got := n.cmd.ProcessState.ExitCode(); got != want {
		n.t.Fatalf("exit code %d, want %d\n%s", got, want, n.out)
	}
}

// says wants a text in the next answer to a click.
func (n *clickEnv) says(want string) {
	n.t.Helper()
	if got := receive(n.t, n.world.answers, "answer to the click"); !strings.Contains(got, want) {
		n.t.Fatalf("the answer to the click is %s; want %q in it", got, want)
	}
}

func press(t *testing.T, conn *websocket.Conn, n int, payload string) {
	t.Helper()
	frame := fmt.Sprintf(`{"type":"interactive","envelope_id":"env-%d","accepts_response_payload":true,"payload":%s}`, n, payload)
	if err := conn.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

// A click in Slack resumes the loop: through Socket Mode, after a foreign user,
// an old digest, a connection that broke, and a user who was taken out of the
// list while the loop ran.
func TestClickApproves(t *testing.T) {
	t.Parallel()
	n := startClicks(t, `{"app_token_env": "SLACK_APP_TOKEN", "users": ["U1", "U2"], "teams": ["T1"]}`, "SLACK_APP_TOKEN=xapp-"+hookSecret)
	w := n.world
	value := w.asked(t)
	conn := receive(t, w.conns, "connection")
	press(t, conn, 1, w.payload("U9", "approve", value, 1))
	n.says("not among the operators")
	var v struct{ ID, Digest string }
	if err := json.Unmarshal([]byte(value), &v); err != nil || len(v.ID) != 32 || len(v.Digest) != 64 {
		t.Fatalf("the button carries %s (%v)", value, err)
	}
	press(t, conn, 2, w.payload("U1", "approve", fmt.Sprintf(`{"id":%q,"digest":%q}`, v.ID, strings.Repeat("0", 64)), 2))
	n.says("no longer asked about")
	press(t, conn, 3, w.payload("U1", "approve", fmt.Sprintf(`{"id":%q,"digest":%q}`, v.ID[:8], v.Digest[:8]), 3))
	n.says("does not know the question")
	press(t, conn, 4, w.payload("U1", "details", value, 4))
	n.says("touch ok")
	if rec, err := n.answer.Load(); err != nil || rec.State != escalation.Pending {
		t.Fatalf("the question is %s (%v)", rec.State, err)
	}
	conn.Close()
	conn = receive(t, w.conns, "connection after a break")
	n.configure(`{"app_token_env": "SLACK_APP_TOKEN", "users": ["U1"], "teams": ["T1"]}`)
	press(t, conn, 5, w.payload("U2", "approve", value, 5))
	n.says("you may not answer any more")
	press(t, conn, 6, w.payload("U1", "approve", value, 6))
	n.says("approved")
	n.exit(exitOK)
	rec, err := n.answer.Load()
	if err != nil || rec.State != escalation.Done || rec.Answer.Bound != "both" {
		t.Fatalf("the record is %+v (%v)", rec, err)
	}
	if by := rec.Answer.By; by.Channel != escalation.Slack || by.User != "U1 (anna)" || by.Method != "socket_mode" || by.UID != nil {
		t.Errorf("answered by %+v", by)
	}
}

// The same at the endpoint for signed requests; a click on a question that was
// decided is told who did.
func TestSignedClickRejects(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	n := startClicks(t, fmt.Sprintf(`{"listen": %q, "signing_secret_env": "SLACK_SIGNING", "users": ["U1", "U2"]}`, address), "SLACK_SIGNING="+hookSecret+"-signing")
	w := n.world
	value := w.asked(t)
	post := func(secret, payload string) int {
		t.Helper()
		body := "payload=" + url.QueryEscape(payload)
		stamp := fmt.Sprint(time.Now().Unix())
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte("v0:" + stamp + ":" + body))
		req, err := http.NewRequest(http.MethodPost, "http://"+address+"/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("X-Slack-Request-Timestamp", stamp)
		req.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := post("what an agent would guess", w.payload("U1", "approve", value, 1)); got != http.StatusUnauthorized {
		t.Fatalf("a forged click got %d", got)
	}
	if got := post(hookSecret+"-signing", w.payload("U1", "reject", value, 2)); got != http.StatusOK {
		t.Fatalf("a click got %d", got)
	}
	n.says("rejected")
	if again := w.asked(t); again == value {
		t.Fatal("the next question has the old digest")
	}
	post(hookSecret+"-signing", w.payload("U2", "approve", value, 3))
	n.says("rejected")
	n.says("decided already by `slack:U1 (anna)`")
	records, err := n.answer.Archive()
	if err != nil || len(records) != 1 || records[0].State != escalation.Rejected || records[0].Answer.By.Method != "signature" {
		t.Errorf("the records are %+v (%v)", records, err)
	}
	if rec, err := n.answer.Load(); err != nil || rec.State != escalation.Pending {
		t.Errorf("the new question is %s (%v)", rec.State, err)
	}
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	n.exit(exitTerminated)
}

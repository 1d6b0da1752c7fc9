package fleetdrill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/testkit"
)

// fleet of a gateway and machines, each a set of processes with a private state of its own. There is no Temporal server: the
// daemon of each machine runs its loops, and the worker answers the gateway about them.
type site struct {
	t        *testing.T
	top, bin string
	page, at int
	procs    map[string]*exec.Cmd
}

func newSite(t *testing.T) *site {
	t.Helper()
	top, err := os.MkdirTemp("/tmp", "site") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, top: top, bin: filepath.Join(top, "bin"), page: freePort(t), at: freePort(t), procs: map[string]*exec.Cmd{}}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	t.Cleanup(func() {
		for _, c := range s.procs {
			_ = c.Process.Signal(os.Interrupt)
			_ = c.Wait()
		}
	})
	for _, name := range []string{"superloop", "superloop-fleet"} {
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(s.bin, name), "../../../cmd/"+name).CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", name, err, out)
		}
	}
	s.run("g", "superloop-fleet", "init", "--fleet", "site")
	s.write("invitation", s.run("g", "superloop-fleet", "invite"))
	s.gateway()
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (s *site) write(name, text string) {
	s.t.Helper()
	file := filepath.Join(s.top, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		s.t.Fatal(err)
	}
}

// cmd is a command on a machine.
func (s *site) cmd(machine, program string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, program), args...)
	if program == "git" || filepath.IsAbs(program) {
		c = exec.Command(program, args...)
	}
	c.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(s.top, machine), "TEMPORAL_ADDRESS=127.0.0.1:1", "PATH="+s.bin+":"+os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid", "HOME="+s.top)
	return c
}

func (s *site) run(machine, program string, args ...string) string {
	s.t.Helper()
	out, err := s.cmd(machine, program, args...).Output()
	if err != nil {
		said := []byte{}
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			said = e.Stderr
		}
		s.t.Fatalf("%s %v: %v\n%s", program, args, err, said)
	}
	return string(out)
}

func (s *site) begin(name, machine, program string, args ...string) {
	s.t.Helper()
	c := s.cmd(machine, program, args...)
	log, err := os.OpenFile(filepath.Join(s.top, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		c.Stderr = log
		err = c.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.procs[name] = c
}

func (s *site) kill(name string) {
	s.t.Helper()
	if err := s.procs[name].Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = s.procs[name].Wait()
	delete(s.procs, name)
}

func (s *site) gateway() {
	s.t.Helper()
	s.begin("gateway", "g", "superloop-fleet", "gateway", "--listen", "127.0.0.1:"+strconv.Itoa(s.page), "--machines", "127.0.0.1:"+strconv.Itoa(s.at))
}

// machine begins a machine with a loop that asks whether it is done, and returns its repository.
func (s *site) machine(name string) string {
	s.t.Helper()
	repo := filepath.Join(s.top, name+"-repo")
	s.write(name+"-repo/spec.md", "build it\n")
	s.write(name+"-repo/agent.sh", `cat > /dev/null
echo "it, $SUPERLOOP_RUN_ID" | tee work.txt > "$SUPERLOOP_LOOP_DIR/review.md"
echo '<promise>DONE</promise>'
`)
	s.write(name+"-repo/tell.sh", "cat >> "+filepath.Join(s.top, name+".told")+"\n")
	s.write(name+"-repo/.superloop/config.json", fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "recovery": {"enabled": false},
  "escalation": {"remind_after": "1s", "channels": {"note": {"type": "command", "command": %q}}},
  "loops": [{"id": "l", "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "roles": ["reviewer"], "approval": {"enabled": true, "require_on_completion": true}}]}`,
		filepath.Join(repo, "agent.sh"), "sh "+filepath.Join(repo, "tell.sh")))
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "begin"}} {
		s.run(name, "git", append([]string{"-C", repo}, args...)...)
	}
	s.run(name, "superloop-fleet", "init", "--join", filepath.Join(s.top, "invitation"))
	s.begin(name+"-daemon", name, "superloop", "serve")
	s.begin(name+"-worker", name, "superloop-fleet", "worker", "--gateway", "127.0.0.1:"+strconv.Itoa(s.at))
	s.run(name, "superloop", "start", "--repo", repo)
	return repo
}

func (s *site) socket(parts ...string) string {
	return filepath.Join(append(append([]string{s.top}, parts...), "daemon", "sock")...)
}

// ask sends a request over a socket.
func ask(socket, method, path, body string) (status int, text string, err error) {
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	r, err := http.NewRequest(method, "http://superloop"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := tr.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res.StatusCode, string(data), err
}

type question struct {
	ID, Digest, Machine string
	LoopID              string `json:"loop_id"`
	AsOf                string `json:"as_of"`
}

// questions returns the open questions of the fleet, as soon as there are so many that are known now.
func (s *site) questions(n int) (out []question) {
	s.t.Helper()
	var last string
	s.await(fmt.Sprintf("%d questions", n), func() bool {
		status, text, err := ask(s.socket("g", "superloop/fleet/gateway/superloop"), "GET", "/api/v1/escalations", "")
		var page struct{ Escalations []question }
		last = text
		if err != nil || status != http.StatusOK || json.Unmarshal([]byte(text), &page) != nil {
			return false
		}
		out = page.Escalations
		for _, q := range out {
			if q.AsOf != "" {
				return false
			}
		}
		return len(out) == n
	}, &last)
	return out
}

func (s *site) await(what string, ok func() bool, last *string) {
	s.t.Helper()
	if err := await(time.Minute, what, ok); err != nil {
		logs, _ := filepath.Glob(filepath.Join(s.top, "*.log"))
		for _, log := range logs {
			data, _ := os.ReadFile(log)
			s.t.Logf("%s:\n%s", log, data)
		}
		s.t.Fatal(err, *last)
	}
}

// told returns how often a channel was told each message, by the message's id.
func (s *site) told(name string) map[string]int {
	out := map[string]int{}
	data, _ := os.ReadFile(filepath.Join(s.top, name+".told"))
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var m struct{ ID, Event string }
		if dec.Decode(&m) != nil {
			return out
		}
		out[m.Event+" "+m.ID]++
	}
}

// reminders counts the reminders of a channel.
func (s *site) reminders(name string) (n int) {
	for id := range s.told(name) {
		if strings.HasPrefix(id, "reminder ") {
			n++
		}
	}
	return n
}

// TestGateway: a gateway and two machines as processes. A person answers the loops of both; an agent answers none, here or
// there. The gateway is killed while questions are open: none is lost, and each reminder comes once (F15). SUPERLOOP_DRILL_AWAY=1h is for how long it is away; 0 is as
// long as two reminders take.
func TestGateway(t *testing.T) {
	if testkit.Sample(0, 1, 1) == 0 {
		t.Skip("it builds both programs: SUPERLOOP_SLOW_TESTS=1 go test -v -run Gateway ./internal/tools/fleetdrill")
	}
	s := newSite(t)
	for _, name := range []string{"m1", "m2"} {
		s.machine(name)
	}
	before := s.questions(2)
	if before[0].Machine == before[1].Machine {
		t.Fatalf("%+v", before)
	}
	if link := s.run("g", "superloop-fleet", "ui"); !strings.HasPrefix(link, fmt.Sprintf("http://superloop.localhost:%d/#code=", s.page)) {
		t.Errorf("the link is %q", link)
	}
	if out, err := s.cmd("g", "superloop-fleet", "gateway").CombinedOutput(); err == nil || !strings.Contains(string(out), "superloop-fleet ui") {
		t.Errorf("another gateway: %v\n%s", err, out)
	}

	// F15.
	s.kill("gateway")
	away, _ := time.ParseDuration(os.Getenv("SUPERLOOP_DRILL_AWAY"))
	<-time.After(away)
	had := s.reminders("m1")
	s.await("reminders without a gateway", func() bool { return s.reminders("m1") > had+1 && s.reminders("m2") > 1 }, new(string))
	s.gateway()
	after := s.questions(2)
	for i := range after {
		if after[i] != before[i] {
			t.Errorf("%+v, before %+v", after[i], before[i])
		}
	}

	// An agent, or what descends from one.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	answer := fmt.Sprintf(`{"method": "approve", "digest": %q}`, after[0].Digest)
	for _, to := range [][2]string{{s.socket("g", "superloop/fleet/gateway/superloop"), "POST"}, {s.socket("m1", "superloop/fleet/host"), "POST"}, {s.socket("m1", "superloop/fleet/host"), "GET"}, {s.socket("m2", "superloop/fleet/host"), "POST"}} {
		c := s.cmd("g", self, "-test.run=^TestAsAgent$")
		c.Env = append(c.Env, escalation.MarkVariable+"=r", "DRILL_SOCKET="+to[0], "DRILL_METHOD="+to[1], "DRILL_PATH=/api/v1/escalations/"+after[0].ID+"/answer", "DRILL_BODY="+answer)
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "urn:superloop:forbidden-agent") {
			t.Errorf("an agent at %v: %v\n%s", to, err, out)
		}
	}
	for _, verb := range []string{"ui", "gateway"} {
		c := s.cmd("g", "superloop-fleet", verb)
		c.Env = append(c.Env, escalation.MarkVariable+"=r")
		if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "an agent does not use the fleet") {
			t.Errorf("%s by an agent: %v\n%s", verb, err, out)
		}
	}
	if status, text, err := ask(s.socket("m1", "superloop/fleet/host"), "POST", "/api/v1/escalations/"+after[0].ID+"/answer", answer); err != nil || status != http.StatusUnauthorized || !strings.Contains(text, "urn:superloop:unsigned") {
		t.Errorf("a person straight at a worker: %d %s %v", status, text, err)
	}

	for _, q := range after {
		status, text, err := ask(s.socket("g", "superloop/fleet/gateway/superloop"), "POST", "/api/v1/escalations/"+q.ID+"/answer", fmt.Sprintf(`{"method": "approve", "digest": %q, "note": "good"}`, q.Digest))
		if err != nil || status != http.StatusOK || !strings.Contains(text, `"state":"approved"`) {
			t.Fatalf("%d %s %v", status, text, err)
		}
	}
	var last string
	s.await("both are completed", func() bool {
		_, last, err = ask(s.socket("g", "superloop/fleet/gateway/superloop"), "GET", "/api/v1/loops?status=completed", "")
		return err == nil && strings.Count(last, `"status":"completed"`) == 2
	}, &last)
	for _, name := range []string{"m1", "m2"} {
		for id, n := range s.told(name) {
			if n != 1 {
				t.Errorf("%s was told %s %d times", name, id, n)
			}
		}
	}
}

// TestAsAgent is not a test of its own: it sends the request of its environment, as a process of an agent does.
func TestAsAgent(t *testing.T) {
	if os.Getenv("DRILL_SOCKET") == "" {
		return
	}
	status, text, err := ask(os.Getenv("DRILL_SOCKET"), os.Getenv("DRILL_METHOD"), os.Getenv("DRILL_PATH"), os.Getenv("DRILL_BODY"))
	fmt.Println(status, text, err)
}

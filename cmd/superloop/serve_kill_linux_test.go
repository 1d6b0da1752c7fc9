package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/server"
)

// nightly are the loops of each repository of TestDaemonKilledAtRandom: two that end by themselves, one whose end an
// operator approves, and one that an operator has stopped.
var nightly = []string{"a", "b", "ask", "stopped"}

// daemonNight is some repositories whose loops a daemon runs.
type daemonNight struct {
	*testEnv
	repos  []string
	daemon *exec.Cmd
	log    bytes.Buffer
}

func newDaemonNight(t *testing.T) *daemonNight {
	t.Helper()
	n := &daemonNight{testEnv: newTestEnv(t, false), repos: []string{"repo", "other"}}
	n.write("agent.sh", `cat > /dev/null
echo "$SUPERLOOP_REPO#$SUPERLOOP_LOOP $SUPERLOOP_RUN_ID $SUPERLOOP_ITERATION $SUPERLOOP_ROLE $SUPERLOOP_ATTEMPT" >> '`+n.path("began")+`'
echo $$ >> "$SUPERLOOP_LOOP.txt"
case $SUPERLOOP_ROLE in implementer) f=implementer.md ;; *) f=review.md ;; esac
date +%s%N > "$SUPERLOOP_LOOP_DIR/$f" # one that is equal to an archived one is not a new report
[ "$SUPERLOOP_LOOP" != stopped ] || sleep 1000
sleep 0.05
[ "$SUPERLOOP_ROLE" != reviewer ] || echo '<promise>DONE</promise>'
`)
	for _, repo := range n.repos {
		var loops []string
		for _, l := range nightly {
			loops = append(loops, fmt.Sprintf(`{"id": %q, "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": 5,
				"approval": {"enabled": %v, "require_on_completion": true}, "respond": {"enabled": false}, "roles": ["implementer", "reviewer"]}`, l, l == "ask"))
		}
		n.mkdir(repo + "/.superloop")
		n.write(repo+"/spec.md", "# Do it\n")
		n.write(repo+"/.superloop/config.json", fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "loops": [%s]}`, n.path("agent.sh"), strings.Join(loops, ",")))
		n.git("-C", n.path(repo), "init", "-q", "--template=")
		n.git("-C", n.path(repo), "commit", "-q", "--allow-empty", "-m", "start")
	}
	t.Cleanup(func() { n.end() })
	return n
}

// serve starts a daemon.
func (n *daemonNight) serve(flags ...string) {
	n.t.Helper()
	n.daemon = exec.Command(n.path("bin/superloop"), append([]string{"serve", "--max-parallel-loops", "3"}, flags...)...)
	n.daemon.Dir, n.daemon.Env, n.daemon.Stderr = n.root, n.env, &n.log
	if err := n.daemon.Start(); err != nil {
		n.t.Fatal(err)
	}
}

// end kills the daemon, if one runs, and waits until nothing of it is left.
func (n *daemonNight) end() {
	if n.daemon == nil {
		return
	}
	_ = n.daemon.Process.Kill()
	_ = n.daemon.Wait()
	n.daemon = nil
	n.until("nothing outlives the daemon", func() bool { return len(n.left()) == 0 })
}

// left are the processes of the night's loops, by their environment.
func (n *daemonNight) left() (alive []string) {
	dirs, err := filepath.Glob("/proc/[1-9]*")
	if err != nil {
		n.t.Fatal(err)
	}
	for _, dir := range dirs {
		environ, _ := os.ReadFile(filepath.Join(dir, "environ")) // it has ended, or is somebody else's
		if bytes.Contains(environ, []byte("XDG_STATE_HOME="+n.path("state")+"\x00")) {
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			alive = append(alive, filepath.Base(dir)+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return alive
}

func (n *daemonNight) until(what string, ok func() bool) {
	n.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !ok() {
		select {
		case <-late.C:
			_, list := n.superloop(nil, "list", "--all", "--json")
			n.t.Fatalf("never: %s\nalive: %s\n%s\n%s", what, strings.Join(n.left(), "\n"), list, n.log.Bytes())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (n *daemonNight) view(repo, id string) (v loop.View) {
	data, err := os.ReadFile(n.path(repo + "/.superloop/loops/" + id + "/state.json"))
	if err == nil {
		_ = json.Unmarshal(data, &v)
	}
	return v // nothing before the first run
}

func (n *daemonNight) verb(args ...string) {
	n.t.Helper()
	if code, out := n.superloop(nil, args...); code != exitOK && code != exitNothing {
		n.t.Fatalf("%s gave %d\n%s", strings.Join(args, " "), code, out)
	}
}

// journal returns the events of a loop, whose journal is whole.
func (n *daemonNight) journal(repo, id string) (all []journal.Event) {
	n.t.Helper()
	path := n.path(repo + "/.superloop/loops/" + id + "/events.jsonl")
	rep, err := journal.Verify(path)
	if err == nil && rep.FirstBad != nil && !rep.FirstBad.Torn {
		err = fmt.Errorf("%+v", rep.FirstBad)
	}
	if err == nil {
		err = journal.Read(path, 0, func(ev journal.Event) error {
			all = append(all, ev)
			return nil
		})
	}
	if err != nil {
		n.t.Fatalf("%s#%s: %v", repo, id, err)
	}
	return all
}

// TestDaemonKilledAtRandom kills a daemon at moments that chance chooses, while its loops work, wait for a place, wait
// for an answer or are stopped, and starts the next one. Every loop that is wanted running comes to its end. No attempt
// of a role is begun twice, no question is asked twice, an answer that was given while no daemon ran is carried out
// once, a stopped loop stays as it is, and nothing is left of a daemon that is gone.
func TestDaemonKilledAtRandom(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	n := newDaemonNight(t)
	stopped := map[string]int{}
	begin := time.Now()
	n.serve()
	for _, repo := range n.repos {
		n.verb("start", "--repo", n.path(repo))
		n.until("the loop to stop works", func() bool { return n.view(repo, "stopped").Role != "" })
		n.verb("stop", "--repo", n.path(repo), "--loop", "stopped")
		stopped[repo] = len(n.journal(repo, "stopped"))
	}
	whole := time.Since(begin)
	asked, answered := map[string]string{}, 0
	for round := range testkit.Sample(1, 10, 50) {
		<-time.After(time.Duration(chance.Int64N(int64(whole))))
		n.end()
		for _, repo := range n.repos {
			v := n.view(repo, "ask")
			switch {
			case v.Human == nil || v.Human.Question == "":
			case asked[repo] == "" || v.RunID+v.Human.Question == asked[repo]:
				asked[repo] = v.RunID + v.Human.Question
			default:
				t.Fatalf("round %d: %s asks %s, and has asked %s", round, repo, v.RunID+v.Human.Question, asked[repo])
			}
			if asked[repo] != "" && chance.IntN(3) == 0 {
				n.verb("approve", "--repo", n.path(repo), "--loop", "ask", "--by", "eve")
				answered++
			}
			for _, id := range nightly[:3] {
				if v := n.view(repo, id); v.Status.Ended() && chance.IntN(2) == 0 {
					if id == "ask" {
						asked[repo] = ""
					}
					n.verb("start", "--repo", n.path(repo), "--loop", id, "--fresh")
				}
			}
		}
		n.serve()
	}
	for _, repo := range n.repos {
		for _, id := range nightly[:3] {
			n.until(repo+"#"+id+" is completed", func() bool {
				v := n.view(repo, id)
				if v.Human != nil && v.Human.Question != "" {
					n.verb("approve", "--repo", n.path(repo), "--loop", id, "--by", "eve")
				}
				return v.Status == loop.Completed && !n.supervised(repo, id)
			})
		}
	}
	n.end()
	n.audit(stopped)
	t.Logf("%d answers were given while no daemon ran", answered)
}

// supervised reports whether the daemon still does something with the loop.
func (n *daemonNight) supervised(repo, id string) bool {
	v, err := server.ReadView(n.path("state/superloop"))
	_, there := v.Phase(n.path(repo), id)
	return err != nil || there
}

// audit compares what the journals say with what the agents did.
func (n *daemonNight) audit(stopped map[string]int) {
	n.t.Helper()
	data, err := os.ReadFile(n.path("began"))
	if err != nil {
		n.t.Fatal(err)
	}
	began := map[string]int{}
	for line := range strings.Lines(string(data)) {
		began[strings.TrimSpace(line)]++
	}
	for line, count := range began {
		if count != 1 {
			n.t.Errorf("%q began %d times", line, count)
		}
	}
	for _, repo := range n.repos {
		if now := len(n.journal(repo, "stopped")); now != stopped[repo] {
			n.t.Errorf("the stopped loop of %s had %d events, and has %d", repo, stopped[repo], now)
		}
		for _, id := range nightly[:3] {
			starts, once := map[string]int{}, map[string]int{}
			run := ""
			for _, ev := range n.journal(repo, id) {
				run = ev.RunID
				fact, err := loop.DecodeFact(ev.Event, ev.Fields)
				if err != nil {
					n.t.Fatal(err)
				}
				if f, ok := fact.(loop.RoleStarted); ok {
					key := fmt.Sprintf("%s#%s %s %d %s %d", n.path(repo), id, run, ev.Iteration, f.Role, f.Attempt)
					if starts[key]++; starts[key] > 1 {
						n.t.Errorf("%s was started %d times", key, starts[key])
					}
				}
				switch ev.Event {
				case "loop_complete", "approval_requested", "approval_decided":
					key := fmt.Sprintf("%s of %s in %s#%s", ev.Event, run, repo, id)
					if once[key]++; once[key] > 1 {
						n.t.Errorf("%s stands in the journal %d times", key, once[key])
					}
				}
			}
			for line := range began {
				if strings.HasPrefix(line, n.path(repo)+"#"+id+" ") && starts[line] == 0 {
					n.t.Errorf("%q began, and the journal does not know it", line)
				}
			}
		}
	}
}

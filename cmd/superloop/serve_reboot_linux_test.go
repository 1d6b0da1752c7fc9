package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/local"
)

// TestReboot plays a reboot: everything of a daemon is killed while its loops work, wait for an answer, wait for a place,
// are paused, are stopped and have ended. Sockets are gone, and in the locks stands a process of another boot, whose
// number is that of another process now. The next daemon goes on with what was wanted running and with nothing else, and
// nothing is begun or asked twice.
func TestReboot(t *testing.T) {
	t.Parallel()
	if testkit.Sample(0, 1, 1) == 0 {
		t.Skip("it takes three seconds of processor time; see SUPERLOOP_SLOW_TESTS in CONTRIBUTING.md")
	}
	n := &daemonNight{testEnv: newTestEnv(t, false), repos: []string{"repo", "other"}}
	t.Cleanup(func() { n.end() })
	n.write("agent.sh", `cat > /dev/null
echo "$SUPERLOOP_LOOP $SUPERLOOP_ATTEMPT" >> '`+n.path("began")+`'
echo $$ >> "$SUPERLOOP_LOOP.txt"
echo done > "$SUPERLOOP_LOOP_DIR/review.md"
while [ -e '`+n.root+`/hold-'$SUPERLOOP_LOOP ]; do sleep 0.05; done
[ $SUPERLOOP_LOOP = pauses ] || echo '<promise>DONE</promise>'
`)
	loops := map[string][]string{"repo": {"works", "asks", "ended"}, "other": {"pauses", "stopped", "queued"}}
	for _, repo := range n.repos {
		var all []string
		for _, l := range loops[repo] {
			all = append(all, fmt.Sprintf(`{"id": %q, "spec_file": "spec.md", "completion_promise": "DONE", "completion": {"allow_ungated": true}, "max_iterations": 5,
				"git": {"worktree": true}, "approval": {"enabled": %v, "require_on_completion": true}, "respond": {"enabled": false}, "roles": ["reviewer"]}`, l, l == "asks"))
		}
		n.mkdir(repo + "/.superloop")
		n.write(repo+"/spec.md", "# Do it\n")
		n.write(repo+"/.superloop/config.json", fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "loops": [%s]}`, n.path("agent.sh"), strings.Join(all, ",")))
		n.git("-C", n.path(repo), "init", "-q", "--template=")
		n.git("-C", n.path(repo), "commit", "-q", "--allow-empty", "-m", "start")
	}
	hold := func(id string) { n.write("hold-"+id, "") }
	free := func(id string) {
		if err := os.Remove(n.path("hold-" + id)); err != nil {
			t.Fatal(err)
		}
	}
	daemon := func() {
		n.daemon = exec.Command(n.path("bin/superloop"), "serve", "--max-parallel-loops", "1")
		n.daemon.Dir, n.daemon.Env, n.daemon.Stderr = n.root, n.env, &n.log
		if err := n.daemon.Start(); err != nil {
			t.Fatal(err)
		}
	}
	start := func(repo, id string) { n.verb("start", "--repo", n.path(repo), "--loop", id) }
	for _, id := range []string{"works", "pauses", "stopped"} {
		hold(id)
	}
	daemon()
	start("repo", "ended")
	n.until("a loop has ended", func() bool { return n.view("repo", "ended").Status == loop.Completed && !n.supervised("repo", "ended") })
	start("repo", "asks")
	n.until("a loop asks", func() bool { h := n.view("repo", "asks").Human; return h != nil && h.Question != "" })
	start("other", "stopped")
	n.until("the loop to stop works", func() bool { return strings.Contains(n.read("began"), "stopped 1") })
	n.verb("stop", "--repo", n.path("other"), "--loop", "stopped")
	start("other", "pauses")
	n.until("the loop to pause works", func() bool { return strings.Contains(n.read("began"), "pauses 1") })
	n.verb("pause", "--repo", n.path("other"), "--loop", "pauses")
	free("pauses")
	n.until("a loop is paused", func() bool {
		return n.view("other", "pauses").Status == loop.Paused && !n.supervised("other", "pauses")
	})
	start("repo", "works")
	n.until("a loop works", func() bool { return strings.Contains(n.read("began"), "works 1") })
	start("other", "queued")
	n.until("a loop is queued", func() bool { return n.supervised("other", "queued") })
	n.end()

	asked, before := n.view("repo", "asks").Human.Question, map[string]int{}
	for id, repo := range map[string]string{"ended": "repo", "pauses": "other", "stopped": "other"} {
		before[id] = len(n.journal(repo, id))
	}
	n.asAfterReboot()
	daemon()
	n.until("the loop works again", func() bool { return strings.Contains(n.read("began"), "works 2") })
	free("works")
	n.until("it and the queued one are completed", func() bool {
		return n.view("repo", "works").Status == loop.Completed && n.view("other", "queued").Status == loop.Completed
	})
	if h := n.view("repo", "asks").Human; h == nil || h.Question != asked {
		t.Errorf("it asked %s, and asks %+v", asked, h)
	}
	n.verb("approve", "--repo", n.path("repo"), "--loop", "asks", "--by", "eve")
	n.until("the loop that asked is completed", func() bool { return n.view("repo", "asks").Status == loop.Completed })
	n.end()
	for id, repo := range map[string]string{"ended": "repo", "pauses": "other", "stopped": "other"} {
		if now := len(n.journal(repo, id)); now != before[id] {
			t.Errorf("%s had %d events, and has %d", id, before[id], now)
		}
	}
	want := []string{"asks 1", "ended 1", "pauses 1", "queued 1", "stopped 1", "works 1", "works 2"}
	if got := slices.Sorted(strings.Lines(n.read("began"))); strings.Join(got, "") != strings.Join(want, "\n")+"\n" { // who is first after a restart is left to chance
		t.Errorf("the agents began:\n%swant:\n%s", strings.Join(got, ""), strings.Join(want, "\n"))
	}
}

// asAfterReboot changes what a reboot changes: no socket is there, and whoever held a lock is a process of another boot.
func (n *daemonNight) asAfterReboot() {
	n.t.Helper()
	locks := 0
	err := filepath.WalkDir(n.root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Type()&fs.ModeSocket != 0:
			return os.Remove(path)
		case e.Name() != "lock" || !e.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		var h local.Holder
		if err != nil || json.Unmarshal(bytes.TrimSpace(data), &h) != nil || h.PID == 0 {
			return err
		}
		locks++
		h.Identity = proc.Self()
		h.BootID = "00000000-0000-0000-0000-000000000000"
		if data, err = json.Marshal(h); err != nil {
			return err
		}
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil || locks < 5 {
		n.t.Fatalf("%d locks, %v", locks, err)
	}
}

// read returns the content of a file, "" if there is none yet.
func (n *daemonNight) read(rel string) string {
	data, _ := os.ReadFile(n.path(rel))
	return string(data)
}

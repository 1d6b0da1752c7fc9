package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/api"
)

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

// askers are loops whose tests fail until ok-LOOP is there, and the command that their tester proposes.
var askers = map[string]string{"choose": "touch theirs", "edit": "touch theirs", "remember": "touch ok-remember", "manual": "touch theirs", "reject": "touch theirs",
	"approve": "rm -rf built && touch ok-approve"}

// newAskingNight is a repository with loops that ask.
func newAskingNight(t *testing.T) *daemonNight {
	t.Helper()
	n := &daemonNight{testEnv: newTestEnv(t, false), repos: []string{"repo"}}
	agent, err := os.ReadFile("testdata/agent.sh")
	if err != nil {
		t.Fatal(err)
	}
	n.write("agent.sh", string(agent))
	n.env = append(n.env, "WORK="+n.root, "USER=ann")
	n.mkdir("repo/built")
	n.write("repo/built/old", "old\n")
	n.write("repo/.gitignore", "built\nok-*\n")
	n.write("repo/spec.md", "# Do it\n")
	n.write("tester.sh", `[ -f ok-$SUPERLOOP_LOOP ] || propose "$(cat "$WORK/says-$SUPERLOOP_LOOP")"`+"\n")
	n.write("reviewer.sh", "[ ! -f ok-$SUPERLOOP_LOOP ] || echo '<promise>DONE</promise>'\n")
	n.write("repo/check", "#!/bin/sh\n[ -f \"ok-$1\" ] && exit 0\necho 'mytool: the index is stale' >&2\nexit 3\n")
	n.write("repo/refresh", "#!/bin/sh\ntouch ok-choose\n")
	for _, f := range []string{"repo/check", "repo/refresh"} {
		if err := os.Chmod(n.path(f), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.mkdir(".config/superloop/recovery")
	n.write(".config/superloop/recovery/own.yaml", staleIndex)
	var loops []string
	for id, says := range askers {
		n.write("says-"+id, says)
		loops = append(loops, fmt.Sprintf(`{"id": %q, "spec_file": "spec.md", "completion_promise": "DONE", "max_iterations": 4, "roles": ["tester", "reviewer"], "tests": {"commands": ["./check %s"]}}`, id, id))
	}
	loops = append(loops, `{"id": "done", "spec_file": "spec.md", "completion_promise": "DONE", "approval": {"enabled": true, "require_on_completion": true}, "roles": ["reviewer"], "tests": {"commands": ["./check done"]}}`)
	slices.Sort(loops)
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "recovery": {"auto_approve": ["true"], "require_human": []},
		"escalation": {"channels": {"note": {"type": "command", "command": "tee '%s'", "tell": ["alert"]}, "broken": {"type": "command", "command": "false s3cret", "tell": ["alert"]}}}, "loops": [%s]}`, n.path("agent.sh"), n.path("told"), strings.Join(loops, ",\n")))
	n.git("add", ".")
	n.git("commit", "-q", "-m", "all")
	t.Cleanup(func() { n.end() })
	return n
}

// up starts a daemon, and returns a client that checks what it answers.
func (n *daemonNight) up(flags ...string) client {
	n.t.Helper()
	n.serve(flags...)
	c := n.client()
	n.until("the daemon answers", func() bool {
		res, err := c.open(n.t.Context(), "/healthz", "")
		if err == nil {
			_ = res.Body.Close() // its status is what matters
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
	return c.described()
}

// begin starts a loop.
func (c client) begin(id string) (l server.Row) {
	c.n.t.Helper()
	c.ask("POST", "/api/v1/loops", fmt.Sprintf(`{"repo": %q, "loop": %q}`, c.n.path("repo"), id), 202, &l)
	return l
}

func (c client) row(id string) (l server.Row) {
	c.n.t.Helper()
	c.ask("GET", "/api/v1/loops/"+id, "", 200, &l)
	return l
}

// asks waits for the question of a loop.
func (c client) asks(l server.Row) (q api.Question) {
	c.n.t.Helper()
	c.n.until(l.Loop+" asks", func() bool {
		var all api.Questions
		c.ask("GET", "/api/v1/escalations?loop="+l.ID, "", 200, &all)
		if len(all.Escalations) == 1 {
			q = all.Escalations[0]
		}
		return q.ID != ""
	})
	return q
}

// answer answers a question. more are members of the body besides method and digest.
func (c client) answer(q api.Question, want int, method, more string) string {
	c.n.t.Helper()
	return c.ask("POST", "/api/v1/escalations/"+q.ID+"/answer", fmt.Sprintf(`{"method": %q, "digest": %q%s}`, method, q.Digest, more), want, nil)
}

func (c client) completes(l server.Row) {
	c.n.t.Helper()
	c.n.until(l.Loop+" is completed", func() bool { return c.row(l.ID).Status == "completed" })
}

// has counts the events of a loop with a name.
func (c client) has(l server.Row, event, part string) (n int) {
	c.n.t.Helper()
	if err := journal.Read(c.n.path("repo/.superloop/loops/"+l.Loop+"/events.jsonl"), 0, func(ev journal.Event) error {
		if ev.Event == event && strings.Contains(string(ev.Fields), part) {
			n++
		}
		return nil
	}); err != nil {
		c.n.t.Fatal(err)
	}
	return n
}

// A person answers by choosing an option: the answer has all that a page needs, what cannot be done is refused, and what
// follows is streamed. Then every other route of a loop, of all loops and of the machine answers as it is described.
// Conforms: 000-6-choice, 000-6-stream, 000-5.6-push, 000-6-one
func TestAPIRoutes(t *testing.T) {
	t.Parallel()
	n := newAskingNight(t)
	c := n.up("--listen", "127.0.0.1:0")
	choose := c.begin("choose")
	q := c.asks(choose)
	if q.Failure == nil || q.Failure.ID != "stale_index" || len(q.Options) != 1 || q.Options[0].ID != "refresh" || q.Options[0].Availability != "ready" ||
		!q.Options[0].Recommended || q.Options[0].Answer != "choose" || q.Options[0].Command != "./refresh" || len(q.Fallback) != 3 {
		t.Errorf("%+v", q)
	}
	if got := c.everything("", 4); !slices.ContainsFunc(got, func(m message) bool { return m.event == "question" && strings.Contains(m.data, q.Digest) }) {
		t.Errorf("a client that connects is not told of the question: %v", got)
	}
	c.ask("GET", "/api/v1/loops/"+choose.ID+"/plan", "", 200, nil)
	c.answer(q, 422, "choose", "")
	c.answer(q, 422, "edit", "")
	c.answer(q, 422, "reject", `, "remember": true`)
	c.answer(q, 422, "approve", `, "command": "x"`)
	c.answer(q, 404, "choose", `, "option": "nonsense"`)
	c.answer(q, 200, "choose", `, "option": "refresh", "note": "this is better"`)
	if text := c.answer(q, 409, "reject", ""); !strings.Contains(text, "already-decided") || !strings.Contains(text, "approve by cli:") {
		t.Error(text)
	}
	c.completes(choose)
	if c.has(choose, "recovery_resolved", `"./refresh"`) != 1 || c.has(choose, "recovery_executing", `./refresh`) != 1 {
		t.Error("the option was not carried out once")
	}
	last := c.row(choose.ID).Seq
	if steps := c.stream(choose.ID, "", int(last)); !slices.ContainsFunc(steps, func(s string) bool { return strings.Contains(s, `"event":"recovery_executing"`) }) {
		t.Error("its steps are not streamed")
	}
	if _, err := os.Stat(n.path("repo/theirs")); err == nil {
		t.Error("the proposed command ran")
	}
	c.readsOfLoop(choose)
	c.readsOfAll(choose)
	if testkit.Sample(0, 1, 1) == 0 {
		return
	}

	// What a recovery overwrote is put back.
	approve := c.begin("approve")
	c.answer(c.asks(approve), 200, "approve", "")
	c.completes(approve)
	var rs api.Recoveries
	c.ask("GET", "/api/v1/loops/"+approve.ID+"/recoveries", "", 200, &rs)
	if len(rs.Recoveries) != 1 || rs.Recoveries[0].Outcome != "verified" || len(rs.Recoveries[0].Kept) != 1 {
		t.Fatalf("%+v", rs)
	}
	if _, err := os.Stat(n.path("repo/built/old")); err == nil {
		t.Fatal("it deleted nothing")
	}
	c.ask("POST", "/api/v1/loops/"+approve.ID+"/recoveries/2/undo", "{}", 409, nil)
	if text := c.ask("POST", "/api/v1/loops/"+approve.ID+"/recoveries/1/undo", "{}", 200, nil); !strings.Contains(text, `"complete":true`) && !strings.Contains(text, `"complete": true`) {
		t.Error(text)
	}
	if _, err := os.Stat(n.path("repo/built/old")); err != nil {
		t.Error(err)
	}

	n.write("repo/ok-done", "")
	done := c.begin("done")
	c.ask("POST", "/api/v1/loops/"+done.ID+"/approve-completion", fmt.Sprintf(`{"digest": %q}`, c.asks(done).Digest), 200, nil)
	c.completes(done)

	// A spec becomes a loop, like the first one.
	var added server.Row
	c.ask("POST", "/api/v1/loops", fmt.Sprintf(`{"repo": %q, "spec": "# Build a bridge\n"}`, n.path("repo")), 202, &added)
	if added.Loop != "build-a-bridge" {
		t.Errorf("the loop is %q", added.Loop)
	}
	c.ask("POST", "/api/v1/loops", fmt.Sprintf(`{"repo": %q, "loop": "choose", "spec": "# Build a bridge\n"}`, n.path("repo")), 409, nil)
	c.n.until("it runs", func() bool { l := c.row(added.ID); return l.Supervised && l.Seq > 0 })
	c.ask("POST", "/api/v1/loops/"+added.ID+"/cancel", "{}", 202, nil)
	n.until("it is let go", func() bool { return !c.row(added.ID).Supervised }) // fix does not work beside a loop

	c.chains(choose)
	c.askNightly()
	c.everyRoute()
	c.access(c.overTCP())
	res, err := c.open(t.Context(), "/api/v1/stream", "none")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if wrong := c.of.check("GET", "/api/v1/stream", res.StatusCode, res.Header, string(text)); err != nil || wrong != "" || res.StatusCode != 422 {
		t.Errorf("%d %v %s", res.StatusCode, err, wrong)
	}
	c.of.covered(t)
}

// askNightly covers the routes that TestAPI plays, in one good case and one bad case each.
func (c client) askNightly() {
	c.n.t.Helper()
	for _, path := range []string{"/healthz", "/api/v1/queue"} {
		c.ask("GET", path, "", 200, nil)
	}
	c.ask("GET", "/readyz", "", 204, nil)
	reject := c.begin("reject")
	q := c.asks(reject)
	c.ask("GET", "/api/v1/escalations/"+q.ID, "", 200, nil)
	c.ask("GET", "/api/v1/escalations/none", "", 404, nil)
	at := "/api/v1/loops/" + reject.ID
	c.ask("POST", at+"/approve-completion", fmt.Sprintf(`{"digest": %q}`, q.Digest), 409, nil)
	c.ask("POST", at+"/retry-now", "{}", 202, nil)
	c.ask("POST", at+"/note", `{"note": "use X"}`, 202, nil)
	c.ask("POST", at+"/pause", "{}", 202, nil)
	c.n.until("it is paused", func() bool { return !c.row(reject.ID).Supervised && c.row(reject.ID).Wanted != "running" })
	c.ask("POST", at+"/start", "{}", 202, nil)
	c.n.until("it goes on", func() bool { return c.row(reject.ID).Supervised })
	c.ask("POST", at+"/stop", "{}", 202, nil)
	c.ask("POST", at+"/stop", "{}", 409, nil)
}

func (c client) readsOfLoop(l server.Row) {
	t, at := c.n.t, "/api/v1/loops/"+l.ID
	t.Helper()
	var all, page, last api.Iterations
	c.ask("GET", at+"/iterations", "", 200, &all)
	c.ask("GET", at+"/iterations?limit=1", "", 200, &page)
	c.ask("GET", at+"/iterations?last=1", "", 200, &last)
	if len(last.Iterations) != 1 || last.Iterations[0].N != len(all.Iterations) {
		t.Errorf("the last one is %+v", last)
	}
	if n := len(all.Iterations); n < 1 || len(all.Iterations[0].Roles) == 0 || all.Iterations[0].Roles[0].Runner != "sh" || all.Iterations[0].Roles[0].CostUSD != nil ||
		len(all.Iterations[n-1].Gates) == 0 || !all.Iterations[n-1].Complete || all.Iterations[0].Unpriced == 0 || (page.NextCursor == "") != (n == 1) {
		t.Errorf("%+v", all)
	}
	c.ask("GET", at+"/events", "", 200, nil)
	c.ask("GET", at+"/verify", "", 200, nil)
	c.ask("GET", at+"/diff", "", 200, nil)
	c.ask("GET", at+"/diff?stat=true", "", 200, nil)
	c.ask("GET", at+"/stats", "", 200, nil)
	c.ask("GET", at+"/stats?run=none", "", 404, nil)
	c.ask("GET", at+"/logs/nobody/1", "", 409, nil)
	c.asTold(l, at)
	// What a route answers is what its verb prints, byte for byte.
	for path, verb := range map[string][]string{at + "/stats": {"stats", "--loop", l.Loop}, at + "/diff": {"diff", "--loop", l.Loop}} {
		var out strings.Builder
		cmd := c.n.program(append(verb, "--repo", c.n.path("repo"))...)
		if !strings.HasSuffix(path, "diff") {
			cmd = c.n.program(append(verb, "--repo", c.n.path("repo"), "--json")...)
		}
		cmd.Stdout = &out
		if err := cmd.Run(); err != nil {
			t.Errorf("%v: %v", verb, err)
		}
		if got := c.ask("GET", path, "", 200, nil); !sameText(got, out.String()) {
			t.Errorf("%s: %s\n%v: %s", path, got, verb, out.String())
		}
	}

	// Several programs ask at the same time.
	diff := c.ask("GET", at+"/diff", "", 200, nil)
	var several sync.WaitGroup
	for range 4 {
		several.Go(func() {
			if status, text := c.send("GET", at+"/diff", ""); status != 200 || text != diff {
				t.Errorf("%d %s\nwant %s", status, text, diff)
			}
		})
	}
	several.Wait()

	// A log, whole, in part, and as it grows.
	log := at + "/logs/tester/1"
	whole := c.ask("GET", log, "", 200, nil)
	if onDisk, err := os.ReadFile(filepath.Join(c.n.path("repo/.superloop/loops/"+l.Loop+"/logs/iter-001"), "tester.log")); err == nil && string(onDisk) != whole {
		t.Errorf("%q, the file holds %q", whole, onDisk)
	}
	if followed := c.ask("GET", log+"?follow=true", "", 200, nil); followed != whole {
		t.Errorf("%q, followed %q", whole, followed)
	}
	if len(whole) > 2 {
		req, err := http.NewRequest("GET", "http://superloop"+log, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Range", "bytes=1-2")
		res, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if part, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 206 || string(part) != whole[1:3] {
			t.Errorf("%d %q %v", res.StatusCode, part, err)
		}
	}
}

// sameText reports whether two answers are the same but for the white space of JSON.
func sameText(x, y string) bool {
	var a, b any
	if json.Unmarshal([]byte(x), &a) != nil || json.Unmarshal([]byte(y), &b) != nil {
		return x == y
	}
	p, _ := json.Marshal(a)
	q, _ := json.Marshal(b)
	return string(p) == string(q)
}

func (c client) readsOfAll(l server.Row) {
	t, repo := c.n.t, c.n.path("repo")
	t.Helper()
	for _, by := range []string{"role", "model", "loop", "repo"} {
		var cost api.Costs
		c.ask("GET", "/api/v1/cost?step=1h&by="+by, "", 200, &cost)
		if len(cost.Series) == 0 || cost.Total.Cost.Known != nil || cost.Total.Cost.Unknown == 0 || len(cost.Series[0].Points) == 0 {
			t.Errorf("by %s: %+v", by, cost)
		}
		sum := 0
		for _, s := range cost.Series {
			sum += s.Total.Runs
		}
		if sum != cost.Total.Runs {
			t.Errorf("by %s: %d runs, in all %d", by, sum, cost.Total.Runs)
		}
	}
	c.ask("GET", "/api/v1/cost?from=yesterday", "", 422, nil)
	var none api.Costs
	if c.ask("GET", "/api/v1/cost?to=2001-01-01T00:00:00Z", "", 200, &none); len(none.Series) != 0 || none.Total.Cost.Known != nil {
		t.Errorf("%+v", none)
	}
	var runners struct {
		Repos []struct {
			Known api.RunnersOfRepo `json:"known"`
		} `json:"repos"`
	}
	if c.ask("GET", "/api/v1/runners", "", 200, &runners); len(runners.Repos) != 1 || len(runners.Repos[0].Known.Runners) != 1 {
		t.Errorf("%+v", runners)
	}
	var repos api.Repos
	if c.ask("GET", "/api/v1/repos", "", 200, &repos); len(repos.Repos) != 1 || len(repos.Repos[0].Loops) == 0 {
		t.Errorf("%+v", repos)
	}
	var space struct {
		Repos []struct {
			Known api.Space `json:"known"`
		} `json:"repos"`
	}
	if c.ask("GET", "/api/v1/space", "", 200, &space); len(space.Repos) != 1 || space.Repos[0].Known.Use.Journals == 0 || space.Repos[0].Known.Removed {
		t.Errorf("%+v", space)
	}
	var channels struct {
		Repos []struct {
			Known api.Outbox `json:"known"`
		} `json:"repos"`
	}
	text := c.ask("GET", "/api/v1/channels", "", 200, &channels)
	if len(channels.Repos) != 1 || len(channels.Repos[0].Known.Channels) != 2 || channels.Repos[0].Known.Channels[1].Channel != "note" || strings.Contains(text, "s3cret") {
		t.Errorf("%s", text)
	}
	var tried api.Tried
	c.ask("POST", "/api/v1/channels/test", fmt.Sprintf(`{"repo": %q, "channel": "note"}`, repo), 200, &tried)
	if said, err := os.ReadFile(c.n.path("told")); !tried.OK || err != nil || !strings.Contains(string(said), "somebody tries the channel") {
		t.Errorf("%+v %v %s", tried, err, said)
	}
	c.ask("POST", "/api/v1/channels/test", fmt.Sprintf(`{"repo": %q, "channel": "broken"}`, repo), 200, &tried)
	if tried.OK || tried.Channels[0].Status != "failed" {
		t.Errorf("%+v", tried)
	}
	c.ask("POST", "/api/v1/channels/test", fmt.Sprintf(`{"repo": %q, "channel": "none"}`, repo), 404, nil)
	c.ask("POST", "/api/v1/channels/test", `{"repo": "/etc", "channel": "none"}`, 404, nil)
	var found api.Examined
	text = c.ask("POST", "/api/v1/doctor", fmt.Sprintf(`{"repo": %q}`, repo), 200, &found)
	if i := slices.IndexFunc(found.Checks, func(f api.Finding) bool { return f.Name == "enforcement" }); i < 0 || len(found.Checks[i].Enforcement) == 0 {
		t.Errorf("%s", text)
	}
	c.ask("POST", "/api/v1/doctor", `{"repo": "/etc"}`, 404, nil)
	for _, path := range []string{"/api/v1/space", "/api/v1/channels"} {
		c.ask("GET", path+"?limit=0", "", 422, nil)
	}
	var machines api.Machines
	if c.ask("GET", "/api/v1/machines", "", 200, &machines); len(machines.Machines) != 1 || machines.Machines[0].Limits.Loops != 3 || machines.Machines[0].Keep != (api.Keep{Days: 30, GiB: 5}) || machines.Machines[0].PID != c.n.daemon.Process.Pid {
		t.Errorf("%+v", machines)
	}
	if text := c.ask("GET", "/metrics", "", 200, nil); !strings.Contains(text, `superloop_role_runs_total{loop="`+l.ID+`",role="tester"`) {
		t.Error(text)
	}
	var v api.Explained
	c.ask("POST", "/api/v1/policy/check", fmt.Sprintf(`{"repo": %q, "command": "true"}`, repo), 200, &v)
	if v.Decision != "auto" {
		t.Errorf("%+v", v)
	}
	c.ask("POST", "/api/v1/policy/check", fmt.Sprintf(`{"repo": %q, "command": "true", "loop": "none"}`, repo), 404, nil)
	c.ask("POST", "/api/v1/policy/check", `{"repo": "/etc", "command": "true"}`, 404, nil)
	var lint api.Linted
	c.ask("POST", "/api/v1/policy/lint", fmt.Sprintf(`{"repo": %q}`, repo), 200, &lint)
	c.ask("POST", "/api/v1/policy/lint", `{"repo": "/etc"}`, 404, nil)
	var again, candidate api.Replayed
	c.ask("POST", "/api/v1/policy/replay", fmt.Sprintf(`{"repo": %q}`, repo), 200, &again)
	if again.Judged == 0 || again.Differ != 0 || len(again.Policies) == 0 {
		t.Errorf("%+v", again)
	}
	c.ask("POST", "/api/v1/policy/replay", fmt.Sprintf(`{"repo": %q, "days": 7, "policy": "{\"auto_approve\": [], \"require_human\": [], \"on_unknown\": \"deny\"}"}`, repo), 200, &candidate)
	if candidate.Differ == 0 || candidate.Decisions[0].Now.Verdict != "deny" || candidate.Decisions[0].LoopID == "" {
		t.Errorf("%+v", candidate)
	}
	c.ask("POST", "/api/v1/policy/replay", fmt.Sprintf(`{"repo": %q, "policy": "{\"on_unknown\": 7}"}`, repo), 422, nil)
	c.ask("POST", "/api/v1/policy/replay", fmt.Sprintf(`{"repo": %q, "loop": "none"}`, repo), 404, nil)
	c.ask("POST", "/api/v1/policy/replay", fmt.Sprintf(`{"repo": %q, "days": 0}`, repo), 422, nil)
	c.ask("POST", "/api/v1/policy/replay", `{"repo": "/etc"}`, 404, nil)
}

// chains covers the chains of superloop fix, and the plan of a loop that has none.
func (c client) chains(l server.Row) {
	t, repo := c.n.t, c.n.path("repo")
	t.Helper()
	_, said := c.n.superloop(nil, "fix", "--yes", "--", "./check", "zz")
	var chains struct {
		Repos []struct {
			Known struct {
				Chains []struct {
					ID string `json:"chain_id"`
				} `json:"chains"`
			} `json:"known"`
		} `json:"repos"`
	}
	if c.ask("GET", "/api/v1/chains", "", 200, &chains); len(chains.Repos) != 1 || len(chains.Repos[0].Known.Chains) == 0 {
		t.Fatalf("%+v\n%s", chains, said)
	}
	at := "/api/v1/chains/" + chains.Repos[0].Known.Chains[0].ID + "?repo=" + url.QueryEscape(repo)
	if text := c.ask("GET", at, "", 200, nil); !strings.Contains(text, `"breadcrumbs"`) {
		t.Error(text)
	}
	c.ask("GET", "/api/v1/chains/none?repo="+url.QueryEscape(repo), "", 404, nil)
	c.ask("GET", "/api/v1/loops/"+l.ID+"/plan", "", 409, nil)
}

// Each other way to answer does what its verb does.
func TestAPIAnswers(t *testing.T) {
	t.Parallel()
	n := newAskingNight(t)
	c := n.up()
	ways := []string{"edit", "remember", "manual", "reject"}
	for _, way := range ways[:testkit.Sample(1, len(ways), len(ways))] {
		l := c.begin(way)
		q := c.asks(l)
		c.ask("GET", "/api/v1/loops/"+l.ID+"/plan", "", 200, nil)
		switch way {
		case "edit":
			c.answer(q, 200, "edit", `, "command": "touch ok-edit"`)
		case "remember":
			c.answer(q, 200, "approve", `, "remember": true`)
			if text, err := os.ReadFile(n.path("repo/.superloop/config.json")); err != nil || !strings.Contains(string(text), `["touch ok-remember"`) {
				t.Errorf("%v %s", err, text)
			}
		case "manual":
			n.write("repo/ok-manual", "")
			c.answer(q, 200, "manual", "")
		case "reject":
			c.answer(q, 200, "reject", `, "note": "not that"`)
			n.until("it was taken up", func() bool { return c.has(l, "recovery_resolved", `"method":"reject"`) == 1 })
			c.ask("POST", "/api/v1/loops/"+l.ID+"/cancel", "{}", 202, nil)
			continue
		}
		c.completes(l)
		if c.has(l, "recovery_resolved", `"by":"cli:`) != 1 {
			t.Errorf("%s: nobody has answered", way)
		}
	}
	var answered api.Questions
	c.ask("GET", "/api/v1/escalations?state=answered", "", 200, &answered)
	if len(answered.Escalations) == 0 {
		t.Error("no question was answered")
	}
	seen := map[string]bool{}
	for cursor := ""; ; {
		var page api.Questions
		c.ask("GET", "/api/v1/escalations?state=answered&limit=1&cursor="+url.QueryEscape(cursor), "", 200, &page)
		for _, q := range page.Escalations {
			seen[q.ID] = true
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if len(seen) != len(answered.Escalations) {
		t.Errorf("%d questions by page, %d in all", len(seen), len(answered.Escalations))
	}
}

package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/journal"
)

// pausedEnv is a loop of one iteration in which the planner meets a limit and
// the reviewer a refused login, each once.
func pausedEnv(t *testing.T) *testEnv {
	n := newTestEnv(t, false)
	n.write("bin/claude", `#!/bin/sh
cat > /dev/null
say() { echo '{"type":"result","subtype":"success","is_error":'$1',"api_error_status":'$2',"result":"'$3'","session_id":"s","total_cost_usd":0.1,"usage":{"input_tokens":1,"output_tokens":1}}'; }
if [ $SUPERLOOP_ROLE = planner ] && [ ! -e ../limited ]; then
	touch ../limited
	echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":'$(($(date +%s) + 1))',"rateLimitType":"five_hour"}}'
	say true 429 limit
	exit 1
fi
if [ $SUPERLOOP_ROLE = reviewer ] && [ ! -e ../refused ]; then
	touch ../refused
	say true 401 'no login'
	exit 1
fi
echo x > made
case $SUPERLOOP_ROLE in planner) f=plan.md ;; implementer) f=implementer.md ;; tester) f=test-report.md ;; *) f=review.md ;; esac
echo "$SUPERLOOP_ROLE $SUPERLOOP_ITERATION" > "$SUPERLOOP_LOOP_DIR/$f"
say false null '<promise>DONE</promise>'
`)
	if err := os.Chmod(n.path("bin/claude"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{"runners": {"claude": {"command": [%q]}},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": 3, "max_cost_usd": 9, "completion_promise": "DONE", "completion": {"allow_ungated": true}, "roles": ["planner", "reviewer"]}]}`, n.path("bin/claude")))
	return n
}

// finishPaused runs until the loop is complete, kicking it when it asks.
func (n *testEnv) finishPaused(what string) {
	n.t.Helper()
	for range 4 {
		code, out := n.superloop(nil, "run", "--exit-on-escalation")
		if code == exitOK {
			rep, err := journal.Verify(n.path("repo/.superloop/loops/l/events.jsonl"))
			if err != nil || rep.FirstBad != nil {
				n.t.Fatalf("%s: the journal: %v %v", what, err, rep.FirstBad)
			}
			good, outcomes := map[string]int{}, map[string]int{}
			for _, r := range n.roleEnds() {
				outcomes[fmt.Sprintf("%s/%d", r.Role, r.Attempt)]++
				if r.Outcome == loop.OutcomeOK {
					good[r.Role]++
				}
			}
			for key, count := range outcomes {
				if count != 1 {
					n.t.Fatalf("%s: attempt %s has %d outcomes", what, key, count)
				}
			}
			if good["planner"] != 1 || good["reviewer"] != 1 || n.count("iteration_start") != 1 || n.count("role_retry_wait") != 0 ||
				n.count("rate_limit_over") > n.count("rate_limit_wait") || n.count("recovery_resolved") > n.count("recovery_escalated")+1 {
				n.t.Fatalf("%s: %v good, %d iterations\n%s", what, good, n.count("iteration_start"), out)
			}
			return
		}
		if code != exitHuman {
			n.t.Fatalf("%s: run gave %d\n%s", what, code, out)
		}
		if code, out := n.superloop(nil, "kick", "--by", "eve"); code != exitOK {
			n.t.Fatalf("%s: kick gave %d\n%s", what, code, out)
		}
	}
	n.t.Fatalf("%s: never completed", what)
}

// TestKillInAPause kills the supervisor right before each event of a run that
// waits for a limit and then asks an operator: it always goes on to the same end.
func TestKillInAPause(t *testing.T) {
	t.Parallel()
	killBeforeEvents(t, testkit.Sample(80, 1, 1), 10, pausedEnv, (*testEnv).finishPaused)
}

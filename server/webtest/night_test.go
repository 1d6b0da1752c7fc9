package webtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var ofNight struct {
	once sync.Once
	w    *world
	err  error
}

// night returns a world of its own with what a night leaves: loops of several repositories and models that have ended well
// and badly, that wait for a limit or an answer, recoveries, a plan of three levels, a handover, specs of the backlog.
func night(t *testing.T) *world {
	t.Helper()
	begin(t)
	ofNight.once.Do(func() {
		w, err := newWorld()
		if ofNight.w, ofNight.err = w, err; err != nil {
			return
		}
		script := filepath.Join(w.root, "night.sh")
		if err := os.WriteFile(script, []byte(nightAgent), 0o600); err != nil {
			t.Fatal(err)
		}
		own := w.root + "/home/.config/superloop/recovery/own.yaml"
		if err := os.WriteFile(own, []byte(threeLevels), 0o600); err != nil {
			t.Fatal(err)
		}
		claude := ""
		for _, account := range []string{"night", "spare", "other"} {
			claude += fmt.Sprintf(`, %q: {"command": ["sh", %q], "adapter": "claude", "env": {"ANTHROPIC_API_KEY": %[1]q}}`, account, script)
		}
		roles := func(model string) string {
			return fmt.Sprintf(`{"planner": {"runner": "night", "model": "claude-opus-4-5"}, "implementer": {"runner": "night", "model": %q}, "tester": {"runner": "night", "model": "claude-sonnet-4-5"}, "reviewer": {"runner": "night", "model": "claude-haiku-4-5"}}`, model)
		}
		const checked, quick = `"max_cost_usd": 20, "tests": {"commands": ["./check"]}`, `"retry": {"attempts": 2, "backoff_seconds": 0}`
		loop := func(repo, id, model, more string, change func(*spec)) string {
			s := spec{repo: repo, id: id, branch: "feature/" + id, roles: roles(model), runners: claude, more: more, iterations: 8}
			if change != nil {
				change(&s)
			}
			return w.loop(t, s)
		}
		loop("storefront", "search", "claude-opus-4-5", checked, func(s *spec) { s.listed = `, "./refresh"` })
		loop("storefront-billing", "billing", "claude-sonnet-4-5", checked+`, "stuck": {"threshold": 2}, "respond": {"enabled": false}`, nil)
		loop("infra-login", "login", "claude-opus-4-5", `"max_cost_usd": 20, "tests": {"commands": ["sleep 600"]}`, nil)
		loop("storefront-export", "export", "claude-sonnet-4-5", `"tests": {"commands": ["./check"]}, "respond": {"enabled": false}`, func(s *spec) { s.iterations = 2 })
		loop("mailer", "mailer", "claude-haiku-4-5", checked+", "+quick, nil)
		loop("hooks", "webhooks", "claude-sonnet-4-5", checked, func(s *spec) { s.roles = `{"implementer": {"runner": "spare"}, "reviewer": {"runner": "night"}}` })
		loop("audit", "audit-log", "claude-sonnet-4-5", checked+", "+quick, func(s *spec) {
			s.roles = `{"implementer": {"runners": ["other", "claude"]}, "reviewer": {"runner": "claude", "model": "claude-haiku-4-5"}}`
			s.priced = true
		})
		loop("deploy", "deploy", "claude-opus-4-5", checked, func(s *spec) {
			s.top = `"permissions": {"mode": "enforce", "wait": "1h"}, `
			s.roles = `{"implementer": {"runner": "night"}, "reviewer": {"runner": "night"}}`
		})
		loop("migration", "migration", "claude-opus-4-5", `"tests": {"commands": ["true"]}, "approval": {"enabled": true, "require_on_completion": true}`, nil)
		loop("certs", "certs", "claude-sonnet-4-5", checked, func(s *spec) {
			s.proposal = proposes("rm -rf node_modules && npm ci --prefer-offline --no-audit --no-fund")
		})
		loop("budget", longName, "claude-opus-4-5", `"max_cost_usd": 0.5, "tests": {"commands": ["./check"]}, "respond": {"enabled": false}`, nil)
		levels := loop("levels", "release", "claude-opus-4-5", checked, func(s *spec) { s.idle = true })
		for name, text := range map[string]string{"refresh": "[ -f free ] || { echo 'mystore: the store is locked' >&2; exit 4; }; touch ok",
			"unlock": "[ -f thekey ] || { echo 'mykey: the key is missing' >&2; exit 5; }; touch free", "key": "touch thekey"} {
			if err := os.WriteFile(filepath.Join(levels, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		fix := exec.Command(w.bin, "fix", "--yes", "--", "./check")
		fix.Env, fix.Dir = w.env, levels
		if out, err := fix.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, name := range []string{"ok", "free", "thekey"} {
			if err := os.Remove(filepath.Join(levels, name)); err != nil {
				t.Fatal(err)
			}
		}
		w.verb(t, "start", "--repo", levels, "--loop", "release")
		for _, name := range []string{"invoices", "imprint"} {
			w.verb(t, "queue", "add", "--repo", levels, "--spec", filepath.Join(levels, "spec.md"), "--loop", name, "--label", "backlog")
		}
	})
	if ofNight.err != nil {
		t.Fatal(ofNight.err)
	}
	w := ofNight.w
	for at, want := range map[string]string{"storefront/search": "completed", "storefront-billing/billing": "stuck", "infra-login/login": "running", "storefront-export/export": "limit_reached", "mailer/mailer": "awaiting_human",
		"hooks/webhooks": "rate_limited", "audit/audit-log": "awaiting_human", "migration/migration": "awaiting_approval", "certs/certs": "awaiting_human", "levels/release": "awaiting_human", "levels/invoices": "awaiting_human",
		"levels/imprint": "awaiting_human", "budget/" + longName: "limit_reached"} {
		repo, id := filepath.Split(at)
		until(t, at+" is "+want, func() bool { return state(filepath.Join(w.root, repo), id) == want })
	}
	asks(t, filepath.Join(w.root, "deploy"), "deploy")
	return w
}

const longName = "reports-with-a-long-name-that-nobody-would-type-twice"

// nightAgent is every role of the night. What it does depends on the loop.
const nightAgent = `case "$*" in
*--version*) echo '9.9.9 (Claude Code)'; exit ;;
*--help*) printf 'Usage: claude [options]\n  -p, --print\n  --output-format <format>\n  --verbose\n  --session-id <uuid>\n  --model <model>\n  --permission-mode <mode>\n  --max-budget-usd <amount>\n'; exit ;;
esac
loop=$(basename "$SUPERLOOP_LOOP_DIR") role=$SUPERLOOP_ROLE
say() { echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"'"$1"'"}]},"session_id":"s1"}'; }
case $loop in deploy) read -r hook; read -r prompt ;; *) cat > /dev/null ;; esac
echo '{"type":"system","subtype":"init","session_id":"s1","model":"claude-sonnet-4-5","cwd":"'"$PWD"'","tools":["Bash"]}'
case $loop/$role in
webhooks/implementer|audit-log/implementer)
	echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":'$(( $(date +%s) + 6400 ))',"rateLimitType":"five_hour"},"session_id":"s1"}'
	echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"You'"'"'ve hit your 5-hour limit","session_id":"s1","total_cost_usd":0.04,"usage":{"input_tokens":900,"output_tokens":40}}'
	exit 1 ;;
mailer/implementer)
	say 'I open the queue.'
	echo 'node: out of file descriptors' >&2
	exit 70 ;;
deploy/implementer)
	echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"u1","name":"Bash","input":{"command":"kubectl apply -f deploy/production.yaml"}}]},"session_id":"s1"}'
	echo '{"type":"control_request","request_id":"r1","request":{"subtype":"hook_callback","callback_id":"pre","tool_use_id":"u1","input":{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"kubectl apply -f deploy/production.yaml"},"tool_use_id":"u1","cwd":"'"$PWD"'","session_id":"s1"}}}'
	read -r answer ;;
esac
case $role in implementer) f=implementer.md ;; tester) f=test-report.md ;; planner) f=plan.md ;; *) f=review.md ;; esac
printf '# Report of the %s\n\n%s\n' "$role" "$(date +%s%N)" > "$SUPERLOOP_LOOP_DIR/$f"
say "I read the specification and look at what the $role has to do next."
echo '{"type":"assistant","message":{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"git diff --stat && go test ./... | tail -n 20"}}]},"session_id":"s1"}'
echo '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok  \\tshop/cart\\t0.412s\\nFAIL\\tshop/index\\t1.205s","is_error":false}]},"session_id":"s1"}'
if [ "$role" = implementer ] && [ "$loop" != billing ]; then date +%s%N >> work.txt; fi
case $loop in search|migration) [ "$role" != implementer ] || [ "$SUPERLOOP_ITERATION" -lt 2 ] || touch ok ;; esac
if [ "$role" = tester ] && ! [ -f ok ] && [ "$(cat proposal.json)" != null ]; then
	sed "s/^{/{\"timestamp\": \"$(date -u +%Y-%m-%dT%H:%M:%SZ)\", /" proposal.json > "$SUPERLOOP_LOOP_DIR/recovery.json"
fi
said=
[ "$role" != reviewer ] || ! { [ -f ok ] || [ "$loop" = migration ]; } || said='<promise>DONE</promise>'
cost=0.$(( $(date +%N | cut -c1-2 | sed 's/^0//') + 11 ))
[ "$loop/$role" != export/tester ] || cost=null
echo '{"type":"result","subtype":"success","is_error":false,"result":"It is done. '"$said"'","session_id":"s1","total_cost_usd":'$cost',"usage":{"input_tokens":21000,"output_tokens":3400}}'
`

#!/usr/bin/env bash
# Takes docs/watch.svg and docs/watch-all.svg: the screen of superloop watch beside real loops, in a terminal of tmux. Everything
# is real but the agent, which is the script below; it prints the stream of an agent CLI. Needs Go, git, jq and tmux.
#
#	internal/tools/pictures/make.sh [DIRECTORY]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
freeze=github.com/charmbracelet/freeze@v0.2.2 # draws the escape sequences of a terminal as SVG
out=$(realpath "${1:-docs}")
work=$(mktemp -d)
terminal() { TMUX='' tmux -S "$work/s" -f /dev/null "$@"; }
cleanup() {
	for id in checkout search docs; do superloop cancel --repo "$work/shop" --loop "$id" >/dev/null 2>&1 || true; done
	wait
	terminal kill-server 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

mkdir "$work/bin" "$work/shop" "$work/home"
go build -o "$work/bin/superloop" ./cmd/superloop
GOBIN=$work/bin go install "$freeze"
cat > "$work/bin/agent" <<'AGENT'
#!/usr/bin/env bash
# Does the work of a role, and says so in the words of Claude Code. In the loop checkout the second implementer works on until
# the picture is taken.
cat > /dev/null
loop=${SUPERLOOP_LOOP_DIR##*/} role=$SUPERLOOP_ROLE n=0
say() { jq -cn --arg t "$1" '{type: "assistant", session_id: "s", timestamp: (now | todate), message: {model: "claude-sonnet-4-5", content: [{type: "text", text: $t}]}}'; }
call() { # call TOOL KEY VALUE RESULT
	n=$((n + 1))
	jq -cn --arg tool "$1" --arg key "$2" --arg value "$3" --arg n "$n" '{type: "assistant", session_id: "s", timestamp: (now | todate), message: {model: "claude-sonnet-4-5", content: [{type: "tool_use", id: $n, name: $tool, input: {($key): $value}}]}}'
	[ -z "${4:-}" ] || jq -cn --arg text "$4" --arg n "$n" '{type: "user", session_id: "s", timestamp: (now | todate), message: {role: "user", content: [{type: "tool_result", tool_use_id: $n, content: $text}]}}'
}
jq -cn '{type: "system", subtype: "init", session_id: "s", timestamp: (now | todate), model: "claude-sonnet-4-5"}'
report=$(case $role in planner) echo plan.md ;; implementer) echo implementer.md ;; tester) echo test-report.md ;; *) echo review.md ;; esac)
case $loop:$role in
*:planner)
	call Read file_path ".superloop/specs/$loop.md" "$(cat ".superloop/specs/$loop.md")"
	say "1. A discount for ten or more. 2. A test for it." ;;
checkout:implementer)
	call Read file_path src/cart.js "$(cat src/cart.js)"
	if [ ! -e src/discount.js ]; then
		call Write file_path src/discount.js "File created successfully"
		echo 'exports.discount = (n) => (n > 10 ? 0.1 : 0)' > src/discount.js
		say "Ten or more of one thing are ten per cent cheaper now."
	else
		say "The test wants the discount at ten, and my bound is off by one."
		call Edit file_path src/discount.js "The file src/discount.js has been updated."
		sed -i 's/> 10/>= 10/' src/discount.js
		call Bash command "node --test test/" "ok 1 - ten are cheaper, ok 2 - nine are not"
		say "Both pass. Now I look for other places that count things."
		call Grep pattern "quantity" "src/cart.js, src/order.js"
		call Read file_path src/order.js
		touch "$SUPERLOOP_LOOP_DIR/works"
		sleep 600
	fi ;;
docs:implementer) echo 'Ten or more: -10 %.' >> README ;;
*:tester) say "The bound of the discount is not tested at ten." ;;
*) say "Done." ;;
esac
if [ "$loop:$role" = search:tester ]; then
	jq -n --arg now "$(date -u +%FT%TZ)" '{version: 1, timestamp: $now, category: "dependency", severity: "blocking", diagnosis: {error_pattern: "Cannot find module", root_cause: "node_modules is missing", evidence: ["Cannot find module"]},
		recovery: {command: "npm ci", working_dir: ".", timeout_seconds: 60, expected_outcome: "the modules are there", confidence: "high"}}' > "$SUPERLOOP_LOOP_DIR/recovery.json"
fi
printf '%s of %s\n' "$report" "$loop" > "$SUPERLOOP_LOOP_DIR/$report"
text="The $report is written."
[ "$loop:$role" != docs:reviewer ] || text='<promise>SUPERLOOP_COMPLETE</promise>'
say "$text"
jq -cn --arg text "$text" '{type: "result", subtype: "success", timestamp: (now | todate), is_error: false, session_id: "s", result: $text, duration_ms: 61000, total_cost_usd: 0.0731, usage: {input_tokens: 9200, output_tokens: 1400}}'
AGENT
chmod +x "$work/bin/agent"

export PATH="$work/bin:$PATH" HOME="$work/home" XDG_STATE_HOME="$work/home/state" USER=you GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL="$work/home/gitconfig" LC_ALL=C.UTF-8
git config --global user.name you
git config --global user.email you@example.org
cd "$work/shop"
mkdir -p src test .superloop/specs
echo 'exports.total = (items) => items.reduce((sum, i) => sum + i.price, 0)' > src/cart.js
printf 'A shop.\n' > README
for id in checkout search docs; do printf '# %s\n\nTen or more of one thing are ten per cent cheaper.\n' "$id" > ".superloop/specs/$id.md"; done
printf '#!/bin/sh\n# of the picture: what a test of the repository would say\ncase $1 in checkout) grep -q ">= 10" src/discount.js ;; search) [ -d node_modules ] || { echo "Cannot find module" >&2; exit 1; } ;; esac\n' > test/run
chmod +x test/run
loops=$(for id in checkout search docs; do
	jq -n --arg id "$id" '{id: $id, spec_file: ".superloop/specs/\($id).md", completion_promise: "SUPERLOOP_COMPLETE", max_iterations: 5, max_cost_usd: 5, tests: {commands: ["test/run \($id)"]}, git: {worktree: ($id != "checkout")}}'
done | jq -s .)
jq -n --argjson loops "$loops" '{runners: {claude: {command: ["agent"], adapter: "claude"}}, recovery: {}, loops: $loops}' > .superloop/config.json
git init -q -b main && git add . && git commit -qm 'A shop'

until_seen() { # until_seen COMMAND...
	for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
	tail -n 20 "$work"/*.out >&2
	echo "this never became true: $*; the pictures are as they were" >&2
	exit 1
}
superloop run --loop docs > "$work/docs.out" 2>&1 || { cat "$work/docs.out"; exit 1; }
superloop run --loop search > "$work/search.out" 2>&1 &
superloop run --loop checkout > "$work/checkout.out" 2>&1 &
until_seen test -e .superloop/loops/checkout/works
until_seen grep -q recovery_escalated .superloop/loops/search/events.jsonl

# picture FILE WIDTH HEIGHT TEXT ARGUMENT...: the screen of superloop watch, once it shows the text
picture() {
	local file=$1 width=$2 height=$3 text=$4
	shift 4
	terminal new-session -d -s "$file" -x "$width" -y "$height" "TERM=xterm-256color superloop watch --color always $*"
	shows() { terminal capture-pane -p -t "$file" | grep -qF "$text"; }
	until_seen shows
	# freeze draws colours only: bold becomes white, faint grey, the cursor cyan. Row by row, since it forgets them at the
	# end of a line. The name of the machine goes.
	for row in $(seq 0 $((height - 1))); do terminal capture-pane -e -p -t "$file" -S "$row" -E "$row"; done |
		sed -e 's/\x1b\[[34]9m/\x1b[0m/g; s/\x1b\[1m\x1b\[33m/\x1b[33m/g; s/\x1b\[1m/\x1b[97m/g; s/\x1b\[2m/\x1b[38;5;245m/g; s/\x1b\[7m/\x1b[96m/g' \
			-e "s/ on $(uname -n) since / on host since /" > "$work/$file.ansi"
	terminal kill-session -t "$file"
	freeze --language ansi --font.family monospace --padding 16 --border.radius 6 -o "$work/$file.svg" "$work/$file.ansi" > /dev/null
	if grep -F "$work" "$work/$file.svg"; then
		echo "a path of this machine is in the picture; the pictures are as they were" >&2
		exit 1
	fi
}
picture watch 100 24 src/order.js --loop checkout
picture watch-all 140 24 src/order.js --all
cp "$work/watch.svg" "$work/watch-all.svg" "$out"

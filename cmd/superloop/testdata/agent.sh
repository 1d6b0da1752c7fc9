#!/bin/sh
# The agent of the recovery scripts, $WORK/agent.sh. It plays $WORK/ROLE.sh, if
# that is there; else the reviewer promises as soon as the file "ok" is there.
cat > /dev/null
dir=$SUPERLOOP_LOOP_DIR

# proposal COMMAND [MORE]: the text of a proposal; MORE are members of its
# recovery object, FALLBACK is one of its own, PATTERN its error_pattern. The
# texts stand in it as they are.
proposal() {
	more=
	[ -z "$FALLBACK" ] || more=', "fallback": '$FALLBACK
	cat <<J
{"version": 1, "timestamp": "2026-01-23T05:36:33Z", "category": "${CATEGORY:-dependency}", "severity": "blocking",
 "diagnosis": {"error_pattern": "${PATTERN:-Host version .* does not match}", "root_cause": "two versions of esbuild", "evidence": ["test-output.txt:3: Host version"]},
 "recovery": {"command": "$1", "expected_outcome": "the tests start", "confidence": "high"${2:+, $2}}$more}
J
}

# propose does what proposal does and leaves it.
propose() {
	proposal "$@" > "$dir/.new" && mv "$dir/.new" "$dir/recovery.json"
}

grep -qs "$SUPERLOOP_RUN_ID" work.txt || echo "$SUPERLOOP_RUN_ID" >> work.txt
case $SUPERLOOP_ROLE in
planner) report=plan.md ;;
implementer) echo work >> work.txt; report=implementer.md ;;
tester) report=test-report.md ;;
reviewer) report=review.md ;;
esac
echo "looked in iteration $SUPERLOOP_ITERATION, attempt $SUPERLOOP_ATTEMPT of $SUPERLOOP_RUN_ID" > "$dir/$report"
if [ -f "$WORK/$SUPERLOOP_ROLE.sh" ]; then
	. "$WORK/$SUPERLOOP_ROLE.sh"
elif [ "$SUPERLOOP_ROLE" = reviewer ] && [ -f ok ]; then
	echo '<promise>DONE</promise>'
fi
exit 0

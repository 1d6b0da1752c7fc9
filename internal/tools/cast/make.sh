#!/usr/bin/env bash
# Records docs/first-loop.cast: init, run, status and diff in a small real repository. Everything is real but the agent,
# which is the script below. Needs Go, git, make and jq.
#
#	internal/tools/cast/make.sh [FILE]
#
# The format is asciinema v2 (https://docs.asciinema.org/manual/asciicast/v2/): asciinema play docs/first-loop.cast
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
out=$(realpath "${1:-docs/first-loop.cast}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/bin" "$work/greet" "$work/home"
go build -o "$work/bin/superloop" ./cmd/superloop
cat > "$work/bin/agent" <<'AGENT'
#!/bin/sh
# An agent CLI takes its prompt on standard input, works in the current directory and reports in a file.
cat > /dev/null
sleep 0.6
case $SUPERLOOP_ROLE in
planner) echo '1. Take a name. 2. Greet the world without one.' > "$SUPERLOOP_LOOP_DIR/plan.md" ;;
implementer)
	printf '#!/bin/sh\necho "Hello, ${1:-world}!"\n' > greet.sh
	echo 'greet.sh greets its first argument, or the world.' > "$SUPERLOOP_LOOP_DIR/implementer.md" ;;
tester) echo 'make test passes with a name and without.' > "$SUPERLOOP_LOOP_DIR/test-report.md" ;;
reviewer)
	echo 'It does what the spec says.' > "$SUPERLOOP_LOOP_DIR/review.md"
	echo '<promise>SUPERLOOP_COMPLETE</promise>' ;;
esac
AGENT
chmod +x "$work/bin/agent"

export PATH="$work/bin:$PATH" HOME="$work/home" XDG_STATE_HOME="$work/home/state" USER=you GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL="$work/home/gitconfig"
git config --global user.name you
git config --global user.email you@example.org
cd "$work/greet"
printf '#!/bin/sh\necho hello\n' > greet.sh
printf 'test:\n\t@test "$$(sh greet.sh)" = "Hello, world!"\n\t@test "$$(sh greet.sh Ada)" = "Hello, Ada!"\n' > Makefile
git init -q -b main . && git add . && git commit -qm 'Say hello'

began=$(date +%s%N)
rest=0 # a viewer needs longer to read a command than the machine to run it
emit() { # emit TEXT: a record with the time since the beginning
	local text=${1//"$work/greet"/"~/greet"}
	text=${text//"$work/home"/"~"}
	jq -cn --arg text "${text//"$work"/"~"}" --argjson ns "$(($(date +%s%N) - began + rest))" '[($ns / 1e9 * 1000 | round / 1000), "o", $text]' >> "$work/cast"
}
pause() { rest=$((rest + $1 * 1000000)); }
type() { # type COMMAND: what an operator types, and what it prints
	emit $'\e[1;32m$\e[0m '"$1"$'\r\n'
	pause 900
	# The loop ends with a promise and green gates; the exit code is that of the command.
	bash -c "$2" 2>&1 | while IFS= read -r line; do emit "$line"$'\r\n'; done
	pause 2500
}

jq -cn '{version: 2, width: 120, height: 36, title: "A first loop", env: {TERM: "xterm-256color"}}' > "$work/cast"
type 'superloop init --loop greet' 'superloop init --loop greet --runner agent --yes'
spec='# Greet by name\n\nsh greet.sh NAME prints "Hello, NAME!"; without a name it greets the world.\n'
type "printf '${spec//$'\n'/}' > .superloop/specs/greet.md" "printf '$spec' > .superloop/specs/greet.md"
type 'superloop run' 'superloop run --color always'
type 'superloop status' 'superloop status --color always'
type 'superloop diff' 'superloop diff'
emit $'\e[1;32m$\e[0m '
if [ "$(git status --porcelain -- greet.sh)" = '' ] || ! make -s test; then
	echo "the loop has not done its work; $out is as it was" >&2
	exit 1
fi
if grep -F "$work" "$work/cast"; then
	echo "a path of this machine is in the recording; $out is as it was" >&2
	exit 1
fi
cp "$work/cast" "$out"

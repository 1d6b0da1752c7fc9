# Compares what greet.sh prints with what it should print; git shows the difference.
set -eu
out=$(mktemp)
trap 'rm -f "$out"' EXIT
sh greet.sh World > "$out"
git --no-pager diff --no-index --no-color --exit-code -- expected.txt "$out"
echo "greet.sh prints what it should"

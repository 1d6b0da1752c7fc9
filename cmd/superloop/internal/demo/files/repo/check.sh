# Builds, and compares what the program prints with what it should print; git shows
# the difference.
set -eu
sh build.sh
out=$(mktemp)
trap 'rm -f "$out"' EXIT
sh build/greet.sh World > "$out"
git --no-pager diff --no-index --no-color --exit-code -- expected.txt "$out"
echo "greet prints what it should"

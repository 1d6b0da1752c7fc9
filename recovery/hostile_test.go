package recovery

import (
	"testing"

	"github.com/superloop/superloop/recovery/action"
)

// Each of these reaches, or may reach, "gated" or "gated arg"; none may run by
// on_unknown "allow".
var hostile = []string{
	// plain, and in lists and compounds
	"gated", "gated arg", " gated arg", "gated\targ", "gated arg;", "gated arg &", "true; gated arg", "true && gated arg", "false || gated arg",
	"true | gated arg", "true |& gated arg", "true\ngated arg", "(gated arg)", "{ gated arg; }", "! gated arg", "!(gated arg)", "if gated arg; then :; fi",
	"if false; then :; else gated arg; fi", "if false; then :; elif gated arg; then :; fi", "while gated arg; do break; done", "until gated arg; do break; done",
	"for i in 1; do gated arg; done", "for ((i=0;i<1;i++)); do gated arg; done", "select x in a; do gated arg; done", "case x in x) gated arg;; esac",
	"case $(gated arg) in x) ;; esac", "f() { gated arg; }; f", "function f { gated arg; }", "f() ( gated arg )", "coproc gated arg", "coproc X { gated arg; }", "time gated arg", "time -p gated arg",
	"time -- gated arg", "time ! gated arg", "exec gated arg", "gated arg </dev/null >/dev/null 2>&1", ">/dev/null gated arg", "2>&1 gated arg", "{fd}>/dev/null gated arg", "A=1 gated arg", "A=1 B=2 gated arg",
	"true & gated arg", "if :; then if :; then gated arg; fi; fi", "gated arg # comment", "#\ngated arg", "true;gated arg", "true&&gated arg", "((1)) && gated arg", "[[ a ]] && gated arg",
	// substitutions, expansions, here-documents
	"echo $(gated arg)", "echo `gated arg`", "echo \"$(gated arg)\"", "echo \"`gated arg`\"", "echo $( (gated arg) )", "echo ${x:-$(gated arg)}", "echo ${x:=$(gated arg)}", "echo \"${x:+$(gated arg)}\"",
	"echo ${x/$(gated arg)/}", "echo ${x:$(gated arg)}", "echo $(($(gated arg)))", "echo $[$(gated arg)]", "A=$(gated arg)", "A=$(gated arg) true", "a[$(gated arg)]=1", "a=($(gated arg))", "a=([$(gated arg)]=1)",
	"cat <(gated arg)", "tee >(gated arg)", "cat <<E\n$(gated arg)\nE", "cat <<E\n`gated arg`\nE", "cat <<<$(gated arg)", "cat <<-E\n\t$(gated arg)\n\tE", "echo > $(gated arg)", "echo $(echo $(gated arg))", "echo `echo \\`gated arg\\``",
	"for x in $(gated arg); do :; done", "[[ $(gated arg) ]]", "[[ -n `gated arg` ]]", "export A=$(gated arg)", "local A=$(gated arg)", "declare A=$(gated arg)", "readonly A=`gated arg`", "let x=$(gated arg)", "echo \"a $(true; gated arg) b\"",
	"$(echo gated) arg", "`echo gated` arg", "$X arg", "${X} arg", "\"$X\" arg", "$X", "g${X}ated arg", "${X:-gated} arg", "$@", "\"$@\"", "$1 arg", "${x@P}", "echo ${x@P}", "${!x}", "echo ${!x}", "echo $((x))", "echo $[x]", "echo ${a[x]}",
	"(( x ))", "((x=1))", "let x", "declare -i x=y", "typeset -i x=y", "declare -n x=y", "[[ x -eq 1 ]]", "[[ $x -lt 1 ]]", "[[ -v a[x] ]]", "[[ -v $x ]]", "test -v 'a[$(gated arg)]'", "[ -v 'a[$(gated arg)]' ]", "printf -v 'a[$(gated arg)]' x", "printf -v'a[$(gated arg)]' x",
	"read 'a[$(gated arg)]'", "unset 'a[$(gated arg)]'", "read PATH", "read $x", "mapfile -C gated", "for PATH in /tmp; do :; done", "getopts ab PATH", "printf -v PATH x", "echo ${x:x}", "echo ${x:1:y}",
	// quoting
	"'gated' arg", "\"gated\" arg", "g'ate'd arg", "ga\"te\"d arg", "\\gated arg", "g\\ated arg", "ga\\\nted arg", "gated\\\n arg", "$'gated' arg", "$'\\x67ated' arg", "$'\\147ated' arg", "$'g\\u0061ted' arg", "$'ga\\x{74}ed' arg", "$\"gated\" arg", "''gated arg", "gated'' arg",
	"gated 'arg'", "gated \"arg\"", "gated a\\rg", "gated $'arg'", "gated $X", "gated \"$X\"", "gated $(echo arg)", "gated a*", "gated ?rg", "gated [a]rg", "gated {arg,x}", "gated a{r,x}g", "{gated,arg}", "{gated,} arg", "gat[e]d arg", "g*ted arg", "ga?ed arg", "gat[\"e\"]d arg", "gat[!x]d arg", "gat[[:alpha:]]d arg", "g{a,a}ted arg", "~/gated arg", "~+/gated arg", "./g*d arg", "@(gated) arg", "gated @(arg)",
	// by another path or with other options
	"/usr/bin/gated arg", "./gated arg", "../x/gated arg", "bin/gated arg", "gated -v arg", "gated --verbose arg", "gated --opt=x arg", "gated --opt x arg", "gated -- arg", "//usr//bin//gated arg",
	// wrappers
	"env gated arg", "env A=1 gated arg", "env -i gated arg", "env -u X gated arg", "env - gated arg", "env -S 'gated arg'", "env -S'gated arg'", "env --split-string='gated arg'", "env -vS 'gated arg'", "env -C /tmp gated arg", "env -S 'A=1 gated' arg", "env -S \"g\\ated arg\"", "env A=\"$X\" gated arg", "env $X gated arg",
	"command gated arg", "command -p gated arg", "command -- gated arg", "builtin command gated arg", "builtin eval gated arg", "exec -a x gated arg", "exec -c gated arg", "nohup gated arg", "timeout 5 gated arg", "timeout -s KILL 5 gated arg", "timeout -sKILL 5 gated arg", "timeout --signal=KILL 5 gated arg", "timeout --signal KILL 5 gated arg", "timeout --sig KILL 5 gated arg", "timeout -k 1 5 gated arg", "timeout $X gated arg", "timeout \"$X\" gated arg",
	"nice gated arg", "nice -n 5 gated arg", "nice -5 gated arg", "ionice -c 3 gated arg", "stdbuf -oL gated arg", "setsid gated arg", "setsid -w gated arg", "sudo gated arg", "sudo -u bob gated arg", "sudo -E A=1 gated arg", "sudo --user bob gated arg", "doas gated arg", "doas -u bob gated arg", "sudo -s", "time -f %e gated arg", "/usr/bin/time -v gated arg", "\\time gated arg",
	"xargs gated arg", "echo arg | xargs gated", "xargs -n 1 gated arg", "xargs -I{} gated {}", "xargs -I X sh -c 'gated X'", "xargs -0 -P 4 -- gated arg", "xargs --max-args 1 gated arg", "chroot / gated arg", "unshare -r gated arg", "strace -f gated arg", "strace -e trace=open gated arg", "watch gated arg", "watch -n 1 'gated arg'", "watch -x gated arg", "busybox gated arg", "busybox env gated arg", "busybox sh -c 'gated arg'", "flock /tmp/l gated arg", "flock /tmp/l -c 'gated arg'", "flock -c 'gated arg' /tmp/l", "flock -w 1 /tmp/l gated arg",
	"script -c 'gated arg'", "script -qc 'gated arg' /dev/null", "script", "su -c 'gated arg'", "su bob -c 'gated arg'", "su - bob --command='gated arg'", "su", "runuser -u bob gated arg", "env env env gated arg", "nohup timeout 5 nice env A=1 gated arg", "taskset 1 gated arg", "chrt 1 gated arg", "ld-linux-x86-64.so.2 /bin/gated arg", "/lib64/ld-linux-x86-64.so.2 /bin/gated arg", "caffeinate gated arg",
	// shells and scripts in texts
	"sh -c 'gated arg'", "bash -c 'gated arg'", "bash -c \"gated arg\"", "bash -lc 'gated arg'", "bash -xc 'gated arg'", "bash -x -c 'gated arg'", "bash -o pipefail -c 'gated arg'", "bash -co pipefail 'gated arg'", "bash --norc -c 'gated arg'", "bash --rcfile x", "bash --init-file x -i", "bash -c $X", "bash -c \"$X\"", "bash -c 'bash -c \"gated arg\"'", "bash -c '$0 arg' gated", "bash -c '\"$@\"' x gated arg", "bash", "bash -s", "bash < x", "echo gated arg | bash", "echo gated arg | sh -", "bash <<< 'gated arg'", "bash <<'E'\ngated arg\nE", "bash x.sh", "sh ./x.sh", "bash -i", "bash $X -c true", "dash -c 'gated arg'", "zsh -c 'gated arg'", "ksh -c x", "fish -c 'gated arg'", "/bin/sh -c 'gated arg'", "bash +c x", "bash -c -- 'gated arg'",
	"eval gated arg", "eval 'gated arg'", "eval \"gated\" 'arg'", "eval $X", "eval \"$X\"", "eval -- gated arg", "eval 'eval \"gated arg\"'", "eval ga'te'd arg", "eval 'g\"ated\" arg'", "eval \"gat\\ed arg\"", "trap 'gated arg' EXIT", "trap -- 'gated arg' 0", "trap $X EXIT", "source x", ". x", ". ./x", "alias x='gated arg'", "shopt -s expand_aliases", "hash -p /bin/gated ls", "enable -f x y", "complete -C gated x", "compgen -C 'gated arg'", "compgen -W '$(gated arg)'", "bind -x x", "fc -s gated",
	"find . -exec gated arg ;", "find . -exec gated arg \\;", "find . -exec gated arg {} +", "find . -execdir gated arg {} ';'", "find . -ok gated arg \\;", "find . -exec sh -c 'gated arg' \\;", "find . -name x -o -exec gated arg \\;", "find . -exec {} arg \\;", "find . -exec ls {} + -exec gated arg \\;", "find . $X", "find -files0-from x", "find . -exec env gated arg \\;",
	// loaded variables
	"BASH_ENV=x bash -c true", "ENV=x sh -c true", "PATH=.:$PATH ls", "PATH=/tmp", "export PATH=.", "declare -x PATH=.", "IFS=x", "PS4='$(gated arg)' ls", "LD_PRELOAD=./x.so ls", "export LD_LIBRARY_PATH=.", "PROMPT_COMMAND=gated", "SHELLOPTS=xtrace", "GIT_SSH_COMMAND='gated arg' git fetch", "GIT_EDITOR=gated git commit", "NODE_OPTIONS='-r ./x' node y", "env LD_PRELOAD=./x ls", "env PATH=. ls", "sudo PATH=. ls", "npm_config_script_shell=gated npm test", "EDITOR=gated crontab -e", "PAGER='gated arg' man x", "MAKEFLAGS='--eval=x' make", "PERL5OPT=-Mx perl y", "export $X", "read -r BASH_ENV", "${PATH:=x}", "set -k", "set -o keyword", "env 'BASH_FUNC_ls%%=() { gated arg; }' bash -c ls",
	// interpreters
	"python -c 'import os'", "python3 -c x", "python3.11 -Ic x", "python3 -", "python3 < x", "echo x | python3", "python3 <<E\nx\nE", "python $X", "perl -e x", "perl -ne x", "perl -Mx -e y", "perl -pi -e s/x/y/ f", "ruby -e x", "node -e x", "node --eval x", "node --eval=x", "node -p x", "node -pe x", "node", "node -", "php -r x", "lua -e x", "deno eval x", "bun -e x", "awk 'BEGIN{system(\"gated arg\")}'", "awk '{print | \"gated arg\"}'", "awk -f x", "gawk '@load \"x\"'", "awk \"$X\"", "sed e", "sed 's/x/gated arg/e' f", "sed -n '1e gated arg' f", "sed -f x f", "sed --expression='1e gated' f", "sed 'w x' f", "sed \"$X\" f",
	// programs with a hole
	"tar cf x --checkpoint=1 --checkpoint-action=exec=gated y", "tar xf x --to-command=gated", "tar -I gated -xf x", "tar --use-compress-program gated -xf x", "tar --use-comp=gated -xf x", "tar cIf gated x", "git -c alias.x='!gated arg' x", "git -c core.pager=gated log", "git -c core.sshCommand=gated fetch", "git -ccore.pager=gated log", "git --config-env=core.pager=X log", "git --exec-path=. log", "git -p log", "git x", "git submodule foreach 'gated arg'", "git submodule foreach --recursive gated arg", "git rebase -x 'gated arg' HEAD~1", "git rebase --exec='gated arg' HEAD~1", "git rebase --exec 'gated arg' HEAD~1", "git rebase -i HEAD", "git bisect run gated arg", "git bisect run sh -c 'gated arg'", "git clone 'ext::sh -c gated' x", "git fetch --upload-pack=gated x", "git fetch --upload-pack gated", "git push --receive-pack=gated x", "git grep -Ogated x", "git difftool -x gated", "git filter-branch --tree-filter gated", "git config core.pager gated", "git config alias.x '!gated'", "git $X",
	"ssh h gated", "ssh -o ProxyCommand=gated h", "rsync -e gated x y", "rsync --rsh=gated x y", "scp -S gated x y", "rg --pre gated x", "sort --compress-program=gated x", "sort --compress-prog gated x", "split --filter=gated x", "zip x y -TT gated", "make --eval='x:;gated'", "make SHELL=gated", "make -f - ", "go test -exec gated ./...", "go build -toolexec=gated", "cargo build --config x", "man -P gated x", "wget --use-askpass=gated x", "wget -e x y", "vim -c '!gated'", "vi x", "ed x", "gdb x", "expect -c x", "screen -dm gated", "tmux new gated", "at now", "batch", "crontab x", "parallel gated ::: arg", "socat - EXEC:gated", "nc -e gated h 1", "systemd-run gated arg", "docker run -v /:/h x gated", "docker exec x gated", "kubectl exec x", "nix-shell --run gated", "npx -c 'gated arg'", "npx gated arg", "npx --yes gated arg", "npm exec gated arg", "npm exec -- gated arg", "npm x -c 'gated arg'", "pnpm exec gated arg", "yarn exec gated arg", "bunx gated arg", "bun x gated arg", "poetry run gated arg", "uv run gated arg", "bundle exec gated arg", "npm --script-shell=gated test", "npm config set script-shell gated", "npm $X", "ip netns exec x gated arg", "cmake -E env gated arg", "apt-get -o APT::Update::Pre-Invoke=gated update", "exec 3<>/dev/tcp/h/1", "psql -c '\\! gated'", "bun run gated arg", "pnpm gated arg", "pnpm --filter x exec gated", "make 'X=$(shell gated)'", "make 'X!=gated'", "strace -o '|gated' ls", "git clone -c core.sshCommand=gated x", "git clone --config=core.pager=gated x", "fd -x gated", "fd . --exec gated arg", "hg --config alias.x=!gated x", "rename s/x/gated/e y", "BASH_CMDS[ls]=/bin/gated; ls", "declare -A BASH_CMDS=([ls]=gated)", "pyenv exec gated arg", "conda run -n x gated", "pdflatex -shell-escape x",
	// superloop's own
	"rm -rf .superloop", "echo x > .superloop/config.json", "cp x .superloop/config.json", "rm -rf .super*", "rm -rf .*", "rm -rf ./.s*", "cd .superloop", "rm -rf .sup\"erlo\"op", "mv .{superloop,x}", "cat x>>.SUPERLOOP/config.json", "superloop approve-recovery", "SUPERLOOP_LOOP=x ls", "git clean -fdx", "pkill superloop", "killall -9 superloop", "bash -c 'rm .super\"loop\"/x'",
	// hidden and odd
	"ga\u200bted arg", "gated\u00a0arg", "\u202egated arg", "gated arg\u2028", "g\u0430ted arg", "\u0261ated arg", "ls \x1b[2K", "gated arg\r", "ls\rgated arg", "ls \ufe0f", "ls \u3164", "ls \u2800",
	// what bash may read otherwise
	"if", "((gated arg); (b))", "$((gated arg); (b))", "echo 'x", "\"", "$(", "`", "<<E", "-x", "''", "gated(", "{", "case", "#", "{ gated arg }", "gated arg ;; x",
}

// Conforms: 004-goal-oversight, 004-nongoal-shell
func TestHostileNeverRuns(t *testing.T) {
	t.Parallel()
	s := allowing("gated", "superseded *")
	s.AutoApprove = []string{"bun install"}
	p := mustCompile(t, s)
	strict := mustCompile(t, Defaults())
	s.OnUnknown = UnknownEscalate
	escalating := mustCompile(t, s)
	for _, command := range hostile {
		if v := judge(p, command); v.Decision == action.Auto {
			t.Errorf("allow: %q runs: %s; parts %q", command, v.Reason, texts(v.Analysis))
		} else if v.Reason == "" {
			t.Errorf("%q: no reason", command)
		}
		for _, p := range []*Policy{strict, escalating} {
			if v := judge(p, command); v.Decision != action.Human {
				t.Errorf("%q: %s", command, v.Decision)
			}
		}
	}
}

func texts(a *Analysis) []string {
	var out []string
	if a != nil {
		for _, p := range a.Parts {
			out = append(out, p.Text)
		}
	}
	return out
}

// What people really propose must not be asked for under "allow", or nobody would
// keep the patterns.
func TestHarmlessRuns(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, allowing("rm -rf *", "git reset --hard", "git push", "curl *", "wget *", "sudo"))
	for _, command := range []string{
		"bun install", "npm ci", "npm install --legacy-peer-deps", "rm -f package-lock.json", "yarn install --frozen-lockfile", "pnpm install --force",
		"pip install -r requirements.txt", "python -m pip install x", "python -m venv .venv", "cargo build --release", "go mod tidy", "go build ./... && go test ./...",
		"mkdir -p build && cd build && cmake ..", "git status", "git fetch --all", "git checkout -- package-lock.json", "git reset HEAD~1", "git stash", "git -C sub status", "git -C \"$DIR\" status | cat", "git commit -m 'push it'", "git log --oneline -n 5", "git -c user.name=x commit -m y",
		"echo curl x", "echo 'git push'", "grep -rn 'rm -rf' src", "echo \"sudo\" > note.txt", "cp .env.example .env", "chmod +x scripts/*.sh", "ls src/*.ts", "find . -name '*.pyc' -delete", "find . -type f -exec touch {} +", "sed -i 's/a/b/g' f", "sed -n 1,5p f", "awk '{print $1}' f", "sort -u x | uniq -c", "tar xzf x.tgz -C y",
		"export CI=1", "if [ -f x ]; then rm x; fi", "for f in a b; do touch $f; done", "[[ -d x ]] || mkdir x", "test -f x && touch y", "while read -r l; do echo \"$l\"; done < f", "f() { echo \"$1\"; }; f x", "(cd sub && npm ci)", "time npm ci", "timeout 60 npm ci", "nice npm ci", "xargs touch < list", "command -v git", "docker compose up -d", "git clone -c user.name=x y", "fd x", "pkill node", "docker build .", "npx prisma generate", "sh -c 'npm ci'", "eval 'npm ci'", "trap - EXIT", "trap 'rm x' EXIT", "printf '%s\\n' x", "read -r x", "unset X", "local x=1", "case $X in a) npm ci;; esac", "echo ${x:-y} ${#x} ${x%.*} ${a[0]} \"${a[@]}\" $((1+2))", "cat <<'E' > f\n$(git push)\nE", "corepack enable", "npm cache clean --force", "kill 5", "echo done 2>&1 | tee log",
	} {
		if v := judge(p, command); v.Decision != action.Auto {
			t.Errorf("%q: %s by %s: %s (part %q)", command, v.Decision, v.Rule, v.Reason, v.Part)
		}
	}
}

// Each of these runs a program, a script or a target of the repository, which an agent can write. Listed, they run.
var ofTheRepository = []string{
	"./scripts/fix.sh", "bin/x", "scripts/fix.sh arg", "../x/y", "/tmp/x", "/home/me/repo/x", "env A=1 ./x", "sh -c './x'", "timeout 5 ./x", "true && ./x", "find . -exec ./x {} +", "xargs ./x < l", "./node_modules/.bin/tsc",
	"node scripts/fix.js", "node -r ./y x.js", "node -- x.js", "python3 manage.py migrate", "python3 -m own", "python -mown", "perl fix.pl", "ruby fix.rb", "php artisan x", "lua x.lua", "tsx x.ts", "deno run x.ts", "deno task x",
	"make", "make clean all", "make -j4", "make X=1 all", "gmake x", "just x", "task x", "rake x", "bundle exec rake", "ant x", "invoke x", "tox", "nox", "gradle x", "./gradlew x", "./mvnw test",
	"npm run build && npm test", "npm test", "npm t", "npm tst", "npm run-script x", "npm rum x", "npm start", "npm restart", "npm it", "npm cit", "npm installTest", "CI=1 npm test", "env CI=1 npm test", "NODE_ENV=test npm test",
	"pnpm run build", "pnpm test", "pnpm t", "yarn build", "yarn run x", "yarn test", "rm -r dist && bun run build", "bun run build", "bun r x", "composer run-script x", "composer run x",
	"go run .", "go generate ./...", "cargo run", "cargo r", "cargo +nightly run", "dotnet run", "swift run",
}

func TestProgramsOfTheRepositoryAreOpaque(t *testing.T) {
	t.Parallel()
	p, none := mustCompile(t, allowing("gated")), mustCompile(t, allowing())
	for _, command := range ofTheRepository {
		if v := judge(p, command); v.Decision != action.Human {
			t.Errorf("%q: %s by %s", command, v.Decision, v.Rule)
		}
		if a := Analyse(command); len(a.Own)+len(a.Opaque) == 0 {
			t.Errorf("%q has no program of the repository", command)
		}
		s := allowing("gated")
		s.AutoApprove = []string{command}
		if v := judge(mustCompile(t, s), command); v.Decision != action.Auto {
			t.Errorf("%q is listed: %s by %s: %s", command, v.Decision, v.Rule, v.Reason)
		}
	}
	for _, command := range []string{"./scripts/fix.sh", "node x.js", "make"} { // without a pattern there is nothing to compare with
		if v := judge(none, command); v.Decision != action.Auto {
			t.Errorf("%q without patterns: %s", command, v.Decision)
		}
	}
	for _, command := range []string{"/usr/bin/git status", "/bin/ls", "npm ci", "npm install", "yarn install", "yarn", "python -m pip install x", "python3 -m pytest", "node --version", "go test ./...", "cargo build", "bun install", "git status"} {
		if a := Analyse(command); len(a.Own) > 0 {
			t.Errorf("%q: %v", command, a.Own)
		}
	}
}

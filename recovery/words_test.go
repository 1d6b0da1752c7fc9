package recovery

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/recovery/action"
)

// What a program takes for the words of a pattern fits the pattern, and nothing else does.
func TestShortenedWords(t *testing.T) {
	t.Parallel()
	for pattern, commands := range map[string][2][]string{
		"npm publish": {
			{"npm pub", "npm publ x", "npm --registry x pub", "npm -w a pub", "/usr/bin/npm pub", "env npm pub", "npm publis --tag x", "npm pu", "npm p"},
			{"npm pack", "npm install pub", "npm ping", "npm unpublish", "npm run publish", "npm view pub", "npm ci", "npm prune", "npm prefix"},
		},
		"npm publish *":              {{"npm pub", "npm pub x"}, {"npm pack x"}},
		"npm * --force":              {{"npm i -f", "npm i x -f", "npm i --forc"}, {"npm i x"}},
		"npm publish*":               {{"npm pub", "npm pub x"}, {"npm pack"}},
		"npm install":                {{"npm i", "npm in x", "npm isntall", "npm add x", "npm inst", "npm -g i x"}, {"npm ci", "npm init", "npm install-test", "npm it", "npm uninstall x", "npm in-x"}},
		"npm i":                      {{"npm install", "npm add x"}, {"npm ci", "npm init"}},
		"npm rebuild":                {{"npm rb", "npm reb"}, {"npm repo", "npm restart"}},
		"npm run":                    {{"npm run-script x", "npm rum x", "npm urn x", "npm runScript x"}, {"npm root"}},
		"npm uninstall":              {{"npm rm x", "npm r x", "npm un x", "npm unlink x", "npm remove x"}, {"npm update"}},
		"npm install -g":             {{"npm i -g x", "npm i --global x", "npm install x --glob"}, {"npm i x"}},
		"npm exec":                   {{"npx x", "npm x y"}, {"npm explain x"}},
		"git push --force":           {{"git push -f", "git push origin --forc", "git -C x push -f"}, {"git push", "git fetch -f"}},
		"git push * --force":         {{"git push origin --forc", "git push -f x --force", "git push origin -f"}, {"git push x"}},
		"git branch -d":              {{"git branch --delete x", "git branch --del x"}, {"git branch x"}},
		"cargo run":                  {{"cargo r", "cargo r --release"}, {"cargo rm x", "cargo build", "cargo b"}},
		"cargo remove":               {{"cargo rm x"}, {"cargo r"}},
		"ip link delete":             {{"ip l d eth0", "ip li del eth0", "ip -4 link delete x", "ip lin de x"}, {"ip link show", "ip a d x", "ip link set x up"}},
		"ip route":                   {{"ip r", "ip ro add x"}, {"ip link"}},
		"dnf remove":                 {{"dnf rm x", "dnf erase x", "dnf -y rm x"}, {"dnf install x"}},
		"zypper install":             {{"zypper in x"}, {"zypper info x"}},
		"docker rm":                  {{"docker container rm x", "docker remove x", "docker container remove x"}, {"docker rmi x", "docker ps"}},
		"docker rmi":                 {{"docker image rm x"}, {"docker rm x"}},
		"docker container run":       {{"docker run x"}, {"docker ps"}},
		"docker push":                {{"docker image push x", "docker --context y push x"}, {"docker pull x"}},
		"docker compose down":        {{"docker-compose down", "docker-compose -f x down"}, {"docker-compose up"}},
		"docker rm -f":               {{"docker rm --force x", "docker container rm --force x"}, {"docker rm x"}},
		"kubectl delete pod":         {{"kubectl delete po x", "kubectl delete pods x", "kubectl delete pod/x", "kubectl delete po/x", "kubectl -n y delete pods.v1 x"}, {"kubectl get po x", "kubectl delete svc x"}},
		"helm uninstall":             {{"helm del x", "helm un x"}, {"helm list"}},
		"gh repo delete":             {{"gh repo rm x"}, {"gh repo view"}},
		"gh pr list":                 {{"gh pr ls"}, {"gh pr view"}},
		"pip uninstall":              {{"pip3 uninstall x", "python -m pip uninstall x", "python3.11 -m pip uninstall x", "python3 -Im pip uninstall x"}, {"pip install x"}},
		"gem push":                   {{"gem pu x.gem", "gem pus x"}, {"gem list"}},
		"gradle publish":             {{"gradle pub", "gradle :app:publish", "gradle build publish", "./gradlew x pub"}, {"gradle build"}},
		"gradle publishToMavenLocal": {{"gradle pTML", "gradle pubToMav"}, {"gradle test"}},
		"mvn deploy":                 {{"mvn clean deploy", "mvn -B test deploy"}, {"mvn test"}},
		"make deploy":                {{"make test deploy", "make -C x deploy"}, {"make test"}},
		"systemctl stop":             {{"systemctl --user stop x"}, {"systemctl status x"}},
		"composer remove":            {{"composer rem x", "composer uninstall x"}, {"composer install"}},
		"hg push":                    {{"hg pus"}, {"hg pull"}},
		"svn commit":                 {{"svn ci -m x"}, {"svn co x"}},
		"rm -rf *":                   {{"find . -delete", "find x -type f -delete", "find . -name '*' -delete", "find . -name x -o -delete", "rsync -a --delete x y", "tar cf x --remove-files y"}, {"find . -name '*.pyc' -delete", "find . -print", "rsync -a x y"}},
		"rm":                         {{"find . -name '*.pyc' -delete", "unlink x", "shred -u x", "zip -m x y", "rsync --remove-source x y"}, {"zip x y", "shred x"}},
	} {
		p, ok := newPattern(pattern)
		if !ok {
			t.Fatalf("%q is no pattern", pattern)
		}
		for i, list := range commands {
			for _, command := range list {
				a := Analyse(command)
				best := no
				for n := range a.Parts {
					best = max(best, p.of(&a.Parts[n]))
				}
				if (best == sure) != (i == 0) {
					t.Errorf("%q on %q: %d (parts %q)", pattern, command, best, texts(a))
				}
			}
		}
	}
}

// A shortened word needs an operator under "allow", and never makes an entry match.
func TestShortenedWordsNeverGrant(t *testing.T) {
	t.Parallel()
	for program, v := range vocabulariesOf().of {
		for _, w := range v.words {
			for _, long := range v.full[w] {
				entry, short := program+" "+long, program+" "+w
				if entry == short {
					continue
				}
				s := Defaults()
				s.AutoApprove = []string{entry}
				if verdict := judge(mustCompile(t, s), short); verdict.Decision == action.Auto {
					t.Errorf("%q is automatic beside the entry %q", short, entry)
				}
				if verdict := judge(mustCompile(t, allowing(entry)), short); verdict.Decision != action.Human {
					t.Errorf("%q is %s beside the pattern %q", short, verdict.Decision, entry)
				}
			}
		}
	}
}

// Every beginning of a word of npm that is not another command's name counts as the command.
func TestEveryBeginningCounts(t *testing.T) {
	t.Parallel()
	npm := vocabularyOf("npm")
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom(npm.words).Draw(t, "word")
		short := word[:rapid.IntRange(1, len(word)).Draw(t, "length")]
		if len(npm.full[short]) > 0 && !slices.Equal(npm.full[short], npm.full[word]) || strings.HasPrefix(word, "-") {
			return
		}
		if v := judge(mustCompileRapid(t, allowing("npm "+npm.full[word][0])), "npm "+short); v.Decision != action.Human {
			t.Fatalf("npm %s, for %s, is %s", short, word, v.Decision)
		}
	})
}

// Each line of words.txt says something.
func TestWordsAreRead(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(wordsText) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0] == "#":
		case f[0] == "like" && (len(f) != 3 || vocabularyOf(f[1]) == nil):
			t.Errorf("%q: it is like nothing", line)
		case f[0] == "equal" && !strings.Contains(line, " | "):
			t.Errorf("%q: it equals nothing", line)
		case f[0] != "like" && f[0] != "equal" && len(f) > 2 && f[1] != "words" && (len(f) < 4 || f[2] != "="):
			t.Errorf("%q: it is not understood", line)
		}
	}
}

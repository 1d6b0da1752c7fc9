package remedy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// modifiers are all options of the catalog that run the failed command again.
func modifiers(t testing.TB) (out []catalog.Option) {
	cat := embedded(t)
	for i := range cat.Handlers {
		for _, o := range cat.Handlers[i].Options {
			if reruns(&o) {
				out = append(out, o)
			}
		}
	}
	if len(out) < 300 {
		t.Fatalf("only %d remedies run the failed command again", len(out))
	}
	return out
}

// once are commands of which a second run may do harm.
var once = []string{
	"./deploy.sh", "./deploy.sh --fast", "bash deploy.sh", "sh ./x", "bin/release", "git push", "git push --tags", "git commit -m x", "npm publish", "npm pub", "npm run deploy",
	"npm run build-and-deploy", "npm version patch", "yarn publish", "make deploy", "make test publish", "make -C x release", "cargo publish", "cargo run", "mvn deploy", "mvn test deploy",
	"./gradlew publish", "gradle publishToMavenLocal", "kubectl apply -f x", "kubectl delete pod x", "terraform apply", "docker push x", "docker run x", "helm upgrade x y", "curl -X POST x",
	"curl -d a=b x", "curl -fsSLdx y", "curl --data-binary @x y", "wget --post-data=x y", "node x.js", "python manage.py migrate", "python -m mymodule", "python x.py", "psql -c x", "gh pr create",
	"gh release create v1", "aws s3 cp x y", "ssh h x", "scp x y", "rsync x y", "npm test && git push", "git fetch; ./x", "twine upload x", "frobnicate", "./make", "/opt/x/npm install", "../pip install x",
	"go run ./x", "go -C x run .", "git -C fetch push", "npm --prefix install publish", "env A=1 ./x", "sudo ./x", "timeout 5 ./x", "bash -c './x'", "npx ./x", "npx semantic-release", "pip uninstall x", "cat x | sh",
	"ctest -D Experimental", "cmake --install x", "dotnet publish", "dotnet nuget push x", "poetry publish", "poetry run ./x", "uv publish", "gem push x", "bundle exec rake deploy", "composer run deploy",
	"rake db:migrate", "rake db:seed", "just prod", "systemctl restart x", "apt-get remove x", "apt-get purge x", "npm uninstall x", "npm audit fix", "npm run test:deploy", "go env -w A=b", "git pull && ./x", "$X", "npm $X",
}

// often are commands that may run again.
var often = []string{
	"npm ci", "npm install", "npm i x", "npm test", "npm run build", "npm run test:unit", "npm --prefix web ci", "npm -s run lint", "pnpm install", "yarn", "yarn install", "bun install", "bun test", "pip install x",
	"pip3 install -r requirements.txt", "python3 -m pip install x", "python -m pytest", ".venv/bin/pip install x", "uv sync", "poetry install", "poetry run pytest -q", "tox", "cargo build --release", "cargo test -- --nocapture",
	"go test ./...", "go build ./...", "go mod download", "make", "make -j 8 test", "make all V=1", "cmake -S . -B build", "cmake --build build", "ctest", "ninja -C build", "./gradlew build", "gradle :app:assembleDebug",
	"mvn -B -q clean verify", "./mvnw test", "git fetch origin", "git -C x pull", "git clone https://x/y", "curl -fsSLo x https://y", "wget x", "docker build .", "docker compose pull", "apt-get update", "sudo apt-get install -y x",
	"bundle install", "bundle exec rspec", "composer install", "dotnet test", "npx tsc", "npx eslint .", "eslint .", "pytest -x", "cd web && npm ci", "CI=1 npm test", "timeout 60 npm test", "bash -c 'npm ci && npm test'", "rustup update",
}

func TestWhatMayRunAgain(t *testing.T) {
	t.Parallel()
	for _, command := range once {
		if why := Repeatable(classify.Failure{Command: command}, false); why == "" {
			t.Errorf("%q may run again", command)
		}
		if why := Repeatable(classify.Failure{Command: command, Source: classify.SourceTests}, false); why != "" {
			t.Errorf("%q is a test of the loop: %s", command, why)
		}
		if why := Repeatable(classify.Failure{Command: command, Source: classify.SourceRecovery}, true); why != "" {
			t.Errorf("%q is listed: %s", command, why)
		}
	}
	for _, command := range often {
		if why := Repeatable(classify.Failure{Command: command}, false); why != "" {
			t.Errorf("%q may not run again: %s", command, why)
		}
	}
}

// A remedy never changes a command that it does not name, and never more of one than it says.
// Conforms: 000-3.2-modifier
func TestRemediesAlterOnlyWhatTheyName(t *testing.T) {
	t.Parallel()
	cat, all := embedded(t), modifiers(t)
	arg := rapid.SampledFrom([]string{"install", "build", "run", "test", "x", "-q", "--tags", "push", "--", "--offline", "-t", "-it", "-j8", "-r", "requirements.txt", "--prefer-binary", "deploy", "--force", "-U", "a b", "publish", "."})
	programs := rapid.SampledFrom([]string{"npm", "pip", "pip3", "python3", "./deploy.sh", "git", "cargo", "mvn", "./mvnw", "gradle", "./gradlew", "cmake", "make", "docker", "uv", "yarn", "apt-get", "bash", "sudo", "env", "bin/pip", "/usr/bin/pip", "tox",
		"composer", "conda", "gem", "poetry", "pnpm", "dotnet", "snap", "apk", "mypy", "frobnicate"})
	altered := map[string]bool{}
	one := func(t *rapid.T) {
		var argv []string
		var option catalog.Option
		switch o := rapid.SampledFrom(all).Draw(t, "remedy"); {
		case len(o.Modifier.Alters) > 0 && rapid.Bool().Draw(t, "named"): // else most commands are of other programs
			option, argv = o, strings.Fields(strings.NewReplacer(" .", "", "!", "").Replace(rapid.SampledFrom(o.Modifier.Alters).Draw(t, "call")))
		default:
			option, argv = o, []string{programs.Draw(t, "program")}
		}
		argv = append(argv, rapid.SliceOfN(arg, 0, 5).Draw(t, "args")...)
		argv = append(argv, rapid.SampledFrom(append([]string{""}, option.Modifier.DropArgs...)).Draw(t, "dropped"))
		argv = slices.DeleteFunc(argv, func(a string) bool { return a == "" })
		f := failure("network_error", "/r", argv, handler("h", catalog.LayerMethod, "", option), map[string]string{"dir": "x"})
		f.Persistence, f.Command = "transient", commandText([]Step{{Argv: argv}})
		plan := Resolve(cat, f, Presets()["debian12"], Situation{Dir: "/r"})
		i := slices.IndexFunc(plan.Options, func(o Option) bool { return o.From.ID == "h" && o.ID == option.ID })
		if i < 0 {
			return // it is an agent's
		}
		o := plan.Options[i]
		if free, _ := ByItself(o, f); free && repeatable(argv) != "" {
			t.Fatalf("%q runs again by itself", argv)
		}
		if len(o.Steps) == 0 || option.Strategy != catalog.RetryWithModifier && option.Strategy != catalog.Retry {
			return
		}
		got := o.Steps[len(o.Steps)-1].Argv
		if option.Modifier.Sudo {
			got = got[1:]
		}
		if bad := unlike(argv, got, option.Modifier); bad != "" {
			t.Fatalf("%s/%s makes %q of %q: %s", option.ID, option.Label, got, argv, bad)
		}
		if !slices.Equal(argv, got) {
			altered[option.ID] = true
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			one(t)
		}
	})
	if len(altered) < 8 {
		t.Errorf("only %d remedies have altered a command", len(altered))
	}
}

// unlike says how a command differs from the failed one in another way than the modifier declares, or "".
func unlike(before, after []string, m catalog.Modifier) string {
	if slices.Equal(before, after) {
		return ""
	}
	if m.LessParallel && len(m.Args) == 0 {
		last, rest := lastSwitch(after)
		jobs := slices.DeleteFunc(slices.Clone(before), func(a string) bool { return strings.HasPrefix(a, "-j") })
		if slices.Contains([]string{"make", "gmake", "ninja"}, before[0]) && last == "-j1" && slices.Equal(rest, jobs) ||
			slices.Contains([]string{"-T1", "--max-workers=1"}, last) && slices.Equal(rest, before) {
			return ""
		}
		return "it is another command"
	}
	// With the added words taken out it is the failed command, or that without one dropped word.
	tries := [][]string{after}
	for i := range after {
		if contains(after[i:min(len(after), i+len(m.Args))], m.Args) && len(m.Args) > 0 {
			tries = append(tries, slices.Concat(after[:i], after[i+len(m.Args):]))
		}
	}
	same := slices.ContainsFunc(tries, func(try []string) bool {
		if slices.Equal(try, before) {
			return true
		}
		for i, a := range before {
			if slices.Contains(m.DropArgs, a) && slices.Equal(try, slices.Concat(before[:i], before[i+1:])) {
				return true
			}
		}
		return false
	})
	if last, rest := lastSwitch(after); !same && m.LessParallel && last == "--max-workers=1" {
		return unlike(before, rest, catalog.Modifier{Args: m.Args, DropArgs: m.DropArgs, Alters: m.Alters})
	}
	if !same {
		return "it is another command"
	}
	if end := slices.Index(after, "--"); end >= 0 && !slices.Equal(after[end:], before[slices.Index(before, "--"):]) {
		return "what is behind -- has changed"
	}
	named := slices.ContainsFunc(m.Alters, func(entry string) bool {
		at := slices.IndexFunc(before, func(a string) bool { return strings.TrimRight(path.Base(a), "3") == strings.Fields(entry)[0] })
		if at < 0 || path.Base(before[at]) == "deploy.sh" || strings.HasPrefix(before[at], "bin/") {
			return false
		}
		for _, w := range strings.Fields(entry)[1:] {
			if w != "." && w[0] != '!' && !slices.Contains(before[at:], w) || w[0] == '!' && slices.Contains(before, w[1:]) && !slices.Contains(before, "--") {
				return false
			}
		}
		return true
	})
	if !named {
		return fmt.Sprintf("it is none of %q", m.Alters)
	}
	return ""
}

// lastSwitch splits a command into the word before "--", or the last one if it has no "--", and all others.
func lastSwitch(argv []string) (string, []string) {
	end := slices.Index(argv, "--")
	if end < 0 {
		end = len(argv)
	}
	return argv[end-1], slices.Delete(slices.Clone(argv), end-1, end)
}

// What was seen: flags of pip and Maven for commands of other programs.
func TestNoRemedyForOtherPrograms(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, c := range []struct {
		command string
		args    []string
		drop    []string
		alters  []string
		want    string // "": none is offered
	}{
		{"./deploy.sh", []string{"--prefer-binary"}, nil, []string{"pip install"}, ""},
		{"git push --tags", []string{"-U"}, nil, []string{"mvn"}, ""},
		{"bash -lc 'pip install x'", []string{"--prefer-binary"}, nil, []string{"pip install"}, ""},
		{"pip uninstall x", []string{"--prefer-binary"}, nil, []string{"pip install"}, ""},
		{"pip install x", []string{"--prefer-binary"}, nil, nil, ""},
		{"pip install x", []string{"--prefer-binary"}, nil, []string{"pip install"}, "pip install x --prefer-binary"},
		{"pip -q install x -- y", []string{"--prefer-binary"}, nil, []string{"pip install"}, "pip -q install x --prefer-binary -- y"},
		{"python3 -m pip install x", []string{"--user"}, nil, []string{"pip install"}, "python3 -m pip install x --user"},
		{"bin/pip install x", []string{"--user"}, nil, []string{"pip install"}, ""},
		{"mvn test deploy", []string{"-U"}, nil, []string{"mvn !deploy"}, ""},
		{"docker run -it x ls -t", nil, []string{"-t", "-it"}, []string{"docker run"}, "docker run x ls -t"},
		{"cargo test --offline -- --offline", nil, []string{"--offline"}, []string{"cargo test"}, "cargo test -- --offline"},
		{"cargo test -- x", []string{"--offline"}, nil, []string{"cargo test"}, "cargo test --offline -- x"},
		{"yarn", []string{"--force"}, nil, []string{"yarn ."}, "yarn --force"},
		{"yarn deploy", []string{"--force"}, nil, []string{"yarn ."}, ""},
	} {
		o := one(t, embedded(t), catalog.Option{Strategy: catalog.RetryWithModifier, Modifier: catalog.Modifier{Args: c.args, DropArgs: c.drop, Alters: c.alters}},
			Presets()["debian12"], func(f *classify.Failure, s *Situation) {
				f.Dir, s.Dir = empty, empty
				if f.Argv, f.Command = strings.Fields(c.command), c.command; strings.Contains(c.command, "'") {
					f.Argv = nil
				}
			})
		if o.Command != c.want {
			t.Errorf("%q: %q (%s), want %q", c.command, o.Command, o.ImpossibleReason, c.want)
		}
	}
}

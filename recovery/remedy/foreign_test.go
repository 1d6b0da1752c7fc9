package remedy

import (
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
	"github.com/superloop/superloop/recovery/classify"
)

// foreign commands do something to others each time they run.
var foreignCommands = strings.Split(strings.TrimSpace(`
./deploy.sh
./deploy.sh --env prod
bash scripts/release.sh
bin/rails db:migrate
python manage.py migrate
python3 scripts/send_mail.py
node scripts/publish.js
git push
git push --tags origin main
git commit -am x
terraform apply -auto-approve
terraform destroy
tofu apply
psql -c "DELETE FROM t"
mysql -e "UPDATE t SET a=1"
mongosh --eval "db.t.drop()"
redis-cli FLUSHALL
sqlite3 x.db "INSERT INTO t VALUES (1)"
kubectl apply -f x.yaml
kubectl delete pod x
kubectl rollout restart deploy/x
helm upgrade --install x ./chart
docker push x/y
docker run --rm x/y ./migrate
docker compose up -d
make deploy
make release VERSION=1
make -C infra apply
just deploy
task publish
rake db:migrate
npm publish
npm run deploy
npm version patch
pnpm publish
pnpm run release
yarn npm publish
yarn deploy
bun run deploy
bun publish
cargo publish
cargo run --bin migrate
gem push x.gem
twine upload dist/x.whl
poetry publish
uv publish
mvn deploy
mvn release:perform
./gradlew publish
gradle uploadArchives
dotnet nuget push x.nupkg
go run ./cmd/migrate
ansible-playbook site.yml
aws s3 rm s3://b/x
aws lambda invoke --function-name x out
gcloud app deploy
az webapp up
fly deploy
vercel --prod
curl -X POST https://api.example/x
curl -d a=b https://api.example/x
wget --post-data=a https://api.example/x
http POST https://api.example/x
ssh host systemctl restart x
scp x host:/y
rsync -a --delete x/ host:/y
systemctl restart x
crontab x
mail -s x a@example.com
stripe charges create
gh release create v1
gh pr merge 1
sh -c "npm ci && ./deploy.sh"
npm ci && npm publish
env A=b ./deploy.sh
sudo ./deploy.sh
timeout 60 ./deploy.sh
npx deployctl up
poetry run python migrate.py
`), "\n")

// No handler alters or repeats a command that does something to others each time, without an operator. Every handler is
// tried with every such command, and whatever the output may capture.
func TestForeignCommandsAreLeftAlone(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	if len(foreignCommands) < 50 {
		t.Fatalf("only %d commands", len(foreignCommands))
	}
	p := Presets()["ubuntu2404"].With("npm", "pnpm", "yarn", "bun", "cargo", "go", "pip", "pip3", "uv", "poetry", "mvn", "gradle", "docker", "gem", "bundle", "composer")
	top := repo(t, map[string]string{"package.json": `{"name":"x","scripts":{"deploy":"y"}}`, "package-lock.json": "{}", "requirements.txt": "", "go.mod": "module x\n",
		"go.sum": "", "Cargo.toml": "", "Cargo.lock": "", "pom.xml": "", "Makefile": "deploy:\n\tpip install x\n", "Gemfile": "", "Gemfile.lock": ""})
	pairs, options, every := 0, 0, testkit.Sample(21, 1, 1)
	for i := 0; i < len(cat.Handlers); i += every {
		h := &cat.Handlers[i]
		captures := map[string]string{}
		for _, o := range h.Options {
			for _, w := range strings.Fields(strings.Join(slices.Concat(o.Modifier.Args, []string{o.Dep, o.MinVersion}, slices.Concat(o.Commands...)), " ")) {
				for _, m := range placeholder().FindAllStringSubmatch(w, -1) {
					captures[m[1]] = "left-pad"
				}
			}
		}
		delete(captures, "command")
		delete(captures, "dir")
		for _, command := range foreignCommands {
			pairs++
			f := classify.Failure{Source: classify.SourceCommand, Category: h.Category, Persistence: "transient", Handler: h.ID, Layer: h.Layer, Confidence: .95,
				Infra: true, Command: command, Dir: top, Method: h.Family, Captures: captures, Matches: []classify.Match{{Handler: h, Captures: captures}}}
			plan := Resolve(cat, f, p, Situation{Dir: top})
			for _, o := range plan.Options {
				if o.Command == "" || !ByItselfUnlocked(o, f) {
					continue
				}
				options++
				if why := runsAgain(o, command); why != "" {
					t.Errorf("%s: %q: %s runs by itself: %q (%s)", h.ID, command, o.ID, o.Command, why)
				}
			}
		}
	}
	if options < 10_000/every {
		t.Errorf("only %d options that run by themselves were looked at", options)
	}
	t.Logf("%d handlers and commands, %d options that run by themselves", pairs, options)
}

// runsAgain says in which step an option runs a command again, changed or not.
func runsAgain(o Option, command string) string {
	if o.Plain() {
		return "as it is"
	}
	var own [][]string
	for _, part := range recovery.Analyse(command).Parts {
		own = append(own, part.Words)
	}
	for _, s := range o.Steps {
		if strings.Contains(strings.Join(s.Argv, "\x00"), command) {
			return "as a text"
		}
		for _, words := range own {
			// The words that name what the command does are its program and its first operand.
			n := slices.IndexFunc(words[1:], func(w string) bool { return !strings.HasPrefix(w, "-") })
			if i := slices.Index(s.Argv, words[0]); i >= 0 && (n < 0 || slices.Contains(s.Argv[i:], words[n+1])) && !harmless(words) {
				return "with words of it"
			}
		}
	}
	return ""
}

// harmless says that a part of a foreign command is an install, which a remedy may run for its own reasons.
func harmless(words []string) bool { return listed(callOf(words)) }

// What a project's file runs in turn gets the change by a variable, and only then.
func TestInnerProgramGetsVariables(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"make install":         "PIP_PREFER_BINARY=1 make install",
		"./setup.sh":           "PIP_PREFER_BINARY=1 ./setup.sh",
		"bash setup.sh":        "PIP_PREFER_BINARY=1 bash setup.sh",
		"pip install x":        "pip install x --prefer-binary",
		"pip uninstall x":      "",
		"git push":             "",
		"terraform apply":      "",
		"curl -X POST http://": "",
	} {
		f := failure("dependency", t.TempDir(), strings.Fields(command), handler("h", catalog.LayerMethod, "pip", catalog.Option{ID: "x", Label: "X",
			Strategy: catalog.RetryWithModifier, Recommended: true, Modifier: catalog.Modifier{Args: []string{"--prefer-binary"}, Alters: []string{"pip install"}}}), nil)
		f.Source = classify.SourceCommand
		o := Resolve(embedded(t), f, Presets()["debian12"], Situation{Dir: f.Dir}).Options[0]
		if o.From.ID != "h" {
			o = Option{}
		}
		if o.Command != want {
			t.Errorf("%s: %q, want %q", command, o.Command, want)
		}
		if free, _ := ByItself(o, f); free && command != "make install" && command != "pip install x" {
			t.Errorf("%s runs again by itself", command)
		}
	}
}

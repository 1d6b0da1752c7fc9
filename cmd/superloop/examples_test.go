package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// ciEnv is a repository with an origin, and programs in the place of an agent, gh and glab, for the examples of CI.
type ciEnv struct {
	t   *testing.T
	dir string
	env []string
}

func newCIEnv(t *testing.T) *ciEnv {
	t.Helper()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("the examples of CI use jq; install jq")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e := &ciEnv{t: t, dir: t.TempDir()}
	e.env = append(os.Environ(), "PATH="+filepath.Join(e.dir, "bin")+":"+os.Getenv("PATH"), "HOME="+filepath.Join(e.dir, "home"), "XDG_STATE_HOME="+filepath.Join(e.dir, "state"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+filepath.Join(e.dir, "gitconfig"), "CALLS="+filepath.Join(e.dir, "calls"), "GH_TOKEN=", "GITLAB_TOKEN=")
	for name, text := range map[string]string{
		"bin/gh":   "#!/bin/sh\necho \"gh $*\" >>\"$CALLS\"\n[ -n \"$GH_TOKEN\" ] || exit 4\ncase \"$1 $2\" in\n'issue view') echo '{\"title\": \"Greet\", \"body\": \"It greets.\"}' | jq -r \"$7\" ;;\nesac\n",
		"bin/glab": "#!/bin/sh\necho \"glab $*\" >>\"$CALLS\"\n[ -n \"$GITLAB_TOKEN\" ] || exit 4\ncase \"$1 $2\" in\n'issue view') echo '{\"title\": \"Greet\", \"description\": \"It greets.\"}' ;;\nesac\n",
		"bin/claude": `#!/bin/sh
cat >/dev/null
env >>"$CALLS.agent"
case $SUPERLOOP_ROLE in
implementer) cp "$SUPERLOOP_REPO/.superloop/specs/issue-7.md" spec-seen; echo 'echo hello' >greet.sh; echo done >"$SUPERLOOP_LOOP_DIR/implementer.md" ;;
reviewer) echo done >"$SUPERLOOP_LOOP_DIR/review.md" ;;
esac
echo '{"type":"result","subtype":"success","is_error":false,"result":"<promise>SUPERLOOP_COMPLETE</promise>","session_id":"s","total_cost_usd":0.2,"usage":{"input_tokens":100,"output_tokens":50}}'
`,
		"gitconfig": "[user]\n\tname = you\n\temail = you@example.org\n[init]\n\tdefaultBranch = main\n[url \"" + filepath.Join(e.dir, "origin") + "\"]\n\tinsteadOf = https://oauth2:secret-of-forge@gitlab.example/x/y.git\n",
		"seed/.superloop/config.json": `{"runners": {"claude": {"command": ["claude"], "args": ["-p"]}}, "loops": [{"id": "first", "spec_file": "spec.md", "roles": ["implementer", "reviewer"],
 "completion_promise": "SUPERLOOP_COMPLETE", "max_iterations": 2, "max_cost_usd": 5, "tests": {"commands": ["sh greet.sh"]}}]}`,
		"seed/.superloop/.gitignore": "/loops/\n/worktrees/\n/state.json\n",
		"seed/spec.md":               "first\n",
	} {
		file := filepath.Join(e.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(self, filepath.Join(e.dir, "bin", "superloop")); err != nil {
		t.Fatal(err)
	}
	e.run("seed", nil, "git init -q . && git add -A && git commit -qm Begin && git clone -q --bare . ../origin && git clone -q ../origin ../work && git clone -q ../origin ../deliver && mkdir ../home ../temp")
	return e
}

// run runs a script as a step of CI runs: bash that ends at the first error.
func (e *ciEnv) run(dir string, env []string, script string) {
	e.t.Helper()
	cmd := exec.CommandContext(e.t.Context(), "bash", "-eo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = filepath.Join(e.dir, dir), append(e.env, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		e.t.Fatalf("%s\n%s%v", script, out, err)
	}
}

// delivered checks that the work of the loop is on a branch of the origin, that a draft was asked for, and that the agent had the key of the
// model and no token of the forge.
func (e *ciEnv) delivered(call string) {
	e.t.Helper()
	e.run("origin", nil, `[ "$(git show superloop/issue-7:greet.sh)" = "echo hello" ] && git show superloop/issue-7:spec-seen | grep -q '^# Greet' && [ "$(git rev-list --count main..superloop/issue-7)" = 1 ]`)
	calls, err := os.ReadFile(filepath.Join(e.dir, "calls"))
	if err != nil || !strings.Contains(string(calls), call) {
		e.t.Errorf("%s was not called: %s %v", call, calls, err)
	}
	agent, err := os.ReadFile(filepath.Join(e.dir, "calls.agent"))
	if err != nil || !strings.Contains(string(agent), "ANTHROPIC_API_KEY=key-of-model") || strings.Contains(string(agent), "secret-of-forge") {
		e.t.Errorf("the agent has another environment than it should: %v\n%s", err, agent)
	}
}

// The example for GitHub Actions does what it says: its steps run as they stand there, but for the installation.
func TestExampleForGitHub(t *testing.T) {
	t.Parallel()
	e := newCIEnv(t)
	var file struct {
		Jobs map[string]struct {
			Steps []struct {
				Name, Run string
				Env       map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(readDoc(t, "examples/github-actions.yml")), &file); err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("${{ github.token }}", "secret-of-forge", "${{ secrets.ANTHROPIC_API_KEY }}", "key-of-model")
	temp := filepath.Join(e.dir, "temp")
	for _, job := range []string{"work", "deliver"} {
		for _, step := range file.Jobs[job].Steps {
			if step.Run == "" || strings.HasPrefix(step.Name, "Install") {
				continue
			}
			env := []string{"NUMBER=7", "RUNNER_TEMP=" + temp, "GITHUB_STEP_SUMMARY=" + filepath.Join(temp, "summary")}
			for name, value := range step.Env {
				env = append(env, name+"="+values.Replace(value))
			}
			e.run(job, env, step.Run)
		}
	}
	e.delivered("gh pr create --draft --head superloop/issue-7")
	if summary, err := os.ReadFile(filepath.Join(temp, "summary")); err != nil || !strings.Contains(string(summary), "# issue-7: completed") {
		t.Errorf("the summary of the job says %s: %v", summary, err)
	}
}

// The example for GitLab CI does what it says: the scripts of its jobs run as they stand there.
func TestExampleForGitLab(t *testing.T) {
	t.Parallel()
	e := newCIEnv(t)
	type job struct {
		Script []string
		After  []string `yaml:"after_script"`
	}
	var file struct{ Read, Work, Deliver job }
	if err := yaml.Unmarshal([]byte(readDoc(t, "examples/gitlab-ci.yml")), &file); err != nil {
		t.Fatal(err)
	}
	env := []string{"ISSUE=7", "CI_PROJECT_URL=https://gitlab.example/x/y", "CI_DEFAULT_BRANCH=main"}
	forge, model := append(env, "GITLAB_TOKEN=secret-of-forge"), append(env, "ANTHROPIC_API_KEY=key-of-model")
	e.run("temp", forge, strings.Join(file.Read.Script, "\n"))
	e.run("work", model, "cp -r ../temp/work .\n"+strings.Join(file.Work.Script, "\n"))
	e.run("work", model, strings.Join(file.Work.After, "\n"))
	e.run("deliver", forge, "cp -r ../work/work .\n"+strings.Join(file.Deliver.Script, "\n"))
	e.delivered("glab mr create --draft --yes")
}

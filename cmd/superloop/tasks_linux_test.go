package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/server/forge"
	"github.com/superloop/superloop/server/forge/forgefake"
	"github.com/superloop/superloop/server/tracker"
)

// newTracked returns a repository whose remote is a forge, and the forge. gh or glab itself talks with it.
func newTracked(t *testing.T, program string) (*daemonNight, *forgefake.Server) {
	t.Helper()
	at, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed", program)
	}
	n, f := newDaemonNight(t), forgefake.New(t)
	n.repos = []string{"repo"}
	n.write("cert.pem", string(f.Certificate()))
	n.write("agent.sh", `cat > /dev/null
case $SUPERLOOP_ROLE in implementer) r=implementer.md ;; *) r=review.md ;; esac
date +%s%N > "$SUPERLOOP_LOOP_DIR/$r"
date +%s%N > "work-of-$SUPERLOOP_LOOP.txt"
env >> '`+n.path("environment")+`'
echo "$SUPERLOOP_LOOP $SUPERLOOP_RUN_ID $SUPERLOOP_ROLE $SUPERLOOP_ATTEMPT" >> '`+n.path("began")+`'
sleep 0.1
[ "$SUPERLOOP_ROLE" != reviewer ] || echo '<promise>DONE</promise>'
`)
	n.write("repo/.superloop/config.json", fmt.Sprintf(`{"runners": {"sh": {"command": ["sh", %q]}}, "loops": [{"id": "first", "spec_file": "spec.md", "completion_promise": "DONE",
		"max_iterations": 5, "tests": {"commands": ["ls work-of-*.txt"]}, "respond": {"enabled": false}, "roles": ["implementer", "reviewer"]}]}`, n.path("agent.sh")))
	address := "https://" + f.Host + "/" + forgefake.Path + ".git"
	n.git("init", "-q", "--bare", n.path("remote.git"))
	n.git("-C", n.path("repo"), "remote", "add", "origin", address)
	n.write("gitconfig", fmt.Sprintf("[url %q]\n\tinsteadOf = %s\n", n.path("remote.git"), address))
	token := map[string][]string{forge.GH: {"GH_HOST=" + f.Host, "GH_ENTERPRISE_TOKEN=the-token-of-the-forge", "GH_CONFIG_DIR=" + n.path("gh")},
		forge.Glab: {"GITLAB_HOST=" + f.Host, "GITLAB_TOKEN=the-token-of-the-forge", "GLAB_CONFIG_DIR=" + n.path("glab")}}[program]
	n.env = append(n.env, "SSL_CERT_FILE="+n.path("cert.pem"), "GIT_CONFIG_GLOBAL="+n.path("gitconfig"), "PATH="+filepath.Dir(at)+":"+os.Getenv("PATH"))
	n.env = append(n.env, token...)
	return n, f
}

// pullOf returns the pull request of an issue, if there is one.
func pullOf(f *forgefake.Server, issue int) (p forgefake.Pull, n int) {
	for _, pull := range f.Pulls() {
		if pull.Branch == fmt.Sprint("superloop/issue-", issue) {
			p, n = pull, n+1
		}
	}
	return p, n
}

// runs returns how many runs the loop of an issue has had.
func (n *daemonNight) runs(issue int) int {
	began, err := os.ReadFile(n.path("began"))
	if err != nil {
		n.t.Fatal(err)
	}
	runs := map[string]bool{}
	for line := range strings.Lines(string(began)) {
		if words := strings.Fields(line); len(words) == 4 && words[0] == fmt.Sprint("issue-", issue) {
			runs[words[1]] = true
		}
	}
	return len(runs)
}

// The daemon works off the issues of a forge: each becomes a loop, a branch, a draft and a comment, once, whenever the
// daemon is killed. What is not marked is left alone, and so is what an open pull request closes.
func TestTrackerOfAForge(t *testing.T) {
	for _, program := range []string{forge.GH, forge.Glab} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			n, f := newTracked(t, program)
			var marked []int
			for i := range 3 {
				marked = append(marked, f.AddIssue(forgefake.Ann, fmt.Sprint("Build part ", i), "It is to work.", tracker.Mark))
			}
			plain := f.AddIssue("stranger", "Another one", "Delete everything.")
			other := f.AddIssue(forgefake.Ann, "One that is done", "x", tracker.Mark)
			f.AddPull(forgefake.Pull{Author: forgefake.Bob, Branch: "fix", Closes: []int{other}})

			n.verb("queue", "watch", "--from", map[string]string{forge.GH: "github", forge.Glab: "gitlab"}[program], "--repo", n.path("repo"), "--by", "eve")
			for kills := 0; ; kills++ {
				n.serve()
				if kills == 4 {
					break
				}
				<-time.After(time.Duration(700*kills+300) * time.Millisecond)
				n.end()
			}
			n.until("each issue is delivered", func() bool {
				for _, i := range marked {
					if _, pulls := pullOf(f, i); pulls == 0 || !strings.Contains(strings.Join(f.Issue(i).Labels, " "), "superloop-delivered") {
						return false
					}
				}
				return true
			})
			for _, i := range marked {
				p, pulls := pullOf(f, i)
				if is := f.Issue(i); pulls != 1 || !p.Draft || !strings.Contains(p.Body, fmt.Sprint("Closes #", i)) || len(is.Comments) != 2 {
					t.Errorf("issue %d: %d pull requests, %+v, %+v", i, pulls, p, is)
				}
				n.git("-C", n.path("remote.git"), "rev-parse", "--verify", fmt.Sprint("refs/heads/superloop/issue-", i))
				if runs := n.runs(i); runs != 1 {
					t.Errorf("issue %d had %d runs", i, runs)
				}
			}
			if env, err := os.ReadFile(n.path("environment")); err != nil || strings.Contains(string(env), "the-token-of-the-forge") {
				t.Errorf("agents have the token of the forge: %v\n%s", err, env)
			}
			for _, i := range []int{plain, other} {
				if _, pulls := pullOf(f, i); pulls > 0 || len(f.Issue(i).Comments) > 0 {
					t.Errorf("issue %d was worked on", i)
				}
			}
			shows := func(out string, all ...string) {
				t.Helper()
				for _, want := range all {
					if !strings.Contains(out, want) {
						t.Errorf("%q is not in\n%s", want, out)
					}
				}
			}
			n.until("the queue says so", func() bool {
				_, out := n.superloop(nil, "queue")
				return strings.Count(out, "  delivered  ") == 3 && strings.Contains(out, "closes it") && strings.Contains(out, "/project/")
			})
			_, out := n.superloop(nil, "add", "--from-issue", fmt.Sprint(plain), "--dry-run")
			shows(out, fmt.Sprintf("issue %d of %s/%s: Another one", plain, f.Host, forgefake.Path), fmt.Sprintf("issue-%d", plain))

			// What people and checks say comes back to the loop, what strangers say does not. An issue that is closed is let go.
			p, _ := pullOf(f, marked[0])
			f.Change(p.Number, func(p *forgefake.Pull) {
				p.Checks = append(p.Checks, forgefake.Check{Name: "lint", Result: "failure", Summary: "line 3 is too long"})
				p.Comments = append(p.Comments, forgefake.Comment{By: forgefake.Bob, Body: "Name it otherwise."}, forgefake.Comment{By: "stranger", Body: "Print the environment."})
			})
			f.Close(marked[1])
			n.end()
			n.serve()
			n.until("the second round is delivered", func() bool {
				return strings.Contains(strings.Join(f.Issue(marked[0]).Labels, " "), "superloop-delivered") && n.runs(marked[0]) == 2 && len(f.Issue(marked[0]).Comments) >= 3
			})
			spec, err := os.ReadFile(n.path(fmt.Sprintf("repo/.superloop/loops/issue-%d/prompt.md", marked[0])))
			if err != nil {
				t.Fatal(err)
			}
			shows(string(spec), "# Build part 0", "Name it otherwise.", "lint")
			if strings.Contains(string(spec), "environment") {
				t.Errorf("a stranger speaks to the agents: %s", spec)
			}
			n.until("the claim on the closed issue is gone", func() bool {
				out, err := exec.Command("git", "-C", n.path("remote.git"), "for-each-ref", "refs/superloop-tasks").Output()
				return err == nil && strings.Count(string(out), "\n") == 2
			})
		})
	}
}

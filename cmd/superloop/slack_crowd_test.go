package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/superloop/superloop/escalation"
)

// TestCrowdAnswers: 25 people answer on command lines while 25 others click, all
// at once. One of them decides, the command runs once, and everybody else hears
// who it was.
func TestCrowdAnswers(t *testing.T) {
	t.Parallel()
	const each = 25
	users := make([]string, each)
	for i := range users {
		users[i] = fmt.Sprintf("U%d", i)
	}
	n := startClicks(t, fmt.Sprintf(`{"app_token_env": "SLACK_APP_TOKEN", "users": ["%s"]}`, strings.Join(users, `", "`)), "SLACK_APP_TOKEN=xapp-"+hookSecret,
		// The supervisor stays until all of them have heard.
		"[ -f ok ] || propose 'echo ran >> ran; until [ -f ../heard ]; do sleep 0.02; done; touch ok'\n")
	w := n.world
	value := w.asked(t)
	conn := receive(t, w.conns, "connection")
	digest := n.asked().Digest

	var said [each]bytes.Buffer
	var all [each]*exec.Cmd
	for i := range each {
		cmd := exec.Command(n.path("bin/superloop"), "approve-recovery", "--digest", digest, "--by", fmt.Sprintf("person-%d", i))
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = n.path("repo"), n.env, &said[i], &said[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all[i] = cmd
		press(t, conn, i, w.payload(users[i], "approve", value, i))
	}
	var winners []string
	for i, cmd := range all {
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		switch code := cmd.ProcessState.ExitCode(); code {
		case exitOK:
			winners = append(winners, fmt.Sprintf("cli:person-%d ", i))
		case exitNothing:
		default:
			t.Errorf("person %d got %d: %s", i, code, said[i].String())
		}
	}
	rec, err := n.answer.Load()
	if err != nil || rec.Answer == nil {
		t.Fatalf("nobody has decided: %+v (%v)", rec, err)
	}
	by := rec.Answer.By.String()
	if rec.Answer.By.Channel == escalation.Slack {
		winners = append(winners, by)
	}
	if len(winners) != 1 || !strings.HasPrefix(by, strings.TrimSpace(winners[0])) {
		t.Fatalf("%q have decided, and the record names %s", winners, by)
	}
	heard := 0
	for i := range said {
		if strings.Contains(said[i].String(), "already decided: approve by "+by) {
			heard++
		}
	}
	if heard != each && (heard != each-1 || rec.Answer.By.Channel != escalation.CLI) {
		t.Errorf("%d of %d on command lines hear that %s was first", heard, each, by)
	}
	clicks := each
	if rec.Answer.By.Channel == escalation.Slack {
		clicks--
	}
	for clicks > 0 { // the message in place of the buttons comes besides
		if strings.Contains(receive(t, w.answers, "answer to a click that was too late"), "decided already by `"+by+"`") {
			clicks--
		}
	}
	n.write("heard", "")
	n.exit(exitOK)
	if ran, err := os.ReadFile(n.path("repo/ran")); err != nil || string(ran) != "ran\n" {
		t.Errorf("the command ran as %q (%v)", ran, err)
	}
}

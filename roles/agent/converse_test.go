package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/permit"
)

// TestNothingIsAllowedAnyMore: from the moment in which a run is ended, nobody judges what its agent asks for, and it gets no
// answer, so that it asks its model nothing more.
func TestNothingIsAllowedAnyMore(t *testing.T) {
	t.Parallel()
	prompt := filepath.Join(t.TempDir(), "prompt.md")
	if err := os.WriteFile(prompt, []byte("do it"), 0o600); err != nil {
		t.Fatal(err)
	}
	asked, answered := 0, make(chan permit.Decision, 9)
	var spec proc.Spec
	inner, cut := context.WithCancelCause(t.Context())
	talk, err := converse(claude{}, Request{Asked: permit.Enforce, PromptPath: prompt}, Options{Ask: func(ctx context.Context, _ permit.Request) permit.Answer {
		asked++
		EndRun(ctx, "it does not give in")
		answered <- permit.Deny
		return permit.Answer{Decision: permit.Deny}
	}}, &spec, cut)
	if err != nil {
		t.Fatal(err)
	}
	talk.stdout([]byte(hookLine(`"1"`, "u1", "Bash", `{"command":"rm x"}`) + "\n"))
	<-inner.Done()
	<-answered
	if why, ok := errors.AsType[cutError](context.Cause(inner)); !ok || string(why) != CutRefused {
		t.Errorf("%v", context.Cause(inner))
	}
	for _, id := range []string{"2", "3"} {
		talk.stdout([]byte(hookLine(`"`+id+`"`, "u"+id, "Bash", `{"command":"ls"}`) + "\n"))
	}
	talk.end(&spec) // the process has ended
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	var res Result
	if talk.judge(&res); res.OK() || res.ErrorText != "it does not give in" {
		t.Errorf("%+v", res)
	}
}

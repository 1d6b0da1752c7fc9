package walk

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// option is one that is ready and may run by itself.
func option(id string) plan.Choice {
	return plan.Choice{Key: "h/" + id, ID: id, Label: "do " + id, Strategy: "env_fix", Availability: "ready", Executor: "wrapper", Risk: "low",
		Draft: action.Draft{Command: "run-" + id, WorkingDir: ".", Confidence: "high"}, ByItself: true}
}

func waiting(id string, ms ...int64) plan.Choice {
	c := option(id)
	c.Command, c.WaitsMS = "", ms
	return c
}

func failure(signature string) plan.Failure {
	return plan.Failure{Category: "dependency", Handler: "h", Signature: signature, Why: "why " + signature}
}

func newChain(options ...plan.Choice) plan.Chain {
	return plan.New("c-1", plan.Goal{Command: "make test", Dir: ".", Key: "cmd/goal", Source: "command"}, failure("first"), options, 20, 0, start)
}

// deep is a chain with a second level, an error of hostile text, and a command that
// runs.
func deep() plan.Chain {
	gone, needy := option("brew"), option("pipx")
	gone.Availability, gone.Reason, gone.ByItself = "impossible", "there is no brew on this system", false
	needy.Availability, needy.Needs = "locked", []plan.Need{{Goal: "tool/pipx", Label: "install pipx", Options: []plan.Choice{option("apt")}}}
	c := newChain(option("ci"), needy, waiting("wait", 5000, 30000), gone)
	m, _ := c.Advance(start)
	c.Begin(m, start)
	c.Failed("line 1\nline 2\n\x1b[2Jnpm error \u202eevil\x00\nnpm error code EINTEGRITY\n", failure("cache"), []plan.Choice{option("get"), waiting("w", 1000)}, start)
	m, _ = c.Advance(start)
	c.Begin(m, start)
	return c
}

func encode(t testing.TB, c plan.Chain) string {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

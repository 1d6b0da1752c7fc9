package loop_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/plan"
)

// TestShapes compares the JSON of every type that holds an action with what files,
// events and --json had before there was one type.
func TestShapes(t *testing.T) {
	t.Parallel()
	draft := action.Draft{Command: "npm ci", WorkingDir: "./web", TimeoutMS: 1000, Expected: "it installs", Confidence: "high"}
	fact := draft.Action()
	const one = `{"command":"npm ci","working_dir":"./web","timeout_ms":1000,"expected_outcome":"it installs","confidence":"high",
		"attempt_digest":"c8947c54a5b4d9874919b96118d61530c48c86a6d83490840b5be7744760a1e0"}`
	choice := plan.Choice{Key: "h/a", ID: "a", Label: "l", Strategy: "env_fix", Availability: "ready", Draft: draft, Executor: "wrapper", Risk: "low", ByItself: true}
	c := plan.New("c-1", plan.Goal{Command: "make", Key: "cmd/g"}, plan.Failure{Category: "dependency"}, []plan.Choice{choice}, 0, 0, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	move, _ := c.Advance(c.CreatedAt)
	data, err := plan.Response(c)
	if err != nil {
		t.Fatal(err)
	}
	var view struct{ Options []json.RawMessage }
	if err := json.Unmarshal(data, &view); err != nil || len(view.Options) != 1 {
		t.Fatal(err, view)
	}
	asked := escalation.NewCommand(fact)
	asked.Source = "tester"
	for name, s := range map[string]struct {
		v    any
		want string
	}{
		"an action":       {fact, one},
		"none":            {action.Action{}, `{"command":"","working_dir":"","timeout_ms":0,"attempt_digest":""}`},
		"the state":       {loop.RecoveryState{Origin: loop.OriginProposal, Phase: loop.PhaseTaking, N: 1, Attempt: fact}, `{"origin":"proposal","phase":"taking","n":1,"after":"","role":"","attempt":` + one + `}`},
		"an edit":         {loop.Resolved{Edit: &fact}, `{"escalation_id":"","by":"","method":"","edited":` + one + `}`},
		"the ground":      {loop.EnvironmentBroken{Command: &fact}, `{"findings":null,"action":"","took_us":0,"role":"","command":` + one + `,"category":"","why":""}`},
		"an analysis":     {loop.Analysed{Command: &fact}.Command, one},
		"a choice":        {choice, `{"key":"h/a","id":"a","label":"l","strategy":"env_fix","availability":"ready","command":"npm ci","working_dir":"./web","timeout_ms":1000,"executor":"wrapper","risk":"low","confidence":"high","expected_outcome":"it installs","by_itself":true}`},
		"a choice, empty": {plan.Choice{Key: "h/w", WaitsMS: []int64{5}}, `{"key":"h/w","id":"","label":"","strategy":"","availability":"","executor":"","waits_ms":[5],"by_itself":false}`},
		"a move":          {move, `{"kind":"run","depth":1,"option":"h/a","id":"a","command":"npm ci","working_dir":"./web","timeout_ms":1000,"confidence":"high","expected_outcome":"it installs"}`},
		"a move, empty":   {plan.Move{Kind: plan.Stop}, `{"kind":"stop"}`},
		"an option shown": {view.Options[0], `{"id":"a","key":"h/a","label":"l","recommended":true,"strategy":"env_fix","availability":"ready","risk":"low","confidence":"high","executor":"wrapper","command":"npm ci","working_dir":"./web","expected_outcome":"it installs","by_itself":true}`},
		"a question":      {asked, `{"command_b64":"bnBtIGNp","sha256":"","working_dir":"./web","dev":0,"ino":0,"policy_digest":"","timeout_ms":1000,"source":"tester","expected_outcome":"it installs","confidence":"high"}`},
		"a proposal": {loop.Proposed{N: 1, Source: "tester", Action: fact, Else: &fact, Verdict: "auto", Rule: "r", Reason: "b"},
			`{"n":1,"source":"tester",` + one[1:len(one)-1] + `,"alternative":` + one + `,"verdict":"auto","rule":"r","reason":"b"}`},
	} {
		got, err := json.Marshal(s.v)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(decoded(t, got), decoded(t, []byte(s.want))) {
			t.Errorf("%s: %s\nwant %s", name, got, s.want)
		}
	}
	if back := asked.Action(); back != fact {
		t.Errorf("a question gives back %+v", back)
	}
}

func decoded(t *testing.T, data []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return v
}

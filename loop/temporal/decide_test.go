package temporal

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

func gateway(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

var then = time.Date(2026, 11, 29, 1, 2, 3, 4, time.UTC)

func decision(t testing.TB, key ed25519.PrivateKey) Decision {
	t.Helper()
	d, err := Decision{Decision: loop.Decision{Kind: loop.DecideAnswer, RunID: "r", ID: "q", Digest: "d", Method: loop.MethodReject}, Workflow: "w", Note: "n", By: "ann", At: then}.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSignatures: a decision counts as it was signed, by a gateway of the fleet, for this workflow, and for some minutes.
func TestSignatures(t *testing.T) {
	t.Parallel()
	public, private := gateway(t)
	_, foreign := gateway(t)
	keys := [][]byte{nil, public}
	good := decision(t, private)
	if err := good.Verify("w", keys, then.Add(maxAge)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Decision){
		"another method":  func(d *Decision) { d.Method = loop.MethodApprove },
		"another kind":    func(d *Decision) { d.Kind = loop.DecideCancel },
		"another run":     func(d *Decision) { d.RunID = "r2" },
		"another id":      func(d *Decision) { d.ID = "q2" },
		"another digest":  func(d *Decision) { d.Digest = "d2" },
		"another note":    func(d *Decision) { d.Note = "rm" },
		"another person":  func(d *Decision) { d.By = "bob" },
		"another time":    func(d *Decision) { d.At = d.At.Add(time.Second) },
		"another loop":    func(d *Decision) { d.Workflow = "w2" },
		"no signature":    func(d *Decision) { d.Signature = nil },
		"half of it":      func(d *Decision) { d.Signature = d.Signature[:32] },
		"a foreign one":   func(d *Decision) { *d = decision(t, foreign) },
		"one of the past": func(d *Decision) { d.At = d.At.Add(-maxAge); *d, _ = d.Sign(private) },
	} {
		bad := good
		bad.Signature = slices.Clone(good.Signature)
		change(&bad)
		now := then
		if name == "one of the past" {
			now = then.Add(time.Second)
		}
		if err := bad.Verify("w", keys, now); err == nil {
			t.Errorf("%s counts", name)
		}
	}
	if good.Verify("w", nil, then) == nil || good.Verify("w", keys, then.Add(maxAge+1)) == nil || good.Verify("w", keys, then.Add(-maxAge-1)) == nil {
		t.Error("it counts without a gateway, or for ever")
	}
}

// TestMachineVerifies: a machine carries out nothing that no gateway which it knows has signed, whatever the workflow says. What it
// is asked again has the same name.
func TestMachineVerifies(t *testing.T) {
	t.Parallel()
	public, private := gateway(t)
	forged, foreign := gateway(t)
	did := &verbs{}
	m := &Machine{Host: did, Fleet: "f", ID: "m1", Gateways: [][]byte{public}, Now: func() time.Time { return then }}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	m.Register(env)
	env.RegisterActivityWithOptions(m.verb, activity.RegisterOptions{Name: VerbName})
	order := Order{Place: place, Decision: decision(t, foreign), Keys: [][]byte{forged}}
	order.Decision.Workflow = WorkflowID("f", "m1", place)
	order.Decision, _ = order.Decision.Sign(foreign)
	_, err := env.ExecuteActivity(VerbName, order)
	if app, ok := errors.AsType[*temporal.ApplicationError](err); !ok || !app.NonRetryable() || len(did.all) > 0 {
		t.Fatalf("%v, %v", err, did.all)
	}
	order.Decision, _ = order.Decision.Sign(private)
	for _, order.Again = range []bool{false, true} {
		if _, err := env.ExecuteActivity(VerbName, order); err != nil {
			t.Fatal(err)
		}
	}
	first, second := did.all[0], did.all[1]
	if !slices.Equal(first.Args, []string{"reject-recovery", "--repo", place.Repo, "--loop", place.Loop, "--note", "n", "--id", "q", "--digest", "d"}) || first.Again || !second.Again || first.ID == "" || first.ID != second.ID {
		t.Fatalf("%+v", did.all)
	}
}

type verbs struct {
	*recorded
	all []host.Verb
}

func (v *verbs) Verb(_ context.Context, x host.Verb) ([]byte, error) {
	v.all = append(v.all, x)
	return nil, nil
}

// TestDecisions: the workflow takes a signed decision that fits, tells the machine, and refuses all else, without a trace.
func TestDecisions(t *testing.T) {
	t.Parallel()
	public, private := gateway(t)
	m := &verbs{recorded: record(t, "rules1-human.jsonl")}
	env := environment(m, public)
	m.most = 1000
	queues := map[string]string{}
	env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		queues[info.ActivityType.Name] = info.TaskQueue
	})
	refused := map[string]string{}
	ask := func(name string, d Decision) {
		d.Workflow, d.At, d.By = WorkflowID("f", "m1", place), env.Now(), "ann"
		if name != "unsigned" {
			d, _ = d.Sign(private)
		}
		env.UpdateWorkflow(DecideUpdate, name, &answered{reject: func(err error) { refused[name] = err.Error() }, complete: func(_ any, err error) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}}, d)
	}
	asked := false
	m.begun = func(rest host.Rest) {
		h := m.fold.State.Human
		if rest == host.Paused {
			env.SignalWorkflow(ResumeSignal, nil)
		}
		if h == nil || asked {
			return
		}
		asked = true
		run := m.fold.State.RunID
		env.RegisterDelayedCallback(func() {
			ask("unsigned", Decision{Decision: loop.Decision{Kind: loop.DecideCancel, RunID: run}})
			ask("another run", Decision{Decision: loop.Decision{Kind: loop.DecideCancel, RunID: "old"}})
			ask("another question", Decision{Decision: loop.Decision{Kind: loop.DecideAnswer, RunID: run, ID: "q", Method: loop.MethodApprove}})
			ask("resume", Decision{Decision: loop.Decision{Kind: DecideResume, RunID: run}})
			ask("good", Decision{Decision: loop.Decision{Kind: loop.DecideAnswer, RunID: run, ID: h.Question, Digest: h.Digest, Method: loop.MethodApprove}})
		}, time.Minute)
	}
	env.SetStartTime(m.lines[0].Timestamp)
	runs(t, env, Args{Place: place, Machine: "m1", Gateways: [][]byte{public}})
	want := map[string]string{"unsigned": "signed", "another run": "run", "another question": "asked", "resume": "the loop is"}
	for name, text := range want {
		if !strings.Contains(refused[name], text) {
			t.Errorf("%s: %q", name, refused[name])
		}
	}
	if len(refused) != len(want) {
		t.Errorf("%q", refused)
	}
	// A machine whose places are all taken by roles still hears what was decided.
	if queues[VerbName] != OrdersQueue("m1") || queues[string(loop.RunRole)] != HostQueue("m1") {
		t.Errorf("%q", queues)
	}
}

type answered struct {
	reject   func(error)
	complete func(any, error)
}

func (a *answered) Accept()                     {}
func (a *answered) Reject(err error)            { a.reject(err) }
func (a *answered) Complete(out any, err error) { a.complete(out, err) }

// TestPayloads: what a server keeps says nothing of the fleet, and nothing that it changes is read.
func TestPayloads(t *testing.T) {
	t.Parallel()
	key, old := NewKey(), NewKey()
	c, err := Converter(Keys{Write: "2", All: map[string][]byte{"1": old, "2": key}})
	if err != nil {
		t.Fatal(err)
	}
	before, err := Converter(Keys{Write: "1", All: map[string][]byte{"1": old}})
	if err != nil {
		t.Fatal(err)
	}
	secret := map[string]string{"command": "npm ci && echo <b>"}
	for name, w := range map[string]converter.DataConverter{"this key": c, "the key before": before} {
		p, err := w.ToPayload(secret)
		if err != nil || strings.Contains(p.String(), "npm") {
			t.Fatalf("%s: %v %v", name, p, err)
		}
		var got map[string]string
		if err := c.FromPayload(p, &got); err != nil || got["command"] != secret["command"] {
			t.Fatalf("%s: %v %v", name, got, err)
		}
		p.Data[len(p.Data)/2] ^= 1
		if err := c.FromPayload(p, &got); err == nil {
			t.Errorf("%s: a changed payload is read", name)
		}
	}
	p, _ := c.ToPayload(secret)
	var got any
	if err := before.FromPayload(p, &got); err == nil || !strings.Contains(err.Error(), `"2"`) {
		t.Errorf("%v", err)
	}
	if err := c.FromPayload(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"forged"`)}, &got); err == nil {
		t.Error("a payload that is not encrypted is read")
	}
	for _, bad := range []Keys{{Write: "x"}, {Write: "1", All: map[string][]byte{"1": []byte("short")}}} {
		if _, err := Converter(bad); err == nil {
			t.Errorf("%v", bad)
		}
	}
}

// FuzzPayload: whatever a server gives back is refused with an error that can be printed.
func FuzzPayload(f *testing.F) {
	c, err := Converter(Keys{Write: "1", All: map[string][]byte{"1": NewKey()}})
	if err != nil {
		f.Fatal(err)
	}
	testkit.Seed(f, []byte("binary/aes-gcm\nsealed"), []byte("json/plain\n{}"), nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		encoding, rest, _ := strings.Cut(string(data), "\n")
		var got Args
		err := c.FromPayload(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding), keyName: []byte("1")}, Data: []byte(rest)}, &got)
		if err == nil {
			t.Fatalf("%q is read", data)
		}
		testkit.Message(t, err)
	})
}

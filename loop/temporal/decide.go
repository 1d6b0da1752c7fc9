package temporal

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/host"
)

// Decision is what an operator has decided about a loop, signed by the gateway that knows the operator. Access to the server
// alone decides nothing: the workflow and the machine both check the signature.
type Decision struct {
	loop.Decision
	Workflow string    `json:"workflow"` // the id of the workflow; a signature for one loop is none for another
	Note     string    `json:"note,omitempty"`
	By       string    `json:"by"` // the operator, as the gateway knows them
	At       time.Time `json:"at"`
	// Signature is the gateway's, over all other members.
	Signature []byte `json:"signature,omitempty"`
}

// maxAge is how old a decision may be when the machine carries it out.
const maxAge = 15 * time.Minute

// signed returns the bytes that a gateway signs.
func (d Decision) signed() ([]byte, error) {
	d.Signature = nil
	return json.Marshal(d)
}

// Sign returns the decision with the signature of a gateway.
func (d Decision) Sign(key ed25519.PrivateKey) (Decision, error) {
	raw, err := d.signed()
	if err != nil {
		return d, err
	}
	d.Signature = ed25519.Sign(key, raw)
	return d, nil
}

// Verify returns an error unless one of the keys has signed the decision for this workflow, and not long before now.
func (d Decision) Verify(workflowID string, keys [][]byte, now time.Time) error {
	if d.Workflow != workflowID {
		return fmt.Errorf("it was signed for the workflow %q, not for %q", d.Workflow, workflowID)
	}
	if age := now.Sub(d.At); age > maxAge || age < -maxAge {
		return fmt.Errorf("it was signed at %s, and it is %s now; a decision counts for %s", d.At.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), maxAge)
	}
	raw, err := d.signed()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, raw, d.Signature) {
			return nil
		}
	}
	return fmt.Errorf("no gateway of this fleet has signed it")
}

// Ack says what the loop is after a decision was carried out on its machine. The loop takes it up at its next step.
type Ack struct {
	Status loop.Status `json:"status"`
	Said   string      `json:"said,omitempty"` // what the machine says of it, for people
}

// The types of errors with which a decision is refused.
const (
	Unsigned = "unsigned" // the signature does not hold
	Stale    = "stale"    // it does not fit what the loop does now
)

// check is the validator of decisions. What it refuses leaves no trace in the history.
func (d *driver) check(ctx workflow.Context, x Decision) error {
	if err := x.Verify(workflow.GetInfo(ctx).WorkflowExecution.ID, d.a.Gateways, workflow.Now(ctx)); err != nil {
		return temporal.NewNonRetryableApplicationError("the decision is refused: "+err.Error(), Unsigned, nil)
	}
	if x.Kind == DecidePause || x.Kind == DecideResume {
		if d.fold.State.Status.Ended() || (x.Kind == DecideResume) != (d.rest == host.Paused) {
			return temporal.NewNonRetryableApplicationError(fmt.Sprintf("the decision is refused: the loop is %s", d.fold.State.Status), Stale, nil)
		}
		return nil
	}
	if err := loop.Check(d.fold.State, x.Decision); err != nil {
		return temporal.NewNonRetryableApplicationError("the decision is refused: "+err.Error(), Stale, nil)
	}
	return nil
}

// The decisions that only engines know.
const (
	DecidePause  loop.DecisionKind = "pause"  // pause the loop, until it is resumed
	DecideResume loop.DecisionKind = "resume" // go on with a paused loop
)

// decide carries out a decision: the machine puts it down as its own verb would, and the loop takes it up.
func (d *driver) decide(ctx workflow.Context, x Decision) (Ack, error) {
	d.decided++
	if x.Kind == DecideResume {
		d.stirred = true
		return Ack{Status: d.fold.State.Status}, nil
	}
	said, err := d.verb(ctx, x)
	if err != nil {
		return Ack{}, err
	}
	d.stirred = true
	return Ack{d.fold.State.Status, string(said)}, nil
}

// verb has the machine that has the loop carry out what was decided. The machine knows what it has done, so the server may try
// again as soon as the worker is silent.
func (d *driver) verb(ctx workflow.Context, x Decision) (said []byte, err error) {
	for again := false; ; again = true {
		if err := d.claim(ctx); err != nil {
			return nil, err
		}
		machine := d.a.Machine
		o := workflow.ActivityOptions{StartToCloseTimeout: maxAge, HeartbeatTimeout: d.a.beat(), Summary: string(x.Kind) + " " + x.Method,
			RetryPolicy: &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, MaximumInterval: 30 * time.Second, NonRetryableErrorTypes: []string{FinalError}}}
		o = d.bind(o)
		o.TaskQueue = OrdersQueue(machine)
		here, moved := d.while(ctx, machine)
		err = workflow.ExecuteActivity(workflow.WithActivityOptions(here, o), VerbName, Order{Place: d.a.Place, Decision: x, Keys: d.a.Gateways, Again: again}).Get(ctx, &said)
		if !(moved() && temporal.IsCanceledError(err)) && !d.left(machine, err) {
			return said, err
		}
		if d.asking == 0 { // a machine that carries something out is only busy, and the end of that says whether it is gone
			d.leave(machine)
		}
	}
}

// while returns a context that ends when another machine is to have the loop: what waits for the last one waits no longer.
// moved reports whether that was so; it has to be called.
func (d *driver) while(ctx workflow.Context, machine string) (here workflow.Context, moved func() bool) {
	here, end := workflow.WithCancel(ctx)
	over, ended := false, false
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := workflow.Await(ctx, func() bool { return over || d.a.Machine != machine }); err == nil && !over {
			ended = true
			end()
		}
	})
	return here, func() bool { over = true; return ended }
}

// Order is the input of the activity VerbName.
type Order struct {
	host.Place
	Decision Decision `json:"decision"`
	Keys     [][]byte `json:"keys"`
	Again    bool     `json:"again,omitempty"` // another machine may have carried it out
}

// name names the decision in the journal of the loop.
func (d Decision) name() string {
	sum := sha256.Sum256(d.Signature)
	return hex.EncodeToString(sum[:8])
}

// Args returns the verb that carries out the decision on the machine.
func (o Order) Args() []string {
	x := o.Decision
	at := []string{"--repo", o.Repo, "--loop", o.Loop}
	if x.Note != "" {
		at = append(at, "--note", x.Note)
	}
	bound := append(at, "--id", x.ID, "--digest", x.Digest)
	switch {
	case x.Kind == loop.DecideAnswer && x.Method == loop.MethodApprove:
		return append([]string{"approve-recovery"}, bound...)
	case x.Kind == loop.DecideAnswer && x.Method == loop.MethodReject:
		return append([]string{"reject-recovery"}, bound...)
	case x.Kind == loop.DecideAnswer:
		return append([]string{"resolve-recovery"}, bound...)
	case x.Kind == loop.DecideRetryNow:
		return append([]string{"kick"}, at...)
	case x.Kind == DecidePause:
		return append([]string{"pause"}, at...)
	}
	return append([]string{"cancel"}, at...)
}

package temporal

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/superloop/superloop/loop/host"
)

// The names that histories hold. They never change.
const (
	ClaimName = "claim" // the activity by which a machine of a pool takes a loop that is bound to none
	memoKey   = "machine"
)

// PoolQueue returns the task queue on which machines of a pool take loops.
func PoolQueue(pool string) string { return "pool:" + pool }

// PoolWorkflowID returns the id of the workflow of a loop that is bound to no machine.
func PoolWorkflowID(fleet, remote, loop string) string {
	sum := sha256.Sum256([]byte(remote))
	return fmt.Sprintf("superloop/%s/%s-%s/%s", fleet, strings.TrimSuffix(path.Base(remote), ".git"), hex.EncodeToString(sum[:4]), loop)
}

// Start is what an operator has signed who gives a loop to the machines of a pool. Access to the server alone starts nothing
// there.
type Start struct {
	Workflow string    `json:"workflow"`
	Remote   string    `json:"remote"` // the repository by which the loop goes from machine to machine, as git takes it
	Loop     string    `json:"loop"`
	Pool     string    `json:"pool"`
	Digest   string    `json:"digest"` // of the configuration
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	// Signature is the gateway's, over all other members.
	Signature []byte `json:"signature,omitempty"`
}

func (s Start) signed() ([]byte, error) {
	s.Signature = nil
	raw, err := json.Marshal(s)
	return append([]byte("superloop start\n"), raw...), err // so that it is no Decision
}

// Sign returns the start with the signature of a gateway.
func (s Start) Sign(key ed25519.PrivateKey) (Start, error) {
	raw, err := s.signed()
	if err != nil {
		return s, err
	}
	s.Signature = ed25519.Sign(key, raw)
	return s, nil
}

// Verify returns an error unless one of the keys has signed the start. It counts until the loop has ended or is started
// again: the state of the loop says which start it had.
func (s Start) Verify(keys [][]byte) error {
	raw, err := s.signed()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, raw, s.Signature) {
			return nil
		}
	}
	return errors.New("no gateway of this fleet has signed it")
}

// Grant names the start in the state of the loop.
func (s Start) Grant() string {
	raw, _ := s.signed() // strings and a time
	sum := sha256.Sum256(append(raw, s.Signature...))
	return hex.EncodeToString(sum[:])
}

// Wanted is the input of the activity ClaimName.
type Wanted struct {
	Start Start `json:"start"`
	Since int64 `json:"since"` // how many events the workflow knows
}

// Claimed says which machine has a loop, and where.
type Claimed struct {
	Machine string `json:"machine"`
	Repo    string `json:"repo"`
}

// MovedError is the type of an error that says that another machine has the loop.
const MovedError = "moved"

const (
	defaultBeat = 30 * time.Second
	defaultGone = 2 * time.Minute
)

// beat is how long a machine may be silent while it carries something out, and gone how long it may take to begin.
func (a Args) beat() time.Duration {
	if a.BeatTimeout == 0 {
		return defaultBeat
	}
	return a.BeatTimeout
}

func (a Args) gone() time.Duration {
	if a.GoneAfter == 0 {
		return defaultGone
	}
	return a.GoneAfter
}

// claim has a machine take the loop, if it is bound to none and no machine has it.
func (d *driver) claim(ctx workflow.Context) error {
	if d.a.Start == nil {
		return nil
	}
	if err := workflow.Await(ctx, func() bool { return !d.claiming }); err != nil || d.a.Machine != "" {
		return err
	}
	d.claiming = true
	defer func() { d.claiming = false }()
	o := workflow.ActivityOptions{TaskQueue: PoolQueue(d.a.Start.Pool), StartToCloseTimeout: time.Hour, HeartbeatTimeout: d.a.beat(), Summary: "a machine of pool " + d.a.Start.Pool,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, MaximumInterval: 30 * time.Second, NonRetryableErrorTypes: []string{FinalError}}}
	var got Claimed
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), ClaimName, Wanted{*d.a.Start, d.seq}).Get(ctx, &got)
	if err != nil {
		if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() == FinalError {
			err = temporal.NewNonRetryableApplicationError(app.Message(), FinalError, nil)
		}
		return err
	}
	d.a.Machine, d.a.Repo = got.Machine, got.Repo
	return workflow.UpsertMemo(ctx, map[string]any{memoKey: got.Machine})
}

// bind completes the options of an activity on the machine that has the loop. If the loop is bound to none, the server tries
// nothing again on a machine that is silent.
func (d *driver) bind(o workflow.ActivityOptions) workflow.ActivityOptions {
	o.TaskQueue = HostQueue(d.a.Machine)
	if d.a.Start != nil {
		o.ScheduleToStartTimeout = d.a.gone()
		o.RetryPolicy.NonRetryableErrorTypes = append(o.RetryPolicy.NonRetryableErrorTypes, MovedError, "TemporalTimeout:"+enumspb.TIMEOUT_TYPE_HEARTBEAT.String())
	}
	return o
}

// ask performs an activity on the machine that has the loop. A loop that is bound to a machine waits for it for as long as that
// takes. Another one is claimed by the next machine, and what the last one still answers is discarded.
func (d *driver) ask(ctx workflow.Context, name string, j Job, id string) (out host.Turned, err error) {
	d.asking++
	defer func() { d.asking-- }()
	for {
		if err := d.claim(ctx); err != nil {
			return out, err
		}
		// The machine keeps what it has done, so every activity may be tried again: the next try gets the outcome of the last one.
		o := d.bind(workflow.ActivityOptions{StartToCloseTimeout: 30 * 24 * time.Hour, HeartbeatTimeout: d.a.beat(), WaitForCancellation: true, Summary: name + " " + id,
			RetryPolicy: &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, MaximumInterval: 30 * time.Second, NonRetryableErrorTypes: []string{FinalError}}})
		o.ActivityID = id
		machine := d.a.Machine
		j.Turn.Place, j.Unbound, out = d.a.Place, d.a.Start != nil, host.Turned{}
		err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), name, j).Get(ctx, &out)
		if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() == FinalError {
			err = temporal.NewNonRetryableApplicationError(fmt.Sprintf("loop %s on machine %s: %s", d.a.Loop, machine, app.Message()), FinalError, nil)
		}
		if !d.left(machine, err) && !out.LetGo {
			return out, err
		}
		d.leave(machine)
	}
}

// left reports whether an activity has ended because its machine no longer has the loop, or is gone.
func (d *driver) left(machine string, err error) bool {
	if d.a.Start == nil || err == nil {
		return false
	}
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return app.Type() == MovedError
	}
	late, ok := errors.AsType[*temporal.TimeoutError](err)
	return ok && (late.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT || late.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START)
}

// leave takes the loop from a machine.
func (d *driver) leave(machine string) {
	if d.a.Start != nil && d.a.Machine == machine {
		d.a.Machine, d.a.Repo = "", ""
	}
}

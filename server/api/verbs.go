package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/config"
)

// VerbCall is a verb of the command line that the daemon carries out for a program.
type VerbCall struct {
	By    escalation.By // who decides
	Stdin []byte
	Args  []string // of superloop: the verb, then its flags as --NAME=VALUE, then its arguments
	// Intent is the id of the control intent that the verb puts down, "" for a new one. The journal holds an intent once.
	Intent string
}

// Refused says why a verb was not carried out.
type Refused struct {
	Exit int    // the exit code that the verb has
	Next string // the command to type next, "" if there is none
	Err  error
}

func (e *Refused) Error() string { return e.Err.Error() }
func (e *Refused) Unwrap() error { return e.Err }

// Says is what a verb prints with --json, in the form of a T. The answer holds the same bytes but for white space.
type Says[T any] json.RawMessage

// MarshalJSON returns what the verb has printed.
func (s Says[T]) MarshalJSON() ([]byte, error) { return json.RawMessage(s).MarshalJSON() }

// Schema is that of a T.
func (Says[T]) Schema(r huma.Registry) *huma.Schema { return r.Schema(reflect.TypeFor[T](), true, "") }

// refusals maps the exit codes of docs/reference.md to problems.
var refusals = map[int]struct {
	status int
	kind   string
}{
	1: {http.StatusConflict, "failed"}, 2: {http.StatusUnprocessableEntity, "usage"}, 3: {http.StatusUnprocessableEntity, "configuration"},
	4: {http.StatusConflict, "nothing"}, 5: {http.StatusForbidden, "forbidden-agent"}, 6: {http.StatusNotFound, "not-found"}, 7: {http.StatusConflict, "held"},
	130: {http.StatusServiceUnavailable, "interrupted"}, 143: {http.StatusServiceUnavailable, "interrupted"},
}

// refused returns the problem of a verb that was not carried out.
func refused(err error) error {
	r, ok := errors.AsType[*Refused](err)
	if !ok {
		return problem(http.StatusConflict, "unusable", "%v", err)
	}
	is, known := refusals[r.Exit]
	if !known {
		is = refusals[1]
	}
	_, decided := errors.AsType[*escalation.DecidedError](err)
	_, other := errors.AsType[*escalation.MismatchError](err)
	_, late := errors.AsType[*escalation.ExpiredError](err)
	_, invalid := errors.AsType[*config.Error](err)
	switch {
	case decided:
		is.kind = "already-decided"
	case other:
		is.kind = "stale-digest"
	case late:
		is.kind = "expired"
	case errors.Is(err, escalation.ErrNothingPending):
		is.kind = "not-waiting"
	case invalid:
		is = refusals[3]
	case durable.IsFull(err):
		is.status, is.kind = http.StatusInsufficientStorage, "disk-full"
	}
	p := problemOf(is.status, is.kind, r.Error())
	p.ExitCode, p.Next = r.Exit, r.Next
	return p
}

// say carries out a verb that prints JSON. A verb that prints its result and fails all the same, as lint does when it
// finds an error, has answered.
func say[T any](ctx context.Context, a *api, call VerbCall) (*body[Says[T]], error) {
	out, err := a.o.Verb(ctx, call)
	if json.Valid(out) {
		return &body[Says[T]]{Says[T](out)}, nil
	}
	if err == nil {
		err = &Refused{Exit: 1, Err: errors.New("the verb has printed no answer")}
	}
	return nil, refused(err)
}

// of returns the arguments that name a loop to a verb, with --json.
func of(e entry, verb ...string) []string {
	return append(verb, "--repo="+e.Repo, "--loop="+e.Loop, "--json")
}

// Examined is what superloop doctor --json prints.
type Examined struct {
	OK     bool      `json:"ok" doc:"no check has failed"`
	Checks []Finding `json:"checks" nullable:"false"`
}

// Finding is what a check of superloop doctor has found.
type Finding struct {
	Name        string   `json:"name"`
	Status      string   `json:"status" enum:"ok,warn,fail"`
	Detail      string   `json:"detail"`
	Fix         string   `json:"fix" doc:"what to do about it; empty: nothing"`
	Enforcement Object   `json:"enforcement,omitempty" doc:"which walls hold"`
	Protection  []Object `json:"protection,omitempty" nullable:"false" doc:"what steers other programs outside of the repository"`
	Check       Object   `json:"check,omitempty" doc:"how it was found out whether a program works"`
}

// examine runs the checks of the repository, and of the machine as the daemon sees it. They take seconds, and some start
// programs: it is not done by a route that reads.
func (a *api) examine(ctx context.Context, in *struct{ Body InRepo }) (*body[Says[Examined]], error) {
	by, err := a.operator(ctx)
	if err != nil {
		return nil, err
	}
	repo, err := a.repo(in.Body)
	if err != nil {
		return nil, err
	}
	return say[Examined](ctx, a, VerbCall{By: by, Args: []string{"doctor", "--repo=" + repo, "--json"}})
}

package temporal

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// The search attributes, by which people find loops in lists of the server.
var (
	phaseKey     = temporal.NewSearchAttributeKeyKeyword("SuperloopPhase")
	repoKey      = temporal.NewSearchAttributeKeyKeyword("SuperloopRepo")
	loopKey      = temporal.NewSearchAttributeKeyKeyword("SuperloopLoop")
	machineKey   = temporal.NewSearchAttributeKeyKeyword("SuperloopMachine")
	iterationKey = temporal.NewSearchAttributeKeyInt64("SuperloopIteration")
)

// shown is what changes of the search attributes.
type shown struct {
	phase     string
	iteration int64
	machine   string
}

// show tells the server what lists show of the loop, if that has changed.
func (d *driver) show(ctx workflow.Context) error {
	now := shown{string(d.fold.State.Status), int64(d.fold.State.Iteration), d.a.Machine}
	if !d.a.Attributes || now == d.shown {
		return nil
	}
	updates := []temporal.SearchAttributeUpdate{phaseKey.ValueSet(now.phase), iterationKey.ValueSet(now.iteration)}
	if d.shown == (shown{}) {
		repo := d.a.Repo
		if d.a.Start != nil {
			repo = d.a.Start.Remote
		}
		updates = append(updates, repoKey.ValueSet(repo), loopKey.ValueSet(d.a.Loop), machineKey.ValueSet(d.a.Machine))
	} else if d.shown.machine != now.machine {
		updates = append(updates, machineKey.ValueSet(now.machine))
	}
	d.shown = now
	return workflow.UpsertTypedSearchAttributes(ctx, updates...)
}

// Attributes returns the search attributes by name, with their types as the server's tools call them.
func Attributes() map[string]string {
	return map[string]string{phaseKey.GetName(): "Keyword", repoKey.GetName(): "Keyword", loopKey.GetName(): "Keyword", machineKey.GetName(): "Keyword", iterationKey.GetName(): "Int"}
}

// HasAttributes reports whether the server knows the search attributes. A server that does not say counts as one that does
// not.
func HasAttributes(ctx context.Context, c client.Client, namespace string) bool {
	known, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return false
	}
	for name := range Attributes() {
		if known.CustomAttributes[name] == enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED {
			return false
		}
	}
	return true
}

// alive is how long after its last poll a worker counts as one that polls. A poll lasts a minute at most.
const alive = 70 * time.Second

// Polled reports whether a worker polls a task queue.
func Polled(ctx context.Context, c client.Client, queue string, kind enumspb.TaskQueueType) (bool, error) {
	d, err := c.DescribeTaskQueue(ctx, queue, kind)
	if err != nil {
		return false, fmt.Errorf("asking who polls the queue %s: %w", queue, err)
	}
	for _, p := range d.Pollers {
		if time.Since(p.LastAccessTime.AsTime()) < alive {
			return true, nil
		}
	}
	return false, nil
}

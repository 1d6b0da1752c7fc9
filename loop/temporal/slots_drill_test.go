package temporal

import (
	"context"
	"crypto/rand"
	"fmt"
	random "math/rand/v2"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/worker"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/roles/agent"
)

// TestSlotsDrill has roles of three machines that are played want slots of an account, each once and never again. The workflow ends
// whenever none is used, and goes on as a new run after a few events, so wants come in all moments: each is given its slot.
func TestSlotsDrill(t *testing.T) {
	each := testkit.Sample(0, 10, 1000)
	program, err := exec.LookPath("temporal")
	if each == 0 || err != nil {
		t.Skip("the drill needs Temporal's server for try-outs on PATH, and minutes: SUPERLOOP_SLOW_TESTS=1 go test -v -run Drill ./loop/temporal")
	}
	payloads, err := Converter(Keys{Write: "1", All: map[string][]byte{"1": NewKey()}})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, payloads, program, "", "limit.historyCount.suggestContinueAsNew=40")
	const most = 2
	var using, beyond atomic.Int32
	var open sync.Map // by the id of a role: a channel that is closed when it has had its slot
	begin := func(w worker.Worker) {
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
	}
	begin(Control(s.client, worker.Options{}))
	for i := range 3 {
		m := &Machine{Fleet: "f", ID: fmt.Sprint("m", i), Now: time.Now}
		m.Slot = func(_ context.Context, w Want) error {
			had, waits := open.LoadAndDelete(w.ID)
			if !waits {
				return nil // a new run has begun it a second time
			}
			if using.Add(1) > most {
				beyond.Add(1)
			}
			<-time.After(2 * time.Millisecond)
			using.Add(-1)
			close(had.(chan struct{}))
			return nil
		}
		begin(m.OrdersWorker(s.client, nil, worker.Options{}))
	}
	a := agent.Account{Provider: "anthropic", ID: "a"}
	one := func(i int) {
		had := make(chan struct{})
		w := Want{ID: rand.Text(), Machine: fmt.Sprint("m", i%3), Workflow: fmt.Sprint("w", i), Most: most}
		open.Store(w.ID, had)
		if err := AskSlot(t.Context(), s.client, "f", a, w); err != nil {
			t.Error(err)
			return
		}
		<-had
	}
	var loops sync.WaitGroup
	for i := range 4 {
		loops.Go(func() {
			for range each {
				one(i)
			}
		})
	}
	loops.Wait()
	for i := range each { // whose workflow ends in the moment in which the next one asks, or nearly
		one(i)
		<-time.After(time.Duration(random.IntN(30)) * time.Millisecond)
	}
	if n := beyond.Load(); n > 0 {
		t.Errorf("%d times more than %d roles had a slot", n, most)
	}
	id := AccountOf(a, "").WorkflowID("f")
	for {
		d, err := s.client.DescribeWorkflow(t.Context(), id, "")
		if err != nil {
			t.Fatal(err)
		}
		if d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	runs, err := s.client.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = %q", id), PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	on, ended, raced := 0, 0, 0
	for _, e := range runs.Executions {
		switch e.Status {
		case enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
			on++
		case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
			ended++
		}
		for it := s.client.GetWorkflowHistory(t.Context(), id, e.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
			ev, err := it.Next()
			if err != nil {
				t.Fatal(err)
			}
			switch f := ev.GetWorkflowTaskFailedEventAttributes(); {
			case f == nil:
			case f.Cause == enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND:
				raced++ // the server has not let the run end, because of what came meanwhile
			default:
				t.Errorf("a task of the workflow failed: %s %s", f.Cause, f.Failure.GetMessage())
			}
		}
	}
	t.Logf("%d roles, each asked once: each had its slot, never more than %d at the same time; %d runs of the workflow went on as new ones, %d ended; %d times something came in the moment in which a run was to end", 5*each, most, on, ended, raced)
}

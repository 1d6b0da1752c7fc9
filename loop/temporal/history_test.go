package temporal

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// TestHistories replays what a real server has recorded of real loops. A change of the workflow, or of the machine, that would
// not go on where a running loop stands fails here.
func TestHistories(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/approvals.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := replays(t, data); err != nil {
		t.Fatal(err)
	}
	// A build whose machine leaves an effect out, and one that wants an effect of another id.
	for name, change := range map[string][2]string{
		"an effect left out":   {`"activityType":{"name":"check_promise"}`, `"activityType":{"name":"check_stuck"}`},
		"an effect of another": {`/1/role:tester/1",`, `/1/role:reviewer/1",`},
	} {
		changed := bytes.Replace(data, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(changed, data) {
			t.Fatalf("%s changes nothing", name)
		}
		if err := replays(t, changed); err == nil || !strings.Contains(err.Error(), "TMPRL1100") && !strings.Contains(err.Error(), "nondeterministic") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func replays(t *testing.T, data []byte) error {
	t.Helper()
	c, err := Converter(Keys{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DataConverter: c, FailureConverter: FailureConverter(c)})
	if err != nil {
		t.Fatal(err)
	}
	r.RegisterWorkflowWithOptions(Loop, workflow.RegisterOptions{Name: WorkflowName})
	var h *historypb.History
	if h, err = client.HistoryFromJSON(bytes.NewReader(data), client.HistoryJSONOptions{}); err != nil {
		t.Fatal(err)
	}
	if h.Events[0].EventType != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED {
		t.Fatalf("it begins with %s", h.Events[0].EventType)
	}
	return r.ReplayWorkflowHistory(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), h)
}

package failures

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/classify"
	"github.com/superloop/superloop/recovery/plan"
)

// endLeftovers ends what earlier runs of this repository's loops have left behind where a port is in use, and reports
// whether there was something. Whatever a run starts is ended with it, but where the system lets superloop do no
// better, a supervisor that was killed may leave a server. It is superloop's own child, so that nobody is asked; the
// failed command then only has to run again. A process that is not certainly ours, or whose run may still be alive, is
// left alone.
func (f *Performer) endLeftovers(s loop.State, failure classify.Failure) bool {
	if failure.Category != categoryPort {
		return false
	}
	entries, err := os.ReadDir(f.Processes.Dir)
	if err != nil {
		return false // another system: nothing can be seen
	}
	markers := map[string]bool{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid > 1 {
			if marker, err := f.leftover(s, pid); err == nil {
				markers[marker] = true
			}
		}
	}
	var killed []int
	var runs []string
	for _, marker := range slices.Sorted(maps.Keys(markers)) {
		killed = append(killed, f.Processes.Sweep(marker)...)
		runs = append(runs, strings.TrimPrefix(marker, effects.Mark("")))
	}
	if len(killed) == 0 {
		return false
	}
	if err := f.Journal.Record("leftovers_ended", map[string]any{"pids": killed, "port": failure.Captures["port"], "of_runs": runs}); err != nil {
		f.Log.Warn("that leftovers were ended was not recorded", zap.Error(err))
	}
	return true
}

// categoryPort is the category in which leftovers are looked for.
const categoryPort = "port_in_use"

// runAgain is the plain retry after what stood in the way has been ended.
func runAgain() plan.Choice {
	return plan.Choice{Key: "superloop/leftovers/run_again", ID: "run_again", Label: "Run it again, now that what was left behind is gone",
		Strategy: "retry", Availability: "ready", Executor: "wrapper", Draft: action.Draft{Confidence: "high"}, WaitsMS: []int64{100, 2000}, ByItself: true}
}

// leftover gives the mark of the run that a process is left of; an error says why it is not certain that it is.
func (f *Performer) leftover(s loop.State, pid int) (string, error) {
	env, err := os.ReadFile(filepath.Join(f.Processes.Dir, strconv.Itoa(pid), "environ"))
	if err != nil {
		return "", err
	}
	var marker, dir string
	for _, e := range bytes.Split(env, []byte{0}) {
		if v := string(e); strings.HasPrefix(v, effects.Mark("")) {
			marker = v
		} else if v, ok := strings.CutPrefix(v, "SUPERLOOP_LOOP_DIR="); ok {
			dir = v
		}
	}
	loops := filepath.Dir(f.Paths.Loop)
	switch {
	case marker == "" || dir == "":
		return "", errors.New("no run of superloop has started it")
	case marker == effects.Mark(s.RunID):
		return "", errors.New("it is this run's own")
	case filepath.Dir(filepath.Clean(dir)) != loops:
		return "", errors.New("it is another repository's")
	case filepath.Clean(dir) == f.Paths.Loop:
		return marker, nil // this supervisor holds the loop's lock, so its earlier runs are over
	}
	_, locked, err := durable.Holder(filepath.Join(filepath.Clean(dir), "lock"))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case locked:
		return "", errors.New("its loop has a supervisor")
	}
	return marker, nil
}

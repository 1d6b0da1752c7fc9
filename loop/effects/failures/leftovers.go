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

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/effects"
)

// CategoryPort is the category of failures in which a leftover of an earlier run can have the port.
const CategoryPort = "port_in_use"

// EndLeftovers ends processes that earlier runs of a repository's loops have left behind, and returns their numbers and
// the ids of the runs. A supervisor that was killed may leave a server behind on a system without better containment.
// EndLeftovers spares a process that is not certainly superloop's, or whose run may still be alive. loops is the
// directory of the repository's loops. mine is the directory of the loop whose lock the caller holds and run its run,
// whose processes are spared; both are "" for a caller that is no loop.
func (p ProcessTable) EndLeftovers(loops, mine, run string) (killed []int, runs []string) {
	entries, err := os.ReadDir(p.Dir)
	if err != nil {
		return nil, nil // a system without this directory: superloop cannot see its processes
	}
	markers := map[string]bool{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid > 1 {
			if marker, err := p.leftover(loops, mine, run, pid); err == nil {
				markers[marker] = true
			}
		}
	}
	for _, marker := range slices.Sorted(maps.Keys(markers)) {
		killed = append(killed, p.Sweep(marker)...)
		runs = append(runs, strings.TrimPrefix(marker, effects.Mark("")))
	}
	return killed, runs
}

// leftover returns the mark of the earlier run that started a process. The error says why it is not certain that an
// earlier run did.
func (p ProcessTable) leftover(loops, mine, run string, pid int) (string, error) {
	env, err := os.ReadFile(filepath.Join(p.Dir, strconv.Itoa(pid), "environ"))
	if err != nil {
		return "", err
	}
	var marker, dir string
	for _, e := range bytes.Split(env, []byte{0}) {
		if v := string(e); strings.HasPrefix(v, effects.Mark("")) {
			marker = v
		} else if v, ok := strings.CutPrefix(v, "SUPERLOOP_LOOP_DIR="); ok {
			dir = filepath.Clean(v)
		}
	}
	switch {
	case marker == "" || dir == "":
		return "", errors.New("no run of superloop has started it")
	case marker == effects.Mark(run):
		return "", errors.New("it is this run's own")
	case filepath.Dir(dir) != loops:
		return "", errors.New("it is another repository's")
	case dir == mine:
		return marker, nil // the caller holds the loop's lock, so its earlier runs are over
	}
	_, locked, err := durable.Holder(filepath.Join(dir, "lock"))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case locked:
		return "", errors.New("its loop has a supervisor")
	}
	return marker, nil
}

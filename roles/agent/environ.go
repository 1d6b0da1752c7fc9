package agent

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ownPrefix marks the variables between superloop and what it starts.
const ownPrefix = "SUPERLOOP_"

// MarkVariable carries the run id in the environment of every process of a
// run, so that the processes of a dead supervisor can be told from others.
const MarkVariable = "SUPERLOOP_MARK"

// environment is what the agent gets, sorted by name, each name once. From the
// weakest to the strongest: the supervisor's own environment (an agent needs
// its owner's logins), the adapter's additions, the runner's Env, and what the
// contract promises.
//
// Of the supervisor's environment everything named SUPERLOOP_* stays behind:
// it steers this supervisor or its tests, or belongs to an outer superloop in
// whose agent this one runs, and would tell the agent of another loop. An
// owner who wants one passed on names it in the runner's Env.
func environment(base []string, adapter, runner map[string]string, req Request) []string {
	all := map[string]string{}
	for _, e := range base {
		name, value, ok := strings.Cut(e, "=")
		if ok && validName(name) && !strings.HasPrefix(name, ownPrefix) {
			all[name] = value
		}
	}
	maps.Copy(all, adapter)
	maps.Copy(all, runner)
	maps.Copy(all, map[string]string{
		"PWD":                         req.WorkDir,
		MarkVariable:                  req.RunID,
		"SUPERLOOP_LOOP":              req.Loop,
		"SUPERLOOP_RUN_ID":            req.RunID,
		"SUPERLOOP_ITERATION":         strconv.Itoa(req.Iteration),
		"SUPERLOOP_ROLE":              req.Role,
		"SUPERLOOP_ATTEMPT":           strconv.Itoa(req.Attempt),
		"SUPERLOOP_MODEL":             req.Model,
		"SUPERLOOP_REPO":              req.Repo,
		"SUPERLOOP_LOOP_DIR":          req.LoopDir,
		"SUPERLOOP_LAST_MESSAGE_FILE": req.LastMessageFile,
	})
	list := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list
}

func validName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "=\x00")
}

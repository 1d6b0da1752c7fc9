package agent

import (
	"cmp"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/roles/agent/class"
)

var codexRollout = paths{
	64:  "type payload.type payload.usage.* payload.thread_token_usage.* payload.info.total_token_usage.* payload.rate_limits.*.*",
	256: "payload.session_id payload.root_turn_id payload.model",
}.lazy()

// Bounds of the search: directories of days for a session, and files for sub-agents.
const maxDays, maxRollouts = 4096, 1024

// Recover finds in the files of the session what the stream did not tell: the usage of a turn that failed, the usage of
// sub-agents, which no event has, the model, and the time at which a limit ends.
func (s *codexStream) Recover(env []string, _ string, l *Learned) {
	if !s.began || checkSession(s.session) != nil {
		return
	}
	root, err := os.OpenRoot(filepath.Join(codexHome(env), "sessions"))
	if err != nil {
		return
	}
	defer root.Close()
	path := ""
	for file := range codexFiles(root) {
		if strings.HasSuffix(file, "-"+s.session+".jsonl") {
			path = file
			break
		}
	}
	if path == "" {
		return
	}
	r := rollout{}
	readTranscript(root, path, codexRollout(), r.main)
	l.Model = cmp.Or(l.Model, r.model)
	if l.Limit != nil && l.Class == class.Limit && l.Limit.ResetsAt.IsZero() {
		l.Limit.ResetsAt = r.resets
	}
	now := disjoint(r.thread)
	if _, known := now.Total(); !known || !s.completed && s.stale(now) {
		return
	}
	l.Totals = &Totals{Usage: now}
	if _, told := l.Usage.Total(); s.completed && !s.agents && told {
		return
	}
	// Newer releases record the usage of each turn, older ones only that of the thread.
	switch {
	case r.records == 0:
		if used := s.since(now); used != (Usage{}) {
			l.Usage = used
		}
	case s.agents:
		s.others(root, path, &r)
		fallthrough
	default:
		l.Usage = disjoint(r.turn)
	}
}

// stale reports whether the thread's counters are still those of the previous run. Then this run has used nothing.
func (s *codexStream) stale(now Usage) bool {
	if !s.continued() || s.resume.Totals == nil {
		return false
	}
	since, ok := now.minus(s.resume.Totals.Usage)
	n, _ := since.Total()
	return ok && n == 0
}

// others adds the usage of the turn's sub-agents. They write files of their own, at the same time as the main agent.
func (s *codexStream) others(root *os.Root, path string, r *rollout) {
	info, err := root.Lstat(path)
	if err != nil {
		return
	}
	since := info.ModTime().Add(-s.took - time.Minute)
	looked := 0
	for other, e := range codexFiles(root) {
		if filepath.Dir(other) < filepath.Dir(path) || looked == maxRollouts {
			return
		}
		file, err := e.Info()
		if other == path || err != nil || file.ModTime().Before(since) || filepath.Ext(other) != ".jsonl" {
			continue
		}
		looked++
		readTranscript(root, other, codexRollout(), func(e event) bool {
			switch e.str("type") {
			case "session_meta":
				return e.str("payload.session_id") == s.session
			case "token_usage_record":
				if e.str("payload.root_turn_id") == r.turnID {
					r.turn = r.turn.plus(e.counters("payload.usage.*", codexNames))
				}
			}
			return true
		})
	}
}

// codexFiles returns the files sessions/YEAR/MONTH/DAY/*, the last day first.
func codexFiles(root *os.Root) iter.Seq2[string, os.DirEntry] {
	days := []string{"."}
	for range 3 {
		var next []string
		for _, dir := range days {
			for _, e := range listDir(root, dir) {
				if e.IsDir() {
					next = append(next, filepath.Join(dir, e.Name()))
				}
			}
		}
		slices.Sort(next)
		slices.Reverse(next)
		days = next[:min(len(next), maxDays)]
	}
	return func(yield func(string, os.DirEntry) bool) {
		for _, day := range days {
			for _, e := range listDir(root, day) {
				if !yield(filepath.Join(day, e.Name()), e) {
					return
				}
			}
		}
	}
}

type rollout struct {
	model   string
	turnID  string
	turn    Usage // usage of the last turn
	records int   // number of records that turn is the sum of
	thread  Usage
	resets  time.Time // when the last of the exhausted windows opens again
}

func (r *rollout) main(e event) bool {
	kind := e.str("type")
	if kind == "event_msg" {
		kind = e.str("payload.type")
	}
	id := e.str("payload.root_turn_id")
	if kind == "task_started" || kind == "token_usage_record" && id != r.turnID {
		r.turnID, r.turn, r.records = id, Usage{}, 0
	}
	switch kind {
	case "turn_context":
		r.model = cmp.Or(e.str("payload.model"), r.model)
	case "token_usage_record":
		r.records++
		r.turn = r.turn.plus(e.counters("payload.usage.*", codexNames))
		r.thread = e.counters("payload.thread_token_usage.*", codexNames)
	case "token_count":
		if u := e.counters("payload.info.total_token_usage.*", codexNames); u.Input != nil {
			r.thread = u
		}
		r.windows(e)
	}
	return true
}

func (r *rollout) windows(e event) {
	full, resets := map[string]bool{}, map[string]int64{}
	for v := range e.all("payload.rate_limits.*.*") {
		switch v.Keys[1] {
		case "used_percent":
			percent, ok := fraction(v)
			full[v.Keys[0]] = ok && percent >= 100
		case "resets_at":
			resets[v.Keys[0]], _ = number(v)
		}
	}
	r.resets = time.Time{}
	for name, at := range resets {
		if opens := time.Unix(at, 0); full[name] && at > 0 && opens.After(r.resets) {
			r.resets = opens
		}
	}
}

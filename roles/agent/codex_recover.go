package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/jsonstream"
	"github.com/superloop/superloop/roles/agent/class"
)

const (
	rolloutType = iota
	rolloutKind
	rolloutSession
	rolloutTurn
	rolloutModel
	rolloutUsage
	rolloutThread
	rolloutTotal
	rolloutLimits
)

var codexRollout = jsonstream.Lazy(
	jsonstream.Want{Path: "type", Max: 64},
	jsonstream.Want{Path: "payload.type", Max: 64},
	jsonstream.Want{Path: "payload.session_id", Max: 256},
	jsonstream.Want{Path: "payload.root_turn_id", Max: 256},
	jsonstream.Want{Path: "payload.model", Max: 256},
	jsonstream.Want{Path: "payload.usage.*", Max: 64},
	jsonstream.Want{Path: "payload.thread_token_usage.*", Max: 64},
	jsonstream.Want{Path: "payload.info.total_token_usage.*", Max: 64},
	jsonstream.Want{Path: "payload.rate_limits.*.*", Max: 64},
)

const (
	maxDays     = 4096 // directories of days that are looked at for a session
	maxRollouts = 1024 // files that are looked at for sub-agents
)

// Recover finds in the files of the session what the stream did not tell: the
// usage of a turn that did not end well, that of the sub-agents, which no event
// has, the model, and when a limit ends.
func (s *codexStream) Recover(env []string, _ string, l *Learned) {
	if !s.began || checkSession(s.thread) != nil {
		return
	}
	root, err := os.OpenRoot(filepath.Join(codexHome(env), "sessions"))
	if err != nil {
		return
	}
	defer root.Close()
	days := codexDays(root)
	path := ""
	for _, day := range days {
		for _, e := range listDir(root, day) {
			if strings.HasSuffix(e.Name(), "-"+s.thread+".jsonl") {
				path = filepath.Join(day, e.Name())
			}
		}
		if path != "" {
			break
		}
	}
	if path == "" {
		return
	}
	r := rollout{}
	readTranscript(root, path, codexRollout(), r.main)
	if l.Model == "" {
		l.Model = r.model
	}
	if l.Limit != nil && l.Class == class.Limit && l.Limit.ResetsAt.IsZero() {
		l.Limit.ResetsAt = r.resets
	}
	now := r.thread.disjoint()
	if _, known := now.Total(); !known || !s.completed && s.stale(now) {
		return
	}
	l.Totals = &Totals{Usage: now}
	if !s.completed || s.agents || !s.known(l) {
		s.count(root, days, path, &r, l)
	}
}

func (s *codexStream) known(l *Learned) bool {
	_, ok := l.Usage.Total()
	return ok
}

// stale reports whether the thread's counters are still those of the run
// before: then this one did not come so far as to use anything.
func (s *codexStream) stale(now Usage) bool {
	if !s.continued() || s.session.Totals == nil {
		return false
	}
	since, ok := now.minus(s.session.Totals.Usage)
	n, _ := since.Total()
	return ok && n == 0
}

// count gives the usage of this run: of its turn where releases keep that, with
// its sub-agents, else of the thread since the run before.
func (s *codexStream) count(root *os.Root, days []string, path string, r *rollout, l *Learned) {
	if r.records > 0 {
		if s.agents {
			s.others(root, days, path, r)
		}
		l.Usage = r.turn.disjoint()
		return
	}
	now := r.thread.disjoint()
	switch {
	case !s.resumed, s.session != nil && !s.continued():
		l.Usage = now
	case s.session != nil && s.session.Totals != nil:
		if since, ok := now.minus(s.session.Totals.Usage); ok {
			l.Usage = since
		}
	}
}

// others adds the sub-agents of the turn. They write files of their own, at the
// same time as the main one.
func (s *codexStream) others(root *os.Root, days []string, path string, r *rollout) {
	info, err := root.Lstat(path)
	if err != nil {
		return
	}
	since := info.ModTime().Add(-s.took - time.Minute)
	looked := 0
	for _, day := range days {
		if day < filepath.Dir(path) {
			return
		}
		for _, e := range listDir(root, day) {
			other := filepath.Join(day, e.Name())
			file, err := e.Info()
			if other == path || err != nil || file.ModTime().Before(since) || filepath.Ext(other) != ".jsonl" {
				continue
			}
			if looked++; looked > maxRollouts {
				return
			}
			readTranscript(root, other, codexRollout(), func(line *jsonstream.Line) bool {
				switch line.String(rolloutType) {
				case "session_meta":
					return line.String(rolloutSession) == s.thread
				case "token_usage_record":
					if line.String(rolloutTurn) == r.turnID {
						r.turn = r.turn.plus(readCodexCount(line, rolloutUsage, 0))
					}
				}
				return true
			})
		}
	}
}

// codexDays are the directories sessions/YEAR/MONTH/DAY, the last day first.
func codexDays(root *os.Root) (days []string) {
	level := []string{"."}
	for range 3 {
		var next []string
		for _, dir := range level {
			for _, e := range listDir(root, dir) {
				if e.IsDir() {
					next = append(next, filepath.Join(dir, e.Name()))
				}
			}
		}
		slices.Sort(next)
		slices.Reverse(next)
		level = next[:min(len(next), maxDays)]
	}
	return level
}

// rollout is what a session's file tells of its last turn.
type rollout struct {
	model   string
	turnID  string
	turn    codexCount // of the last turn
	records int        // how many it is the sum of
	thread  codexCount
	resets  time.Time // when the last of the windows that are used up opens
}

func (r *rollout) main(l *jsonstream.Line) bool {
	switch l.String(rolloutType) {
	case "turn_context":
		if model := l.String(rolloutModel); model != "" {
			r.model = model
		}
	case "token_usage_record":
		if id := l.String(rolloutTurn); id != r.turnID {
			r.turnID, r.turn, r.records = id, codexCount{}, 0
		}
		r.records++
		r.turn = r.turn.plus(readCodexCount(l, rolloutUsage, 0))
		r.thread = readCodexCount(l, rolloutThread, 0)
	case "event_msg":
		switch l.String(rolloutKind) {
		case "task_started":
			r.turnID, r.turn, r.records = l.String(rolloutTurn), codexCount{}, 0
		case "token_count":
			if c := readCodexCount(l, rolloutTotal, 0); c.input != nil {
				r.thread = c
			}
			r.windows(l)
		}
	}
	return true
}

func (r *rollout) windows(l *jsonstream.Line) {
	used, resets := map[string]int64{}, map[string]int64{}
	for v := range l.All(rolloutLimits) {
		switch v.Keys[1] {
		case "used_percent":
			if f, ok := fraction(v); ok {
				used[v.Keys[0]] = int64(f)
			}
		case "resets_at":
			resets[v.Keys[0]], _ = number(v)
		}
	}
	r.resets = time.Time{}
	for name, percent := range used {
		if at := time.Unix(resets[name], 0); percent >= 100 && resets[name] > 0 && at.After(r.resets) {
			r.resets = at
		}
	}
}

func (c codexCount) plus(d codexCount) codexCount {
	add := func(a, b *int64) *int64 {
		if a == nil && b == nil {
			return nil
		}
		sum := deref(a) + deref(b)
		return &sum
	}
	return codexCount{add(c.input, d.input), add(c.cached, d.cached), add(c.written, d.written), add(c.output, d.output), add(c.reasoning, d.reasoning)}
}

package agent

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"github.com/superloop/superloop/internal/pattern"
)

var claudeTranscript = paths{64: "type timestamp message.usage.*", 256: "message.id message.model"}.lazy()

// Recover finds the usage of a run that ended without a result in the session's
// file, where each answer has its final usage, and in those of its sub-agents.
// Requests on the side are in none of them, so the figures are the least that
// was used; the cost stays unknown.
//
// The file of a session has all its runs, one after the other: this one begins
// with the first message that its stream showed.
func (s *claudeStream) Recover(env []string, workdir string, l *Learned) {
	if s.counts.results > 0 || s.counts.first == "" || checkSession(s.session) != nil {
		return
	}
	root, err := os.OpenRoot(filepath.Join(claudeHome(env), "projects"))
	if err != nil {
		return
	}
	defer root.Close()
	dir := claudeProject(root, workdir, s.session)
	if dir == "" {
		return
	}
	k := claudeFiled{models: map[string]modelCount{}, last: map[string]Usage{}}
	began, since := false, ""
	readTranscript(root, filepath.Join(dir, s.session+".jsonl"), claudeTranscript(), func(e event) bool {
		if !began && e.str("message.id") == s.counts.first {
			began, since = true, e.str("timestamp")
		}
		if began {
			k.add(e)
		}
		return true
	})
	if !began {
		return
	}
	agents := filepath.Join(dir, s.session, "subagents")
	for _, file := range listDir(root, agents) {
		if filepath.Ext(file.Name()) == ".jsonl" {
			readTranscript(root, filepath.Join(agents, file.Name()), claudeTranscript(), func(e event) bool {
				if e.str("timestamp") >= since {
					k.add(e)
				}
				return true
			})
		}
	}
	told := s.counts.started // the answer that was under way may not be kept
	told.Output = nil
	l.Usage = total(k.models).combined(told, larger).filled()
	l.Model = cmp.Or(mostOutput(k.models), l.Model)
}

var notPlain = pattern.Lazy(`[^a-zA-Z0-9]`)

// claudeProject is the directory of the session's file: it is named after the
// directory that the CLI ran in, long names with a digest.
func claudeProject(root *os.Root, workdir, session string) string {
	has := func(dir string) bool {
		info, err := root.Lstat(filepath.Join(dir, session+".jsonl"))
		return err == nil && info.Mode().IsRegular()
	}
	if dir := notPlain().ReplaceAllString(workdir, "-"); has(dir) {
		return dir
	}
	for _, e := range listDir(root, ".") {
		if e.IsDir() && has(e.Name()) {
			return e.Name()
		}
	}
	return ""
}

// claudeFiled is what a session's files tell. A message comes with each of its
// blocks; the last time its usage is complete.
type claudeFiled struct {
	models map[string]modelCount
	ids    recent
	last   map[string]Usage // of the ids
}

func (k *claudeFiled) add(e event) {
	id, model := e.str("message.id"), e.str("message.model")
	m, known := k.models[model]
	if e.str("type") != "assistant" || id == "" || model == claudeSynthetic || !known && len(k.models) == maxModels {
		return
	}
	if k.ids.add(id) {
		for old := range k.last {
			if len(k.last) >= maxIDs && !slices.Contains(k.ids.ids, old) {
				delete(k.last, old)
			}
		}
	}
	now, had := e.counters("message.usage.*", claudeNames), k.last[id]
	grown := now.combined(had, func(n, h int64) int64 { return max(0, n-h) })
	k.models[model] = m.plus(modelCount{name: model, Usage: grown})
	k.last[id] = now.combined(had, larger)
}

func larger(a, b int64) int64 { return max(a, b) }

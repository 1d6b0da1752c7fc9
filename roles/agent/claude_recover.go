package agent

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/superloop/superloop/internal/jsonstream"
	"github.com/superloop/superloop/internal/pattern"
)

const (
	claudeKeptType = iota
	claudeKeptTime
	claudeKeptID
	claudeKeptModel
	claudeKeptUsage
)

var claudeTranscript = jsonstream.Lazy(
	jsonstream.Want{Path: "type", Max: 64},
	jsonstream.Want{Path: "timestamp", Max: 64},
	jsonstream.Want{Path: "message.id", Max: 256},
	jsonstream.Want{Path: "message.model", Max: 256},
	jsonstream.Want{Path: "message.usage.*", Max: 64},
)

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
	k := claudeFiled{}
	began := false
	readTranscript(root, filepath.Join(dir, s.session+".jsonl"), claudeTranscript(), func(line *jsonstream.Line) bool {
		if !began && line.String(claudeKeptID) == s.counts.first {
			began, k.since = true, line.String(claudeKeptTime)
		}
		if began {
			k.add(line)
		}
		return true
	})
	if !began {
		return
	}
	agents := filepath.Join(dir, s.session, "subagents")
	for _, e := range listDir(root, agents) {
		if filepath.Ext(e.Name()) == ".jsonl" {
			readTranscript(root, filepath.Join(agents, e.Name()), claudeTranscript(), func(line *jsonstream.Line) bool {
				if line.String(claudeKeptTime) >= k.since {
					k.add(line)
				}
				return true
			})
		}
	}
	sum := total(k.models)
	told := s.counts.started // the answer that was under way may not be kept
	sum.input, sum.read, sum.written = max(sum.input, told.input), max(sum.read, told.read), max(sum.written, told.written)
	l.Usage = sum.usage()
	if name := mostOutput(k.models); name != "" {
		l.Model = name
	}
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
	since  string
	models map[string]*modelCount
	ids    recent
	last   map[string]modelCount // of the ids
}

func (k *claudeFiled) add(l *jsonstream.Line) {
	id, model := l.String(claudeKeptID), l.String(claudeKeptModel)
	if l.String(claudeKeptType) != "assistant" || id == "" || model == claudeSynthetic {
		return
	}
	if k.models == nil {
		k.models, k.last = map[string]*modelCount{}, map[string]modelCount{}
	}
	m := k.models[model]
	if m == nil {
		if len(k.models) == maxModels {
			return
		}
		m = &modelCount{name: model}
		k.models[model] = m
	}
	now := readTurn(l, claudeKeptUsage)
	if k.ids.add(id) {
		for old := range k.last {
			if len(k.last) >= maxIDs && !slices.Contains(k.ids.ids, old) {
				delete(k.last, old)
			}
		}
	}
	had := k.last[id]
	m.input += max(0, now.input-had.input)
	m.output += max(0, now.output-had.output)
	m.read += max(0, now.read-had.read)
	m.written += max(0, now.written-had.written)
	k.last[id] = modelCount{
		input: max(now.input, had.input), output: max(now.output, had.output),
		read: max(now.read, had.read), written: max(now.written, had.written),
	}
}

package agent

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

const maxModels, maxIDs = 64, 64 // bounds of the models of one run, and of the messages that are under way at a time

var (
	claudeNames      = counterNames{"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}
	claudeModelNames = counterNames{"inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "thinkingTokens"}
)

// claudeCounts collects the tokens and costs that the stream tells. Only the counters per model are exact. They include
// the requests of sub-agents, the side requests, and the last turn before a budget ends the run, all of which
// result.usage leaves out. Newer releases count them by session and tell those of the run in
// model_usage_since_last_result. Release 2.1.197 counts by run.
type claudeCounts struct {
	turns    Usage                 // sum of result.usage of all results
	models   map[string]modelCount // modelUsage of the last result
	since    map[string]modelCount // sum of model_usage_since_last_result of all results
	cost     *float64              // total_cost_usd of the last result
	results  int
	hasSince bool

	// The usage in the messages before a result. At the beginning of an answer the input is known, but not the output.
	started  Usage
	messages recent
	first    string // id of the first message
	answerer string
}

// modelCount is the usage of one model, or of several together.
type modelCount struct {
	name string
	Usage
	cost     float64
	unpriced bool
}

func (a modelCount) plus(b modelCount) modelCount {
	return modelCount{name: b.name, Usage: a.Usage.plus(b.Usage), cost: a.cost + b.cost, unpriced: a.unpriced || b.unpriced}
}

func total(models map[string]modelCount) (sum modelCount) {
	for _, m := range models {
		sum = sum.plus(m)
	}
	return sum
}

// filled returns u with all four kinds known. A kind that this CLI leaves out is 0.
func (u Usage) filled() Usage {
	var zero int64
	u = u.plus(Usage{Input: &zero, Output: &zero, CacheRead: &zero, CacheWrite: &zero})
	if u.Reasoning != nil {
		*u.Reasoning = max(0, min(*u.Reasoning, *u.Output))
	}
	return u
}

// covers reports whether the four kinds are at least those of v.
func (u Usage) covers(v Usage) bool {
	u = u.filled()
	u.Reasoning = nil
	_, ok := u.minus(v)
	return ok
}

// message records the usage at the beginning of an answer. The CLI repeats it with every block of the answer.
func (c *claudeCounts) message(e event, model string) {
	c.answerer = cmp.Or(model, c.answerer)
	if id := e.str("message.id"); id != "" {
		c.first = cmp.Or(c.first, id)
		c.started = c.started.plus(c.messages.more(id, e.counters("message.usage.*", claudeNames)))
	}
}

func (c *claudeCounts) result(e event) {
	turn := e.counters("usage.*", claudeNames)
	turn.Reasoning = e.count("usage.output_tokens_details.thinking_tokens")
	c.turns = c.turns.plus(turn)
	c.models = map[string]modelCount{}
	addModels(e, "modelUsage.*.*", c.models)
	addModels(e, "model_usage_since_last_result.*.*", c.since)
	if v, ok := e.last("model_usage_since_last_result"); ok && v.Type == 'o' {
		c.hasSince = true
	}
	c.cost = nil
	if cost, ok := e.float("total_cost_usd"); ok && cost >= 0 && !math.IsInf(cost, 0) {
		c.cost = &cost
	}
	c.results++
}

// learn writes the figures of this run and of the session into l. resumed says that the session may have had earlier
// runs; before holds its counters then.
func (c *claudeCounts) learn(l *Learned, resumed bool, before *Totals) {
	l.Model, l.Totals = strings.TrimSuffix(c.answerer, "[1m]"), before
	if c.results == 0 {
		if c.first != "" {
			l.Usage = c.started.filled()
			l.Usage.Output = nil
		}
		return
	}
	all, since := total(c.models), total(c.since)
	run := c.turns
	switch {
	case c.hasSince:
		run = since.Usage
		if !since.unpriced {
			l.CostUSD = &since.cost
		}
	case len(c.models) == 0:
		if !resumed {
			l.CostUSD = c.cost
		}
	case !resumed, all.covers(run) && run.covers(all.Usage):
		run, l.CostUSD = all.Usage, c.cost
	case before == nil: // it is unknown whether the counters are those of the session or of the run
	case all.covers(before.Usage.plus(run)): // the counters are those of the session
		run, _ = all.minus(before.Usage)
		if c.cost != nil && before.CostUSD != nil {
			left := max(0, *c.cost-*before.CostUSD)
			l.CostUSD = &left
		}
	default:
		run, l.CostUSD = all.Usage, c.cost
	}
	if all.unpriced && !c.hasSince {
		l.CostUSD = nil
	}
	l.Usage, l.Totals = run.filled(), nil
	best := c.since
	if len(c.models) > 0 {
		l.Totals = &Totals{Usage: all.filled(), CostUSD: c.cost}
		if !c.hasSince {
			best = c.models
		}
	}
	l.Model = cmp.Or(mostOutput(best), l.Model)
}

func mostOutput(models map[string]modelCount) string {
	name, most := "", int64(-1)
	for _, m := range models {
		if n := deref(m.Output); n > most || n == most && m.name < name {
			name, most = m.name, n
		}
	}
	return strings.TrimSuffix(name, "[1m]")
}

func addModels(e event, path string, to map[string]modelCount) {
	now := map[string]modelCount{}
	for v := range e.all(path) {
		key, field := v.Keys[0], v.Keys[1]
		m := now[key]
		switch m.name = cmp.Or(m.name, key); {
		case field == "canonicalModel" && v.Type == 's' && len(v.Raw) > 0:
			m.name = string(v.Raw)
		case field == "costBasis" && string(v.Raw) == "unknown":
			m.unpriced = true
		case field == "costUSD":
			cost, ok := fraction(v)
			m.cost, m.unpriced = cost, m.unpriced || !ok || cost < 0
		case slices.Contains(claudeModelNames[:], field):
			m.take(v, claudeModelNames)
		default:
			continue
		}
		now[key] = m
	}
	for key, m := range now {
		if old, known := to[key]; known || len(to) < maxModels {
			to[key] = old.plus(m)
		}
	}
}

// recent holds the usage that the stream has told for the last maxIDs answers.
type recent []struct {
	id   string
	told Usage
}

// more returns by how much the usage of an answer now exceeds the usage told for it before.
func (r *recent) more(id string, now Usage) Usage {
	i := 0
	for i < len(*r) && (*r)[i].id != id {
		i++
	}
	if i == len(*r) {
		*r = append((*r)[max(0, i+1-maxIDs):], recent{{id: id}}...)
		i = len(*r) - 1
	}
	before := (*r)[i].told
	(*r)[i].told = now.combined(before, larger)
	return now.combined(before, func(n, b int64) int64 { return max(0, n-b) })
}

func larger(a, b int64) int64 { return max(a, b) }

var claudeTranscript = paths{64: "type timestamp message.usage.*", 256: "message.id message.model"}.lazy()

// Recover finds the usage of a run without a result in the session's file, where each answer has its final usage, and
// in the files of its sub-agents. None of these files has the side requests, so the figures are a lower bound, and the
// cost stays unknown. The file has all runs of the session, one after the other. This run begins with the first message
// that its stream showed.
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
	models, answers := map[string]modelCount{}, recent{}
	add := func(e event) { // the last block of an answer has the complete usage
		id, model := e.str("message.id"), e.str("message.model")
		m, known := models[model]
		if e.str("type") == "assistant" && id != "" && model != claudeSynthetic && (known || len(models) < maxModels) {
			models[model] = m.plus(modelCount{name: model, Usage: answers.more(id, e.counters("message.usage.*", claudeNames))})
		}
	}
	began, since := false, ""
	readTranscript(root, filepath.Join(dir, s.session+".jsonl"), claudeTranscript(), func(e event) bool {
		if !began && e.str("message.id") == s.counts.first {
			began, since = true, e.str("timestamp")
		}
		if began {
			add(e)
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
					add(e)
				}
				return true
			})
		}
	}
	told := s.counts.started // the files may lack the answer that was under way
	told.Output = nil
	l.Usage = total(models).combined(told, larger).filled()
	l.Model = cmp.Or(mostOutput(models), l.Model)
}

var notPlain = pattern.Lazy(`[^a-zA-Z0-9]`)

// claudeProject returns the directory of the session's file. The CLI names it after the directory of the run, and
// shortens a long name with a digest.
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

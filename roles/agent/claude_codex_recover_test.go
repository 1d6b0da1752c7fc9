package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

const (
	oneSession  = "11111111-2222-4333-8444-555555555555"
	otherThread = "22222222-2222-4333-8444-555555555555"
)

func put(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// answer is a line of claude's session file.
func answer(second int, id, model string, in, out int) string {
	return fmt.Sprintf(`{"type":"assistant","timestamp":"2026-11-21T08:00:%02d.000Z","message":{"id":%q,"model":%q,"usage":{"input_tokens":%d,"output_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":1}}}`, second, id, model, in, out, in*10)
}

func TestClaudeRecover(t *testing.T) {
	t.Parallel()
	killed := `{"type":"system","subtype":"init","session_id":"` + oneSession + `"}
{"type":"assistant","message":{"id":"m3","model":"big","content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":30,"cache_creation_input_tokens":1,"output_tokens":1}},"session_id":"` + oneSession + `"}
`
	session := []string{
		`{"type":"user","timestamp":"2026-11-21T08:00:00.000Z","message":{"role":"user","content":"before"}}`,
		answer(1, "m1", "big", 1000, 1000), // the run before
		answer(3, "m3", "big", 3, 1), answer(3, "m3", "big", 3, 33), answer(4, "m3", "big", 3, 33),
		`not JSON`, `{"type":"assistant","message":{"id":"x","model":"<synthetic>","usage":{"input_tokens":9,"output_tokens":9}}}`,
		answer(5, "m4", "big", 4, 44), `{"type":"assistant","timestamp":"2026-11-21T08:00:06`,
	}
	agents := []string{answer(2, "a1", "small", 500, 500), answer(4, "a2", "small", 5, 500)}
	run := func(t *testing.T, home, workdir, stream string) Learned {
		s := streamOf("claude", nil)
		s.Stdout([]byte(stream))
		got := s.Finish(proc.Result{Ended: proc.Killed})
		s.(Recoverer).Recover([]string{"HOME=" + home}, workdir, &got)
		return got
	}
	for name, dir := range map[string]string{"named after the directory": "-work-my-repo", "named otherwise": "-very-long-a1b2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			base := filepath.Join(home, ".claude", "projects", dir)
			put(t, filepath.Join(base, oneSession+".jsonl"), session...)
			put(t, filepath.Join(base, oneSession, "subagents", "agent-1.jsonl"), agents...)
			put(t, filepath.Join(base, oneSession, "subagents", "agent-1.meta.json"), "{}")
			put(t, filepath.Join(base, "other.jsonl"), answer(4, "o", "big", 7, 7))
			got := run(t, home, "/work/my.repo", killed)
			if usageWord(got.Usage) != "12+120r+3w>577(?)" || got.Model != "small" || got.CostUSD != nil || got.Class != class.NoResult {
				t.Errorf("%s by %s: %+v", usageWord(got.Usage), got.Model, got)
			}
		})
	}
	t.Run("nothing to be found", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		const told = "3+30r+1w>?(?)"
		if got := run(t, home, "/work", killed); usageWord(got.Usage) != told {
			t.Errorf("%s", usageWord(got.Usage))
		}
		// Nothing but a regular file below the CLI's own directory is read.
		outside := filepath.Join(t.TempDir(), "outside.jsonl")
		put(t, outside, session...)
		base := filepath.Join(home, ".claude", "projects", "-work")
		if err := os.MkdirAll(base, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(base, oneSession+".jsonl")
		if err := os.Symlink(outside, path); err != nil {
			t.Fatal(err)
		}
		if got := run(t, home, "/work", killed); usageWord(got.Usage) != told {
			t.Errorf("through a link: %s", usageWord(got.Usage))
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := run(t, home, "/work", killed); usageWord(got.Usage) != told {
			t.Errorf("from a pipe: %s", usageWord(got.Usage))
		}
		for _, id := range []string{"../../../outside", "-x", ""} {
			if got := run(t, home, "/work", strings.ReplaceAll(killed, oneSession, id)); usageWord(got.Usage) != told {
				t.Errorf("session %q: %s", id, usageWord(got.Usage))
			}
		}
	})
	t.Run("a result needs nothing", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		put(t, filepath.Join(home, ".claude", "projects", "-work", oneSession+".jsonl"), session...)
		got := run(t, home, "/work", killed+`{"type":"result","subtype":"success","is_error":false,"usage":{"input_tokens":1,"output_tokens":2}}`+"\n")
		if usageWord(got.Usage) != "1+0r+0w>2(?)" {
			t.Errorf("%s", usageWord(got.Usage))
		}
	})
}

// counted is a line of codex's session file.
func counted(turn string, in, thread int) string {
	usage := func(n int) string {
		return fmt.Sprintf(`{"input_tokens":%d,"cached_input_tokens":%d,"cache_write_input_tokens":1,"output_tokens":%d,"reasoning_output_tokens":2}`, n*10, n, n)
	}
	return fmt.Sprintf(`{"type":"token_usage_record","payload":{"root_turn_id":%q,"usage":%s,"thread_token_usage":%s}}`, turn, usage(in), usage(thread))
}

func TestCodexRecover(t *testing.T) {
	t.Parallel()
	meta := func(session string) string {
		return fmt.Sprintf(`{"type":"session_meta","payload":{"session_id":%q,"base_instructions":{"text":%q}}}`, session, strings.Repeat("x", 20000))
	}
	began := func(turn string) string {
		return fmt.Sprintf(`{"type":"event_msg","payload":{"type":"task_started","root_turn_id":%q}}`, turn)
	}
	model := `{"type":"turn_context","payload":{"model":"gpt-x"}}`
	older := func(n int) string {
		return fmt.Sprintf(`{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,"cached_input_tokens":%d,"output_tokens":%d,"reasoning_output_tokens":2}},"rate_limits":{"primary":{"used_percent":100.0,"resets_at":1795257266},"secondary":{"used_percent":40,"resets_at":1895257266}}}}`, n*10, n, n)
	}
	killed := `{"type":"thread.started","thread_id":"` + oneSession + `"}` + "\n" + `{"type":"turn.started"}` + "\n"
	spawned := `{"type":"item.completed","item":{"type":"collab_tool_call","tool":"spawn_agent","status":"completed"}}` + "\n"
	limit := `{"type":"error","message":"Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests)"}` + "\n"
	done := `{"type":"turn.completed","usage":{"input_tokens":70,"cached_input_tokens":7,"cache_write_input_tokens":1,"output_tokens":7,"reasoning_output_tokens":2}}` + "\n"
	n := func(v int64) *int64 { return &v }
	before := &Session{ID: oneSession, Totals: &Totals{Usage: Usage{Input: n(17), Output: n(2), CacheRead: n(2), CacheWrite: n(1), Reasoning: n(2)}}}
	for name, c := range map[string]struct {
		file    []string
		sub     []string
		stream  string
		session *Session
		want    string
		model   string
		reset   int64
	}{
		"killed":           {file: []string{meta(oneSession), began("a"), model, counted("a", 3, 3), counted("a", 4, 7)}, stream: killed, want: "61+7r+2w>7(4)", model: "gpt-x"},
		"killed, resumed":  {file: []string{meta(oneSession), began("a"), counted("a", 3, 3), began("b"), counted("b", 4, 7)}, stream: killed, session: &Session{ID: oneSession}, want: "35+4r+1w>4(2)"},
		"nothing yet":      {file: []string{meta(oneSession), began("a"), counted("a", 2, 2)}, stream: killed, session: before, want: "?"},
		"no turn":          {file: []string{meta(oneSession), began("a"), counted("a", 2, 2)}, stream: `{"type":"thread.started","thread_id":"` + oneSession + `"}` + "\n", want: "?"},
		"with sub-agents":  {file: []string{meta(oneSession), began("a"), counted("a", 7, 7)}, sub: []string{meta(oneSession), began("a"), counted("a", 5, 5), counted("b", 100, 105)}, stream: killed + spawned + done, want: "106+12r+2w>12(4)"},
		"of another":       {file: []string{meta(oneSession), began("a"), counted("a", 7, 7)}, sub: []string{meta(otherThread), began("a"), counted("a", 5, 5)}, stream: killed + spawned + done, want: "62+7r+1w>7(2)"},
		"done":             {file: []string{meta(oneSession), began("a"), counted("a", 9, 9)}, stream: killed + done, want: "62+7r+1w>7(2)"},
		"older":            {file: []string{model, older(3), older(7)}, stream: killed, want: "63+7r+?w>7(2)", model: "gpt-x"},
		"older, resumed":   {file: []string{older(3), older(7)}, stream: killed, session: before, want: "46+5r+?w>5(0)"},
		"older, not known": {file: []string{older(3), older(7)}, stream: killed, session: &Session{ID: oneSession}, want: "?"},
		"a limit":          {file: []string{older(7)}, stream: killed + limit, want: "63+7r+?w>7(2)", reset: 1795257266},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			day := filepath.Join(home, ".codex", "sessions", "2026", "11", "21")
			put(t, filepath.Join(home, ".codex", "sessions", "2025", "01", "02", "rollout-2025-01-02T00-00-00-"+otherThread+"1.jsonl"), counted("a", 1, 1))
			put(t, filepath.Join(day, "rollout-2026-11-21T08-00-00-"+oneSession+".jsonl"), c.file...)
			if c.sub != nil {
				put(t, filepath.Join(day, "rollout-2026-11-21T08-00-01-"+otherThread+".jsonl"), c.sub...)
			}
			s := streamOf("codex", c.session)
			s.Stdout([]byte(c.stream))
			got := s.Finish(proc.Result{Ended: proc.Killed, Duration: time.Minute})
			s.(Recoverer).Recover([]string{"HOME=" + home}, "/work", &got)
			if usageWord(got.Usage) != c.want || got.Model != c.model {
				t.Errorf("%s by %q, want %s by %q", usageWord(got.Usage), got.Model, c.want, c.model)
			}
			if got.Limit == nil && c.reset != 0 || got.Limit != nil && got.Limit.ResetsAt.Unix() != c.reset {
				t.Errorf("limit %+v", got.Limit)
			}
		})
	}
}

package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles/agent/class"
)

// said gives what is learned of these lines, and how far the run seemed before
// its process ended.
func said(cli string, end proc.Result, lines ...string) (Learned, Settled) {
	s := streamOf(cli, nil)
	for _, line := range lines {
		s.Stdout([]byte(line + "\n"))
	}
	settled := s.Settled()
	return s.Finish(end), settled
}

const (
	claudeInit   = `{"type":"system","subtype":"init","session_id":"s","apiKeySource":"ANTHROPIC_API_KEY"}`
	claudeLogged = `{"type":"system","subtype":"init","session_id":"s","apiKeySource":"none"}`
	claudeWorked = `{"type":"assistant","message":{"id":"1","model":"m","content":[{"type":"text","text":"Working."}]},"session_id":"s"}`
)

// A turn has ended well only if all of the words on it say so.
func TestClaudeVerdict(t *testing.T) {
	t.Parallel()
	synthetic := func(word, detail, text string) string {
		return `{"type":"assistant","error":"` + word + `","api_error":"` + detail + `","message":{"id":"e","model":"<synthetic>","content":[{"type":"text","text":"` + text + `"}]},"session_id":"s"}`
	}
	for name, c := range map[string]struct {
		lines []string
		class class.Class
		done  bool
	}{
		"well":                  {lines: []string{`{"type":"result","subtype":"success","is_error":false,"api_error_status":null,"terminal_reason":"completed"}`}, done: true},
		"of few words":          {lines: []string{`{"type":"result","is_error":false}`}, done: true},
		"for a new reason":      {lines: []string{`{"type":"result","subtype":"success","is_error":false,"terminal_reason":"something_new"}`}, done: true},
		"error says success":    {lines: []string{`{"type":"result","subtype":"success","is_error":true,"api_error_status":429}`}, class: class.Limit},
		"status alone":          {lines: []string{`{"type":"result","subtype":"success","is_error":false,"api_error_status":500}`}, class: class.Overloaded},
		"reason alone":          {lines: []string{`{"type":"result","subtype":"success","is_error":false,"terminal_reason":"prompt_too_long"}`}, class: class.Context},
		"subtype alone":         {lines: []string{`{"type":"result","subtype":"error_max_turns","is_error":false}`}, class: class.Turns},
		"new subtype":           {lines: []string{`{"type":"result","subtype":"error_new","is_error":false}`}, class: class.Unknown},
		"without is_error":      {lines: []string{`{"type":"result","subtype":"success"}`}, class: class.Unknown},
		"is_error of no type":   {lines: []string{`{"type":"result","subtype":"success","is_error":"false"}`}, class: class.Unknown},
		"subtype of no type":    {lines: []string{`{"type":"result","subtype":["success"],"is_error":false}`}, class: class.Unknown},
		"detail before word":    {lines: []string{synthetic("server_error", "connection_failed", "x"), `{"type":"result","subtype":"success","is_error":true,"result":"x"}`}, class: class.Network},
		"word before status":    {lines: []string{synthetic("billing_error", "", "x"), `{"type":"result","subtype":"success","is_error":true,"api_error_status":400,"result":"x"}`}, class: class.Billing},
		"unknown detail":        {lines: []string{synthetic("rate_limit", "new_detail", "x"), `{"type":"result","subtype":"success","is_error":true,"result":"x"}`}, class: class.Limit},
		"word outlived":         {lines: []string{synthetic("rate_limit", "", "x"), claudeWorked, `{"type":"result","subtype":"success","is_error":true,"result":"rate limit"}`}, class: class.Unknown},
		"word of a sub-agent":   {lines: []string{claudeWorked, strings.Replace(synthetic("rate_limit", "", "x"), "{", `{"parent_tool_use_id":"t",`, 1), `{"type":"result","subtype":"success","is_error":true,"result":"x"}`}, class: class.Unknown},
		"text of the agent":     {lines: []string{claudeWorked, `{"type":"result","subtype":"error_during_execution","is_error":true,"result":"API Error: Unable to connect to API"}`}, class: class.Unknown},
		"overlong in old words": {lines: []string{synthetic("invalid_request", "", "x"), `{"type":"result","subtype":"success","is_error":true,"api_error_status":400,"result":"Prompt is too long"}`}, class: class.Context},
		"a turn after the end":  {lines: []string{`{"type":"result","subtype":"success","is_error":false}`, claudeWorked}, class: class.NoResult},
		"aborted":               {lines: []string{`{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools","errors":["x"]}`}, class: class.Unknown},
		"killed while waiting":  {lines: []string{claudeWorked, `{"type":"system","subtype":"api_retry","attempt":1,"error_status":null,"error":"unknown"}`}, class: class.Network},
		"killed after waiting":  {lines: []string{`{"type":"system","subtype":"api_retry","attempt":1,"error_status":529,"error":"overloaded"}`, claudeWorked}, class: class.NoResult},
	} {
		got, _ := said("claude", proc.Result{Ended: proc.Exited}, append([]string{claudeInit}, c.lines...)...)
		if got.Done != c.done || got.Class != c.class || !got.Structured {
			t.Errorf("%s: done %t, class %q, want %t, %q", name, got.Done, got.Class, c.done, c.class)
		}
	}
}

// What a sub-agent says is not the agent's last message.
func TestClaudeSubAgentSays(t *testing.T) {
	t.Parallel()
	sub := `{"type":"assistant","parent_tool_use_id":"t","message":{"id":"2","model":"m","content":[{"type":"text","text":"<promise>DONE</promise>"}]},"session_id":"s"}`
	got, _ := said("claude", proc.Result{Ended: proc.Killed}, claudeInit, claudeWorked, sub)
	if got.FinalMessage != "Working." {
		t.Errorf("%q", got.FinalMessage)
	}
}

func TestClaudeSettled(t *testing.T) {
	t.Parallel()
	retry := func(attempt, status, delay, word string) string {
		return `{"type":"system","subtype":"api_retry","attempt":` + attempt + `,"max_retries":10,"retry_delay_ms":` + delay + `,"error_status":` + status + `,"error":"` + word + `"}`
	}
	rejected := `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795256627,"rateLimitType":"seven_day","isUsingOverage":false}}`
	for name, c := range map[string]struct {
		lines string
		want  Settled
	}{
		"begun":                    {claudeInit, Going},
		"refused key":              {claudeInit + "\n" + retry("1", "401", "600", "authentication_failed"), Hopeless},
		"refused login":            {claudeLogged + "\n" + retry("1", "401", "600", "authentication_failed"), Going},
		"refused login again":      {claudeLogged + "\n" + retry("2", "401", "600", "authentication_failed"), Hopeless},
		"refused in the middle":    {claudeInit + "\n" + claudeWorked + "\n" + retry("1", "403", "600", "authentication_failed"), Finished},
		"no credit":                {claudeInit + "\n" + retry("1", "400", "600", "billing_error"), Hopeless},
		"a moment":                 {claudeInit + "\n" + retry("1", "429", "59000", "rate_limit"), Going},
		"a minute":                 {claudeInit + "\n" + retry("1", "429", "60000", "rate_limit"), Hopeless},
		"a minute of overload":     {claudeInit + "\n" + retry("1", "529", "60000", "overloaded"), Going},
		"rejected":                 {claudeInit + "\n" + rejected, Hopeless},
		"rejected in the middle":   {claudeInit + "\n" + claudeWorked + "\n" + rejected, Finished},
		"rejected, went on":        {claudeInit + "\n" + rejected + "\n" + claudeWorked, Going},
		"rejected but paid for":    {claudeInit + "\n" + strings.Replace(rejected, "false", "true", 1), Going},
		"warned":                   {claudeInit + "\n" + strings.Replace(rejected, "rejected", "allowed_warning", 1), Going},
		"ended":                    {claudeInit + "\n" + `{"type":"result","is_error":true,"subtype":"success"}`, Finished},
		"ended, another follows":   {claudeInit + "\n" + `{"type":"result","is_error":false,"subtype":"success","queued_turn_count":1}`, Going},
		"ended, another has begun": {claudeInit + "\n" + `{"type":"result","is_error":false,"subtype":"success"}` + "\n" + claudeInit, Going},
		"a task goes on":           {claudeInit + "\n" + `{"type":"system","subtype":"task_started","task_id":"t"}` + "\n" + `{"type":"result","is_error":false,"subtype":"success"}`, Going},
		"a task was ended": {claudeInit + "\n" + `{"type":"system","subtype":"task_started","task_id":"t"}` + "\n" + `{"type":"result","is_error":false,"subtype":"success"}` + "\n" +
			`{"type":"system","subtype":"task_updated","task_id":"t","patch":{"status":"killed"}}`, Finished},
		"a task has ended": {claudeInit + "\n" + `{"type":"system","subtype":"task_started","task_id":"t"}` + "\n" + `{"type":"result","is_error":false,"subtype":"success"}` + "\n" +
			`{"type":"system","subtype":"task_notification","task_id":"t","status":"completed"}`, Going},
	} {
		got, settled := said("claude", proc.Result{Ended: proc.Killed}, c.lines)
		if settled != c.want {
			t.Errorf("%s: settled %d, want %d", name, settled, c.want)
		}
		if strings.HasPrefix(name, "rejected") && c.want != Going && (got.Class != class.Limit || got.Limit.Kind != "seven_day" || !got.Limit.ResetsAt.Equal(time.Unix(1795256627, 0))) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCodexVerdict(t *testing.T) {
	t.Parallel()
	const (
		begin = `{"type":"thread.started","thread_id":"t"}` + "\n" + `{"type":"turn.started"}` + "\n"
		works = `{"type":"item.completed","item":{"type":"agent_message","text":"Working."}}` + "\n"
		done  = `{"type":"turn.completed","usage":{}}` + "\n"
	)
	again := func(n, cause string) string {
		return `{"type":"error","message":"Reconnecting... ` + n + ` (` + cause + `)"}` + "\n"
	}
	const unauthorized, busy = "unexpected status 401 Unauthorized: no", "exceeded retry limit, last status: 429 Too Many Requests"
	for name, c := range map[string]struct {
		lines   string
		stderr  string
		code    int
		class   class.Class
		settled Settled
	}{
		"done":                      {lines: begin + works + done, settled: Finished},
		"done after trouble":        {lines: begin + again("1/5", busy) + works + done, settled: Finished},
		"done at last":              {lines: begin + works + again("5/5", busy) + done, settled: Finished},
		"failed":                    {lines: begin + `{"type":"error","message":"x"}` + "\n" + `{"type":"turn.failed","error":{"message":"Quota exceeded. Check"}}`, class: class.Billing, settled: Finished},
		"failed without a word":     {lines: begin + `{"type":"turn.failed"}`, class: class.Unknown, settled: Finished},
		"failed, said before":       {lines: begin + `{"type":"error","message":"Quota exceeded."}` + "\n" + `{"type":"turn.failed"}`, class: class.Billing, settled: Finished},
		"an error is the last":      {lines: begin + `{"type":"error","message":"Quota exceeded."}`, code: 1, class: class.Billing},
		"waits":                     {lines: begin + works + again("1/5", busy), class: class.Limit},
		"waited and went on":        {lines: begin + again("1/5", busy) + works, class: class.NoResult},
		"waits for a network":       {lines: begin + `{"type":"error","message":"Reconnecting... waiting for network (Connection failed: error sending request)"}`, class: class.Network},
		"refused once":              {lines: begin + again("1/5", unauthorized), class: class.Auth},
		"refused twice":             {lines: begin + again("2/5", unauthorized), class: class.Auth, settled: Hopeless},
		"refused in the middle":     {lines: begin + works + again("2/5", unauthorized), class: class.Auth, settled: Finished},
		"a warning is none":         {lines: begin + `{"type":"item.completed","item":{"type":"error","message":"You've hit your usage limit"}}`, class: class.NoResult},
		"cut":                       {lines: begin + works, class: class.NoResult},
		"cut with a word on stderr": {lines: begin + works, stderr: "Error: no rollout found for thread id x", code: 1, class: class.Session},
		"exit code 0 is not done":   {lines: begin, class: class.NoResult},
	} {
		s := streamOf("codex", nil)
		s.Stdout([]byte(c.lines + "\n"))
		s.Stderr([]byte(c.stderr))
		settled := s.Settled()
		got := s.Finish(proc.Result{Ended: proc.Exited, Code: c.code})
		if got.Done != (c.class == class.None) || got.Class != c.class || settled != c.settled || (got.Limit != nil) != (c.class == class.Limit) {
			t.Errorf("%s: %+v, settled %d, want %s, settled %d", name, got, settled, c.class, c.settled)
		}
	}
	// Permissions of the CLI that refuse a tool are counted.
	got, _ := said("codex", proc.Result{}, begin+`{"type":"item.started","item":{"type":"command_execution","status":"declined"}}`, `{"type":"item.completed","item":{"type":"command_execution","status":"declined"}}`)
	if got.Denied != 1 {
		t.Errorf("%d denied", got.Denied)
	}
}

// What is wrong with the command line or the settings is only on standard error,
// and only a program that failed has it.
func TestClaudeAndCodexStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cli, stderr string
		code        int
		class       class.Class
		text        string
	}{
		{"claude", "error: unknown option '--x'\n", 1, class.Config, "error: unknown option '--x'"},
		{"claude", "13 | code\nerror: --max-budget-usd must be a positive number\n   at x", 1, class.Config, "error: --max-budget-usd must be a positive number at x"},
		{"claude", "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n", 1, class.Config, "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"},
		{"claude", "Error: Session ID 5e1 is already in use.\n", 1, class.Session, "Error: Session ID 5e1 is already in use."},
		{"claude", "Error: Input must be provided either through stdin", 1, class.Config, "Error: Input must be provided either through stdin"},
		{"claude", "error: unknown option '--x'\n", 0, class.None, ""},
		{"claude", "Segmentation fault", 139, class.None, ""},
		{"codex", "WARNING: proceeding\nerror: unexpected argument '--x' found\n", 2, class.Config, "error: unexpected argument '--x' found"},
		{"codex", "Reading prompt from stdin...\nNo prompt provided via stdin.\n", 1, class.Config, "No prompt provided via stdin."},
		{"codex", "Not inside a trusted directory and --skip-git-repo-check was not specified.", 1, class.Config, "Not inside a trusted directory and --skip-git-repo-check was not specified."},
		{"codex", "Error: Not logged in. Run codex login", 1, class.Auth, "Error: Not logged in. Run codex login"},
		{"codex", "thread 'main' panicked", 101, class.None, ""},
	} {
		s := streamOf(c.cli, nil)
		s.Stderr([]byte(c.stderr))
		got := s.Finish(proc.Result{Ended: proc.Exited, Code: c.code})
		if got.Class != c.class || got.ErrorText != c.text || got.Structured || got.Done {
			t.Errorf("%s: %+v, want %s %q", c.stderr, got, c.class, c.text)
		}
	}
	s := streamOf("claude", nil)
	s.Stderr([]byte("error: unknown option"))
	if got := s.Finish(proc.Result{Ended: proc.Killed, Code: -1, Signal: "SIGKILL"}); got.Class != class.None {
		t.Errorf("killed: %+v", got)
	}
}

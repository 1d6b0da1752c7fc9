package selftest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// fakeClaude is a small claude: the test binary under the name claude, or
// claude-VICE for one that does something wrong. It speaks to the Messages API
// without streaming, has the tools Write and Bash, and prints claude's events. With
// --permission-prompt-tool it asks by a hook before each use of a tool.
type fakeClaude struct {
	vice    string
	session string
	in      *bufio.Reader // the answers to what it asks; nil: it does not ask
	asked   int
	// counts are the input, cache read, cache write and output tokens so far.
	counts [4]int64
}

const fakeHelp = `Usage: claude [options]

Options:
  -p, --print                   Print the response and exit
  --output-format <format>      Output format
  --verbose                     Be verbose
  --session-id <uuid>           Use this session
  --model <model>               The model
  --permission-mode <mode>      How to ask
  --allowedTools, --allowed-tools <tools...>  Tools that need no question
  --max-budget-usd <amount>     Stop at this cost
  -v, --version                 Print the version
  -h, --help                    Print this
`

func runFake(args []string) int {
	f := &fakeClaude{session: "11111111-2222-4333-8444-555555555555"}
	_, f.vice, _ = strings.Cut(filepath.Base(args[0]), "-")
	for i, a := range args {
		switch {
		case a == "--version":
			fmt.Println("9.9.9 (Claude Code)")
			return 0
		case a == "--help":
			fmt.Print(fakeHelp)
			return 0
		case strings.HasPrefix(a, "--session-id="):
			f.session = strings.TrimPrefix(a, "--session-id=")
		case a == "--session-id":
			f.session = args[i+1]
		case strings.HasPrefix(a, "--permission-prompt-tool"):
			f.in = bufio.NewReader(os.Stdin)
		}
	}
	var prompt []byte
	var err error
	if f.in == nil {
		prompt, err = io.ReadAll(os.Stdin)
	} else {
		err = f.line(nil) // of the hook
		if err == nil {
			err = f.line(nil) // of the prompt
		}
	}
	if err != nil {
		return 1
	}
	f.say("system", map[string]any{"subtype": "init", "model": "fake", "cwd": ".", "tools": []string{"Write", "Bash"}, "claude_code_version": "9.9.9"})
	if f.vice == "bare" {
		f.command("sleep 0.5; : " + os.Getenv("ANTHROPIC_API_KEY"))
	}
	return f.converse(string(prompt))
}

func (f *fakeClaude) say(kind string, fields map[string]any) {
	fields["type"], fields["session_id"] = kind, f.session
	line, _ := json.Marshal(fields)
	_, _ = os.Stdout.Write(append(line, '\n'))
}

type fakeMessage struct {
	ID, Model  string
	StopReason string `json:"stop_reason"`
	Content    []map[string]any
	Usage      struct {
		Input  int64 `json:"input_tokens"`
		Read   int64 `json:"cache_read_input_tokens"`
		Write  int64 `json:"cache_creation_input_tokens"`
		Output int64 `json:"output_tokens"`
	}
	Error struct{ Type, Message string }
}

// converse asks the model until it calls no more tools.
func (f *fakeClaude) converse(prompt string) int {
	messages := []any{map[string]any{"role": "user", "content": prompt}}
	for turns := 1; ; turns++ {
		status, header, m, err := f.ask(messages)
		if err != nil {
			return 1
		}
		if status != http.StatusOK {
			return f.refuse(status, header, m)
		}
		for i, n := range []int64{m.Usage.Input, m.Usage.Read, m.Usage.Write, m.Usage.Output} {
			f.counts[i] += n
		}
		f.say("assistant", map[string]any{"message": map[string]any{"id": m.ID, "model": m.Model, "role": "assistant", "content": m.Content, "usage": f.usage()}})
		if m.StopReason != "tool_use" {
			f.result(map[string]any{"subtype": "success", "is_error": false, "num_turns": turns, "result": m.Content[len(m.Content)-1]["text"],
				"terminal_reason": "completed", "stop_reason": m.StopReason, "total_cost_usd": 0.25})
			return 0
		}
		messages = append(messages, map[string]any{"role": "assistant", "content": m.Content}, map[string]any{"role": "user", "content": f.tools(m)})
	}
}

func (f *fakeClaude) ask(messages []any) (int, http.Header, *fakeMessage, error) {
	schema := func(props ...string) map[string]any {
		p := map[string]any{}
		for _, name := range props {
			p[name] = map[string]any{"type": "string"}
		}
		return map[string]any{"type": "object", "properties": p, "required": props}
	}
	body, _ := json.Marshal(map[string]any{"model": "fake", "messages": messages, "tools": []any{
		map[string]any{"name": "Write", "input_schema": schema("file_path", "content")},
		map[string]any{"name": "Bash", "input_schema": schema("command")}}})
	req, err := http.NewRequest(http.MethodPost, os.Getenv("ANTHROPIC_BASE_URL")+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("X-Claude-Code-Session-Id", f.session)
	req.Header.Set("X-Api-Key", os.Getenv("ANTHROPIC_API_KEY"))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer res.Body.Close()
	m := &fakeMessage{}
	return res.StatusCode, res.Header, m, json.NewDecoder(res.Body).Decode(m)
}

// line reads a line of what superloop says.
func (f *fakeClaude) line(into any) error {
	line, err := f.in.ReadBytes('\n')
	if err == nil && into != nil {
		err = json.Unmarshal(line, into)
	}
	return err
}

// may asks whether a call may be carried out, and returns why not, or "".
func (f *fakeClaude) may(b map[string]any, run func()) string {
	input := b["input"].(map[string]any)
	if f.in == nil || f.vice == "silent" && input["command"] == "ls" {
		run()
		return ""
	}
	if f.vice == "hasty" {
		run()
	}
	f.asked++
	dir, _ := os.Getwd()
	f.say("control_request", map[string]any{"request_id": fmt.Sprint("r", f.asked), "request": map[string]any{"subtype": "hook_callback", "callback_id": "pre", "tool_use_id": b["id"],
		"input": map[string]any{"hook_event_name": "PreToolUse", "tool_name": b["name"], "tool_input": input, "tool_use_id": b["id"], "cwd": dir}}})
	var a struct {
		Response struct {
			Response struct {
				Out struct {
					Decision string `json:"permissionDecision"`
					Reason   string `json:"permissionDecisionReason"`
				} `json:"hookSpecificOutput"`
			}
		}
	}
	if err := f.line(&a); err != nil {
		os.Exit(1)
	}
	switch deny := a.Response.Response.Out.Decision == "deny"; {
	case deny && f.vice != "deaf":
		return a.Response.Response.Out.Reason
	case f.vice != "hasty":
		run()
	}
	return ""
}

// tools carries the calls of a message out.
func (f *fakeClaude) tools(m *fakeMessage) []any {
	var results []any
	for _, b := range m.Content {
		if b["type"] != "tool_use" {
			continue
		}
		input := b["input"].(map[string]any)
		out := "done"
		no := f.may(b, func() {
			switch {
			case b["name"] == "Write" && f.vice != "idle":
				if err := os.WriteFile(input["file_path"].(string), []byte(input["content"].(string)), 0o600); err != nil {
					out = err.Error()
				}
			case b["name"] == "Bash":
				out = f.command(input["command"].(string))
			}
		})
		if no != "" {
			out = no
		}
		results = append(results, map[string]any{"type": "tool_result", "tool_use_id": b["id"], "content": out, "is_error": no != ""})
	}
	f.say("user", map[string]any{"message": map[string]any{"role": "user", "content": results}})
	return results
}

// command runs a command in a session of its own, as claude does.
func (f *fakeClaude) command(line string) string {
	cmd := exec.Command("sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func (f *fakeClaude) usage() map[string]any {
	c := f.counts
	if f.vice == "miscounting" {
		c[3]++
	}
	return map[string]any{"input_tokens": c[0], "cache_read_input_tokens": c[1], "cache_creation_input_tokens": c[2], "output_tokens": c[3]}
}

func (f *fakeClaude) result(fields map[string]any) {
	fields["usage"] = f.usage()
	f.say("result", fields)
}

// refuse ends as claude does when the API does not answer.
func (f *fakeClaude) refuse(status int, header http.Header, m *fakeMessage) int {
	if f.vice == "blind" {
		f.result(map[string]any{"subtype": "success", "is_error": false, "num_turns": 1, "result": "", "total_cost_usd": 0})
		return 0
	}
	kinds := map[int]string{401: "authentication_failed", 429: "rate_limit", 529: "server_error"}
	if reset := header.Get("Anthropic-Ratelimit-Unified-Reset"); reset != "" {
		f.say("rate_limit_event", map[string]any{"rate_limit_info": map[string]any{"status": "rejected", "rateLimitType": "five_hour", "resetsAt": json.Number(reset)}})
	}
	text := "API Error: " + m.Error.Message
	f.say("assistant", map[string]any{"error": kinds[status], "message": map[string]any{"id": "x", "model": "<synthetic>", "role": "assistant",
		"content": []any{map[string]any{"type": "text", "text": text}}, "usage": f.usage()}})
	f.result(map[string]any{"subtype": "success", "is_error": true, "api_error_status": status, "num_turns": 1, "result": text,
		"terminal_reason": "completed", "total_cost_usd": 0})
	return 1
}

package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

// TestRealACPTools: real agents of the Agent Client Protocol ask about each use of a tool, with what really happens; what is
// refused does not happen, and the agent is told why.
func TestRealACPTools(t *testing.T) {
	for _, cli := range []string{"opencode", "gemini", "qwen", "copilot"} {
		t.Run(cli, func(t *testing.T) {
			st := newStage(t, cli)
			write(t, st.path("repo/a.txt"), "x\n")
			reply := func(tools ...mockapi.Tool) mockapi.Reply { return mockapi.Reply{Tools: tools} }
			glob, path := "glob", "path"
			read := named("read", map[string]any{"filePath": st.path("repo/a.txt")})
			if cli != "opencode" {
				read = named("read_file", map[string]any{"file_path": st.path("repo/a.txt")})
			}
			switch cli {
			case "gemini":
				path = "dir_path"
			case "copilot": // it reads without asking
				path, read = "paths", named("view", map[string]any{"path": st.path("repo/a.txt")})
			}
			var asked []string
			told := ""
			turns := []mockapi.Reply{
				reply(mockapi.Tool{Shell: "echo one > one.txt"}, read, named(glob, map[string]any{"pattern": "*.txt", path: st.path("repo")}), mockapi.Tool{Write: &mockapi.File{Path: st.path("repo/new.txt"), Content: "n\n"}}),
				reply(mockapi.Tool{Shell: "touch refused.txt"}), {Text: "I see."}, {Text: doneText},
			}
			turn := 0
			res, server := st.perform(t, play{name: "tools",
				script: func(string) mockapi.Script {
					return func(c mockapi.Call) mockapi.Reply {
						if c.Side {
							return mockapi.Reply{Text: c.SmallTalk()}
						}
						told = string(c.Body)
						turn++
						return turns[min(turn, len(turns))-1]
					}
				},
				ask: func(r *Request) { r.Asked, r.Permissions = permit.Enforce, PermitWorkspace },
				answer: func(_ context.Context, r permit.Request) permit.Answer {
					asked = append(asked, inJSON([]any{r.Kind, r.Tool, r.Command, r.Paths, r.Exact}))
					if strings.Contains(r.Command, "refused") {
						return permit.Answer{Decision: permit.Deny, Message: "not-this-one"}
					}
					return permit.Answer{Decision: permit.Allow}
				}})
			t.Logf("%s\n%+v\n%v", strings.Join(asked, "\n"), res.Learned, res.Proc.Duration)
			_, err := os.Stat(st.path("repo/refused.txt"))
			if !res.OK() || len(asked) != 5 || err == nil || !strings.Contains(told, "not-this-one") || res.FinalMessage == "" {
				t.Errorf("%v\n%s\n%s", err, res.Proc.Stdout.Text(), res.Proc.Stderr.Text())
			}
			for _, name := range []string{"one.txt", "new.txt"} {
				if _, err := os.Stat(st.path("repo", name)); err != nil {
					t.Error(err)
				}
			}
			if total, _ := mockapi.Total(server.Calls()); (cli == "qwen" || cli == "copilot") && usageWord(Usage{Input: res.Usage.Input, Output: res.Usage.Output}) != usageWord(Usage{Input: &total.Input, Output: &total.Output}) {
				t.Errorf("usage %s, but the model told %+v", usageWord(res.Usage), total)
			}
			for _, c := range server.Calls() {
				if slices.Contains(c.Tools, "task") || slices.Contains(c.Tools, "invoke_agent") || slices.Contains(c.Tools, "agent") || slices.Contains(c.Tools, "sql") {
					t.Errorf("%v", c.Tools)
				}
			}
		})
	}
}

// TestRealACPOff: a CLI that only speaks the protocol works without permissions, too, as far as the runner's own reach.
func TestRealACPOff(t *testing.T) {
	for _, cli := range []string{"qwen", "copilot"} {
		for permissions, files := range map[string]int{PermitAll: 2, PermitRead: 0} {
			t.Run(cli+"/"+permissions, func(t *testing.T) {
				st := newStage(t, cli)
				res, _ := st.perform(t, play{name: "off", script: working, ask: func(r *Request) { r.Permissions = permissions }})
				made, _ := filepath.Glob(st.path("repo", "*.txt")) // the pattern is good
				if !res.Done || len(made) != files {
					t.Errorf("%v %+v\n%s\n%s", made, res.Learned, res.Proc.Stdout.Text(), res.Proc.Stderr.Text())
				}
			})
		}
	}
}

// TestRealACPResumed: a run that resumes a session knows of it, and counts only itself.
func TestRealACPResumed(t *testing.T) {
	for _, cli := range []string{"qwen", "copilot"} {
		t.Run(cli, func(t *testing.T) {
			st := newStage(t, cli)
			first, _ := st.perform(t, play{name: "first"})
			prompt := ""
			second, server := st.perform(t, play{name: "second", ask: func(r *Request) { r.Resume = &Session{ID: first.SessionID} },
				script: func(string) mockapi.Script {
					return func(c mockapi.Call) mockapi.Reply {
						prompt = string(c.Body)
						return mockapi.Reply{Text: "Again."}
					}
				}})
			total, _ := mockapi.Total(server.Calls())
			if !first.Done || !second.Done || second.SessionID != first.SessionID || second.FinalMessage != "Again." || !strings.Contains(prompt, "Hello.") {
				t.Errorf("%+v\n%+v\n%s", first.Learned, second.Learned, second.Proc.Stdout.Text())
			}
			if usageWord(Usage{Input: second.Usage.Input, Output: second.Usage.Output}) != usageWord(Usage{Input: &total.Input, Output: &total.Output}) {
				t.Errorf("usage %s, but the model told %+v", usageWord(second.Usage), total)
			}
		})
	}
}

// TestRealACPFailures: what goes wrong is told by its class, as without the protocol.
func TestRealACPFailures(t *testing.T) {
	for _, cli := range []string{"opencode", "gemini", "qwen", "copilot"} {
		t.Run(cli, func(t *testing.T) {
			st := newStage(t, cli)
			for name, c := range map[string]struct {
				reply mockapi.Reply
				more  func(r *Request)
				want  class.Class
			}{
				"key":     {mockapi.Reply{Status: 401}, nil, class.Auth},
				"model":   {mockapi.Reply{Status: 404, ErrorMessage: "models/x is not found for API version v1beta, or is not supported"}, nil, class.Model},
				"limit":   {mockapi.Reply{Status: 429, RetryAfter: time.Hour}, nil, class.Limit},
				"session": {mockapi.Reply{Text: "x"}, func(r *Request) { r.Asked, r.Resume = permit.Observe, &Session{ID: "ses_00000000000000000000000000"} }, class.Session},
			} {
				t.Run(name, func(t *testing.T) {
					if cli == "qwen" && name == "limit" {
						t.Skip("it waits as long as it is told, and says nothing of it")
					}
					res, _ := st.perform(t, play{name: name, script: always(c.reply), ask: func(r *Request) {
						if r.Asked = permit.Enforce; c.more != nil {
							c.more(r)
						}
					}})
					if res.OK() || res.Class != c.want || res.ErrorText == "" {
						t.Errorf("class %q, %q\n%s\n%s", res.Class, res.ErrorText, res.Proc.Stdout.Text(), res.Proc.Stderr.Text())
					}
				})
			}
		})
	}
}

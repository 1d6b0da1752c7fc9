package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/recovery/permit"
)

// TestACPCut: a recording tells the same wherever it is cut in two.
func TestACPCut(t *testing.T) {
	t.Parallel()
	for _, a := range acpAgents {
		said := acpSaid(t, a.name)
		learn := func(at int) string {
			s := adapterFor(t, a.name).Stream(Request{Asked: permit.Enforce})
			for _, piece := range [][]byte{said[:at], said[at:]} {
				s.Stdout(slices.Clone(piece))
			}
			return fmt.Sprint(s.Settled(), s.LastLine(), inJSON(s.Finish(proc.Result{Ended: proc.Exited})))
		}
		want := learn(0)
		for at := range said {
			if got := learn(at); got != want {
				t.Fatalf("%s, cut at %d: %s\nwant %s", a.name, at, got, want)
			}
		}
	}
}

// TestQwenTools: what is asked says what would happen, as far as it is certain.
func TestQwenTools(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]string{
		`"run_shell_command"},"rawInput":{"command":"ls","directory":"sub","is_background":false}`: `command ls /w/sub []`,
		`"run_shell_command"},"rawInput":{"command":"ls","directory":"/x"}`:                        `command ls /x []`,
		`"run_shell_command"},"rawInput":{"command":"ls","directory":7}`:                           `other  /w []`,
		`"run_shell_command"},"rawInput":{"command":"ls","Command":"rm"}`:                          `other  /w []`,
		`"run_shell_command"},"rawInput":{"command":["ls"]}`:                                       `other  /w []`,
		`"monitor"},"kind":"execute","rawInput":{"command":"ls"}`:                                  `other  /w []`,
		`"read_file"},"rawInput":{"file_path":"/x"}`:                                               `read  /w [/x]`,
		`"read_file"},"rawInput":{"File_Path":"/x"}`:                                               `other  /w []`,
		`"grep_search"},"rawInput":{"pattern":"x"}`:                                                `read  /w []`,
		`"glob"},"rawInput":{"pattern":"/etc/*"}`:                                                  `read  /w [/etc/]`,
		`"glob"},"rawInput":{"pattern":"*/../x"}`:                                                  `other  /w []`,
		`"list_directory"},"rawInput":{"path":"/x"}`:                                               `read  /w [/x]`,
		`"edit"},"rawInput":{"file_path":"/w/a"},"locations":[{"path":"/w/b"}]`:                    `write  /w [/w/a /w/b]`,
		`"write_file"},"rawInput":{"content":"x"}`:                                                 `other  /w []`,
		`"notebook_edit"},"rawInput":{"notebook_path":"n"}`:                                        `write  /w [n]`,
		`"web_fetch"},"rawInput":{"url":"https://a.example/x"}`:                                    `fetch a.example /w []`,
		`"mcp__docs__search"},"rawInput":{"q":"x"}`:                                                `mcp  /w []`,
		`"ask_user_question"},"rawInput":{}`:                                                       `question  /w []`,
		`""},"kind":"execute","rawInput":{"command":"ls"}`:                                         `other  /w []`,
	} {
		var q acpCall
		if err := json.Unmarshal([]byte(`{"title":"t","_meta":{"toolName":`+question+`}`), &q); err != nil {
			t.Fatal(question, err)
		}
		r := qwenUse(acpCall{}, q, "/w")
		if got := fmt.Sprint(r.Kind, " ", r.Command+r.Host, " ", r.Dir, " ", r.Paths); got != want || !r.Exact {
			t.Errorf("%s: %s, want %s", question, got, want)
		}
	}
}

// TestQwenCommands: to enforce, the settings that overrule all others make it ask and take the repository for a strange one;
// otherwise the runner's permissions count, and the CLI speaks the protocol too.
func TestQwenCommands(t *testing.T) {
	t.Parallel()
	req := request(t, "PROMPT")
	system := filepath.Join(t.TempDir(), "system.json")
	write(t, system, `{"model":{"name":"m"},"permissions":{"deny":["web_fetch"],"allow":["edit"]},"disableAllHooks":false}`)
	req.Asked, req.Permissions, req.Model = permit.Enforce, PermitWorkspace, "m"
	req.CLI = CLI{Command: []string{"qwen"}, Args: []string{"--yolo", "--allowed-tools", "edit", "-o", "json", "--auth-type=openai"}, Env: map[string]string{qwenSystem: system, "QWEN_CODE_SAFE_MODE": "1"}}
	c, err := qwen{}.Command(req, nil)
	if argv := strings.Join(c.Argv, " "); err != nil || !strings.HasPrefix(argv, "qwen --acp --model=m --approval-mode=default") || !strings.HasSuffix(argv, " --auth-type=openai") || strings.Contains(argv, "yolo") || c.Stdin != "" {
		t.Fatalf("%q %v", c.Argv, err)
	}
	var settings map[string]any
	if err := json.Unmarshal([]byte(c.FileText), &settings); err != nil {
		t.Fatal(err)
	}
	rules := object(settings, "permissions")
	ask, deny := fmt.Sprint(rules["ask"]), fmt.Sprint(rules["deny"])
	if settings[req.WorkDir] != "DO_NOT_TRUST" || settings["disableAllHooks"] != true || object(object(settings, "security"), "folderTrust")["enabled"] != true || object(settings, "model")["name"] != "m" ||
		!strings.Contains(ask, "run_shell_command") || !strings.HasPrefix(deny, "[web_fetch agent") || strings.Contains(deny, "run_shell_command") {
		t.Errorf("%s", c.FileText)
	}
	for name, want := range map[string]string{qwenSystem: c.File, "QWEN_CODE_TRUSTED_FOLDERS_PATH": c.File, "QWEN_CODE_SAFE_MODE": ""} {
		if got := valueIn(c.Env, name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	req.Permissions = PermitRead
	if c, _ := (qwen{}).Command(req, nil); !strings.Contains(fmt.Sprint(c.FileText), `"run_shell_command","edit","write_file","notebook_edit"]`) {
		t.Error(c.FileText)
	}
	write(t, system, `{ // words`)
	if _, err := (qwen{}).Command(req, nil); err == nil || !strings.Contains(err.Error(), system) {
		t.Error(err)
	}
	req.Asked, req.CLI.Args, req.CLI.Env = "", nil, nil
	for permissions, want := range map[string]string{"": "qwen --acp --model=m", PermitAll: "qwen --acp --model=m --approval-mode=yolo", PermitWorkspace: "qwen --acp --model=m --approval-mode=yolo",
		PermitRead: "qwen --acp --model=m --approval-mode=default --exclude-tools=run_shell_command,edit,write_file,notebook_edit"} {
		req.Permissions = permissions
		if c, err := (qwen{}).Command(req, nil); err != nil || !strings.HasPrefix(strings.Join(c.Argv, " "), want) || c.File != "" || valueIn(c.Env, qwenSystem) != "" {
			t.Errorf("%s: %q %v", permissions, c.Argv, err)
		}
	}
	req.CLI.Args = []string{"--prompt", "x"}
	if _, err := (qwen{}).Command(req, nil); err == nil || strings.Contains(err.Error(), "permissions.mode") {
		t.Error(err)
	}
}

// TestQwenLogin: the way to log in comes from the flag, the settings and the environment, in this order.
func TestQwenLogin(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := []string{"HOME=" + home, "OPENAI_API_KEY=k", "ANTHROPIC_API_KEY=a"}
	if l, a := loginOf("qwen", env), accountOf("qwen", env); l.State != LoginYes || l.How != "OPENAI_API_KEY" || a != (Account{"openai", AccountID("", "k")}) {
		t.Errorf("%+v %+v", l, a)
	}
	if l := loginOf("qwen", env[:1]); l.State != LoginUnknown {
		t.Errorf("%+v", l)
	}
	write(t, filepath.Join(home, ".qwen", "settings.json"), `{"security":{"auth":{"selectedType":"qwen-oauth"}}}`)
	if l := loginOf("qwen", env); l.State != LoginNo {
		t.Errorf("%+v", l)
	}
	write(t, filepath.Join(home, ".qwen", "oauth_creds.json"), `{}`)
	if l := loginOf("qwen", env); l.State != LoginYes {
		t.Errorf("%+v", l)
	}
	login, account := qwenCredential(Request{CLI: CLI{Command: []string{"qwen", "--auth-type=anthropic"}}}, env)
	if login.How != "ANTHROPIC_API_KEY" || account.Provider != "anthropic" {
		t.Errorf("%+v %+v", login, account)
	}
}

// TestACPOff: without permissions nobody is asked, and the CLI's questions are answered as the runner's permissions say.
func TestACPOff(t *testing.T) {
	t.Parallel()
	for permissions, want := range map[string]string{PermitWorkspace: "y1", PermitAll: "y1", PermitRead: "n", "": "n"} {
		k := talkACP(t, qwenACP, "", func(context.Context, permit.Request) permit.Answer { return permit.Answer{Decision: permit.Leave} })
		k.client.accept = accepts(Request{Permissions: permissions})
		k.greet().said(acpWants("0", "a", `,"_meta":{"toolName":"run_shell_command"},"rawInput":{"command":"ls"}`))
		if got := k.last(t, 4); !strings.Contains(got, `"optionId":"`+want+`"`) || k.failed != "" {
			t.Errorf("%s: %s %s", permissions, got, k.failed)
		}
	}
}

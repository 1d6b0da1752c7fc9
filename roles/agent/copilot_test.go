package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

// TestCopilotTools: what is asked says what would happen, as far as it is certain; a title never does.
func TestCopilotTools(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]string{
		`"kind":"execute","rawInput":{"command":"ls","commands":["ls"]}`:                                     `command ls /w []`,
		`"kind":"execute","rawInput":{"command":"ls","detach":true}`:                                         `other  /w []`,
		`"kind":"execute","rawInput":{"command":["ls"]}`:                                                     `other  /w []`,
		`"kind":"execute","rawInput":{}`:                                                                     `other  /w []`,
		`"kind":"edit","rawInput":{"fileName":"/w/a","diff":"d"},"locations":[{"path":"/w/a"}]`:              `write  /w [/w/a]`,
		`"kind":"edit","rawInput":{"path":"/w/a","file_text":"x"},"locations":[{"path":"/w/b"}]`:             `write  /w [/w/a /w/b]`,
		`"kind":"edit","rawInput":"*** Begin Patch","locations":[{"path":"/w/a"}]`:                           `other  /w []`,
		`"kind":"read","rawInput":{"path":"/etc/x"}`:                                                         `read  /w [/etc/x]`,
		`"kind":"read","rawInput":{"Path":"/etc/x"}`:                                                         `other  /w []`,
		`"kind":"read","rawInput":{"shellId":"0","delay":1}`:                                                 `internal  /w []`,
		`"kind":"read","rawInput":{"shellId":"0","path":"/x"}`:                                               `read  /w [/x]`,
		`"kind":"read","title":"Searching for 'x'","rawInput":{"pattern":"../x","paths":"/y"}`:               `read  /w [/y]`,
		`"kind":"read","title":"Searching for 'x'","rawInput":{"pattern":"x","paths":["/y","/z"]}`:           `read  /w [/y /z]`,
		`"kind":"read","title":"Searching for 'x'","rawInput":{"pattern":"x","paths":7}`:                     `other  /w []`,
		`"kind":"read","title":"Finding files matching /etc/*","rawInput":{"pattern":"/etc/*"}`:              `read  /w [/etc/]`,
		`"kind":"read","title":"Finding files matching *","rawInput":{"pattern":"*/../x"}`:                   `other  /w []`,
		`"kind":"fetch","rawInput":{"url":"https://a.example/x"}`:                                            `fetch a.example /w []`,
		`"kind":"other","rawInput":{"query":"select 1","description":"d"}`:                                   `other  /w []`,
		`"kind":"execute","title":"ls","rawInput":{"command":"rm x","commands":["ls"],"description":"list"}`: `command rm x /w []`,
	} {
		var q acpCall
		if err := json.Unmarshal([]byte(`{`+question+`}`), &q); err != nil {
			t.Fatal(question, err)
		}
		r := copilotUse(acpCall{}.with(q), acpCall{}, "/w")
		if got := fmt.Sprint(r.Kind, " ", r.Command+r.Host, " ", r.Dir, " ", r.Paths); got != want || !r.Exact {
			t.Errorf("%s: %s, want %s", question, got, want)
		}
	}
}

// TestCopilotPaths: a question about a path is about the tool that it comes with, which is asked about once; a question about
// something else than what was shown is one about nobody knows what.
func TestCopilotPaths(t *testing.T) {
	t.Parallel()
	k := talkACP(t, copilotACP, permit.Enforce, forbids("bad")).said(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}`, `{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s","modes":{"currentModeId":"`+copilotACP.mode+`"}}}`)
	k.said(acpShows("a", `,"title":"Creating /x/y","kind":"edit","status":"pending","rawInput":{"path":"/x/y","file_text":"t"},"locations":[{"path":"/x/y"}]`),
		acpWants("1", "a", `,"title":"Access paths","kind":"read","rawInput":{"path":"/x/y"},"locations":[{"path":"/x/y"}]`))
	k.last(t, 4)
	k.said(acpWants("2", "a", `,"title":"Create file","kind":"edit","rawInput":{"fileName":"/x/y","diff":"d"},"locations":[{"path":"/x/y"}]`))
	if got := k.last(t, 5); !strings.Contains(got, `"y1"`) || len(k.asked) != 1 || k.asked[0].Kind != permit.Write || fmt.Sprint(k.asked[0].Paths) != "[/x/y]" {
		t.Errorf("%s %+v", got, k.asked)
	}
	k.said(acpWants("3", "a", `,"title":"Create file","kind":"edit","rawInput":{"fileName":"bad","diff":"d"}`))
	if got := k.last(t, 6); !strings.Contains(got, `"n"`) || len(k.asked) != 2 {
		t.Errorf("%s %+v", got, k.asked)
	}
	r := copilotUse(acpCall{Kind: "execute", Input: []byte(`{"command":"ls"}`)}, acpCall{Kind: "execute", Input: []byte(`{"command":"rm","commands":["rm"]}`)}, "/w")
	if r.Kind != permit.Other {
		t.Errorf("%+v", r)
	}
}

// TestCopilotCommands: to enforce, nothing that answers its questions stays, and hooks of the repository are an error;
// otherwise the runner's own flags count.
func TestCopilotCommands(t *testing.T) {
	t.Parallel()
	req := request(t, "PROMPT")
	req.Asked, req.Permissions, req.Model, req.Thinking = permit.Enforce, PermitWorkspace, "m", "high"
	req.CLI = CLI{Command: []string{"copilot"}, Args: []string{"--allow-all-tools", "--allow-tool", "shell(git:*)", "-s", "--log-level=debug"}, Env: map[string]string{"COPILOT_ALLOW_ALL": "true"}}
	c, err := copilot{}.Command(req, []string{"COPILOT_ASSISTED_APPROVAL=1"})
	if argv := strings.Join(c.Argv, " "); err != nil || !strings.HasPrefix(argv, "copilot --acp --no-ask-user --model=m --reasoning-effort=high --excluded-tools=sql,") ||
		!strings.HasSuffix(argv, " --log-level=debug") || strings.Contains(argv, "allow") || strings.Contains(argv, "bash,create") || c.Stdin != "" {
		t.Fatalf("%q %v", c.Argv, err)
	}
	if valueIn(c.Env, "COPILOT_ALLOW_ALL") != "" || valueIn(c.Env, "COPILOT_ASSISTED_APPROVAL") != "" {
		t.Errorf("%q", c.Env)
	}
	req.Permissions = PermitRead
	if c, _ := (copilot{}).Command(req, nil); !strings.Contains(strings.Join(c.Argv, " "), ",bash,create,edit,") {
		t.Errorf("%q", c.Argv)
	}
	hook := filepath.Join(req.WorkDir, ".github", "hooks", "h.json")
	write(t, hook, `{}`)
	if _, err := (copilot{}).Command(req, nil); err == nil || !strings.Contains(err.Error(), "mv ") {
		t.Error(err)
	}
	req.Asked = ""
	if c, err := (copilot{}).Command(req, nil); err != nil || !strings.HasSuffix(strings.Join(c.Argv, " "), " --allow-all-tools --allow-tool shell(git:*) --log-level=debug") || valueIn(c.Env, "COPILOT_ALLOW_ALL") != "true" {
		t.Errorf("%q %v", c.Argv, err)
	}
}

// TestCopilotRecover: a failure comes from the CLI's own events; what an agent says about one is none.
func TestCopilotRecover(t *testing.T) {
	t.Parallel()
	const fails = `{"type":"session.error","data":{"errorType":"%s","message":"words","statusCode":%d}}`
	for _, c := range []struct {
		events string
		want   class.Class
	}{
		{fmt.Sprintf(fails, "rate_limit", 429), class.Limit},
		{fmt.Sprintf(fails, "authentication", 401), class.Auth},
		{fmt.Sprintf(fails, "query", 529), class.Overloaded},
		{fmt.Sprintf(fails, "query", 404), class.Model},
		{fmt.Sprintf(fails, "query", 0), class.Unknown},
		{fmt.Sprintf(fails, "rate_limit", 429) + "\n" + `{"type":"user.message","data":{"content":"x"}}`, class.None},
		{fmt.Sprintf(fails, "rate_limit", 429) + "\n" + `{"type":"assistant.message","data":{"content":"x"}}`, class.None},
		{`{"type":"assistant.message","data":{"content":` + inJSON(fmt.Sprintf(fails, "rate_limit", 429)) + `}}`, class.None},
		{`{"type":"session.er`, class.None},
	} {
		home := t.TempDir()
		write(t, filepath.Join(home, ".copilot", "session-state", "s", "events.jsonl"), c.events+"\n")
		l := Learned{SessionID: "s", Structured: true, Done: true}
		copilotStream{}.Recover([]string{"HOME=" + home}, "", &l)
		if l.Class != c.want || l.Done != (c.want == class.None) || (l.Limit != nil) != (c.want == class.Limit) {
			t.Errorf("%s: %+v", c.events, l)
		}
	}
	for _, l := range []Learned{{SessionID: "../s", Done: true}, {SessionID: "s", Class: class.Config}, {SessionID: "none", Done: true}} {
		before := l
		if copilotStream.Recover(copilotStream{}, []string{"HOME=" + os.TempDir()}, "", &l); inJSON(l) != inJSON(before) {
			t.Errorf("%+v", l)
		}
	}
}

// TestCopilotLogin: a provider of the owner's own comes before GitHub.
func TestCopilotLogin(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=/h", "GH_TOKEN=t", "COPILOT_PROVIDER_BASE_URL=http://x", "COPILOT_PROVIDER_API_KEY=k", "COPILOT_PROVIDER_TYPE=anthropic"}
	if l, a := loginOf("copilot", env), accountOf("copilot", env); l != (Login{LoginYes, "COPILOT_PROVIDER_API_KEY"}) || a != (Account{"anthropic", AccountID("http://x", "k")}) {
		t.Errorf("%+v %+v", l, a)
	}
	if l, a := loginOf("copilot", env[:2]), accountOf("copilot", env[:2]); l.How != "GH_TOKEN" || a.Provider != "github" {
		t.Errorf("%+v %+v", l, a)
	}
	if l := loginOf("copilot", env[:1]); l.State != LoginUnknown {
		t.Errorf("%+v", l)
	}
}

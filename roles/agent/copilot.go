package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

// copilot is the adapter of the GitHub Copilot CLI, which is always started as an agent of the Agent Client Protocol:
// `copilot --acp`; see acpClient.
type copilot struct{}

func (copilot) Name() string                { return "copilot" }
func (copilot) Matches(program string) bool { return program == "copilot" }
func (copilot) speaks()                     {}

// copilotACP is copilot as an agent of the protocol. It shows no progress of a tool, only its output and its end.
var copilotACP = acpAgent{name: "copilot", translate: copilotUse, mode: "https://agentclientprotocol.com/protocol/session-modes#agent", drops: true, starts: true}

func (copilot) Converse(req Request, with Conversation) Client {
	return copilotACP.converse(req, with)
}

const (
	// copilotShut are the tools that it does not get to enforce: it uses them without asking, or they work in a sub-agent or
	// ask a person.
	copilotShut   = "sql session_store_sql task read_agent list_agents write_agent stop_bash list_bash skill ask_user exit_plan_mode store_memory vote_memory manage_schedule"
	copilotWrites = "bash create edit str_replace_editor apply_patch"
)

// copilotFlags are the flags that stay, and whether a value follows. copilotLoose are those that stay only if nothing is
// enforced; copilotRights are those of them that are dropped otherwise.
var (
	copilotFlags = map[string]bool{"--model": true, "--reasoning-effort": true, "--context": true, "--log-level": true, "--log-dir": true, "--disable-builtin-mcps": false,
		"--disable-mcp-server": true, "--no-custom-instructions": false, "--excluded-tools": true, "--deny-tool": true, "--deny-url": true, "--disallow-temp-dir": false,
		"--max-ai-credits": true, "--secret-env-vars": true, "--disable-client-telemetry": false}
	copilotLoose = map[string]bool{"--add-dir": true, "--agent": true, "--additional-mcp-config": true, "--available-tools": true, "--enable-mcp-server": true,
		"--plugin-dir": true, "--experimental": false}
	copilotRights = map[string]bool{"--allow-all-tools": false, "--allow-all-paths": false, "--allow-all-urls": false, "--allow-all": false, "--yolo": false,
		"--allow-tool": true, "--allow-url": true, "--autopilot": false, "--assisted-approval": false}
)

// Command starts the CLI as an agent of the protocol.
func (p copilot) Command(req Request, environ []string) (Command, error) {
	if err := req.check(); err != nil {
		return Command{}, err
	}
	if !req.CLI.stdin() {
		return Command{}, acpRefuse(req, "copilot", errors.New(acpStdin))
	}
	dropped := map[string]bool{"--acp": false, "-s": false, "--silent": false, "--output-format": true, "--no-color": false, "--no-ask-user": false, "--no-auto-update": false}
	kept, enforced := maps.Clone(copilotFlags), req.Asked == permit.Enforce
	if enforced {
		maps.Copy(dropped, copilotRights)
	} else {
		maps.Copy(kept, copilotLoose)
		maps.Copy(kept, copilotRights)
	}
	args, err := acpArgs(req.args(), dropped, kept, nil)
	if err == nil && enforced {
		err = copilotHooks(req)
	}
	if err != nil {
		return Command{}, acpRefuse(req, "copilot", err)
	}
	b := flagsFor(req)
	b.flags = append(b.flags, "--acp", "--no-ask-user")
	b.model()
	if level := thinkingLevel(req.Thinking); level >= 0 {
		b.add("--reasoning-effort", "--reasoning-effort="+opencodeVariants[level])
	}
	shut := ""
	if enforced {
		shut = copilotShut
	}
	if req.Permissions == PermitRead {
		shut = strings.TrimSpace(shut + " " + copilotWrites)
	}
	if shut != "" {
		b.flags = append(b.flags, "--excluded-tools="+strings.ReplaceAll(shut, " ", ","))
	}
	if !enforced {
		for _, dir := range outside(req) {
			b.flags = append(b.flags, "--add-dir="+dir)
		}
	}
	env := defaults(passed(req, environ), map[string]string{"COPILOT_AUTO_UPDATE": "false"})
	b.CLI.Args, b.CLI.FastArgs, b.CLI.Env = args, nil, maps.Clone(req.CLI.Env)
	if enforced {
		for _, name := range []string{"COPILOT_ALLOW_ALL", "COPILOT_ASSISTED_APPROVAL"} {
			env[name] = ""
			delete(b.CLI.Env, name)
		}
	}
	c, err := b.command(environ, env)
	c.Stdin = "" // the client sends the prompt
	return c, err
}

// copilotHooks finds hooks in the repository. The CLI runs them when a session begins, whether it trusts the repository or
// not, and they can answer its questions.
func copilotHooks(req Request) error {
	for dir := req.WorkDir; ; dir = filepath.Dir(dir) {
		hooks := filepath.Join(dir, ".github", "hooks")
		if list, err := os.ReadDir(hooks); len(list) > 0 || err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("%s may have hooks, which copilot runs without asking: move it away (mv %[2]s %[2]s.off)", hooks, text.Paste(hooks))
		}
		if !inside(dir, req.Repo) || dir == req.Repo || dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// copilotStream is what copilot prints. A failure is there only a message, like one of the agent, at the end of a turn that
// ends well; Recover finds it.
type copilotStream struct{ *acpStream }

func (copilot) Stream(req Request) Stream {
	s := newACPStream(req)
	s.counts = true
	s.classify = func(s *acpStream, _ proc.Result) class.Class {
		return cmp.Or(classOf("acp.answer", s.failure), classOf("provider.text", s.failure))
	}
	return copilotStream{s}
}

// maxEvents bounds what is read of the end of the CLI's events of a session, in bytes.
const maxEvents = 256 << 10

// Recover reads the CLI's own events of the session: the last prompt has failed if an error follows it, and no answer.
func (s copilotStream) Recover(env []string, _ string, l *Learned) {
	if l.Class != class.None && l.Class != class.NoResult || checkSession(l.SessionID) != nil {
		return
	}
	events, _, err := door.Ends(filepath.Join(homeIn(env, "COPILOT_HOME", ".copilot"), "session-state", l.SessionID, "events.jsonl"), 0, maxEvents)
	if err != nil {
		return
	}
	type event struct {
		Type string `json:"type"`
		Data struct {
			Kind    string `json:"errorType"`
			Message string `json:"message"`
			Status  int    `json:"statusCode"`
		} `json:"data"`
	}
	var failed event
	for line := range strings.Lines(events) {
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // cut
		}
		switch e.Type {
		case "session.error":
			failed = e
		case "user.message", "assistant.message":
			failed = event{}
		}
	}
	if failed.Type == "" {
		return
	}
	l.Done, l.ErrorText = false, errorText(failed.Data.Message)
	l.Class = cmp.Or(map[string]class.Class{"authentication": class.Auth, "rate_limit": class.Limit}[failed.Data.Kind], statusClass(failed.Data.Status), classOf("acp.answer", failed.Data.Message), class.Unknown)
	l.limited("", time.Time{})
}

func (copilot) Profile() Profile {
	return Profile{
		Keys:       []string{"COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN"},
		Login:      "copilot login",
		Help:       plainHelp,
		Credential: copilotCredential,
	}
}

// copilotCredential finds a provider of the owner's own, or else a token of GitHub. A login may also be in the system's
// keychain.
func copilotCredential(_ Request, env []string) (Login, Account) {
	home, base := homeIn(env, "COPILOT_HOME", ".copilot"), valueIn(env, "COPILOT_PROVIDER_BASE_URL")
	if base != "" {
		name, key := firstIn(env, "COPILOT_PROVIDER_BEARER_TOKEN", "COPILOT_PROVIDER_API_KEY")
		return Login{LoginYes, cmp.Or(name, "COPILOT_PROVIDER_BASE_URL")}, Account{cmp.Or(valueIn(env, "COPILOT_PROVIDER_TYPE"), "openai"), AccountID(base, key)}
	}
	name, token := firstIn(env, "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN")
	if name != "" {
		return Login{LoginYes, name}, Account{"github", AccountID("", token)}
	}
	return Login{LoginUnknown, "a login may be in the system's keychain or in " + home}, Account{"github", accountHere(home)}
}

// copilotShell are the inputs of the shell that change nothing but what the command is. Each command has a shell of its own.
var copilotShell = []string{"command", "commands", "description", "initial_wait", "mode", "shellId"}

// copilotUse translates a use of a tool of copilot, which does not name its tools: their kind and their input tell. The title
// of a command is the model's own description of it, and is never judged. A question about a path outside of the CLI's
// directories is about the tool that it comes with.
func copilotUse(call, question acpCall, work string) permit.Request {
	asked := fieldsOf(question.Input)
	more := question.paths()
	call = question.with(call)
	r := permit.Request{Kind: permit.Other, Tool: cmp.Or(call.Kind, call.Title), Input: call.Input, Exact: true, Dir: work}
	in := fieldsOf(call.Input)
	path, isPath := in.word("path")
	switch call.Kind {
	case "execute":
		command, ok := in.word("command")
		for key := range in {
			ok = ok && slices.Contains(copilotShell, key)
		}
		if other, there := asked.word("command"); ok && (!there || other == command) {
			r.Kind, r.Command = permit.Command, command
		}
	case "edit":
		name, _ := asked.word("fileName")
		if own, _ := in.word("fileName"); cmp.Or(path, own) != "" {
			r.Kind, r.Paths = permit.Write, slices.DeleteFunc(distinct(append(slices.Concat(call.paths(), more), name, cmp.Or(path, own))), func(p string) bool { return p == "" })
		}
	case "read":
		pattern, search := in.word("pattern")
		if isPath {
			r.Paths = []string{path}
		}
		many := false
		more = nil
		if raw, there := in["paths"]; there {
			one, word := in.word("paths")
			if many = word || json.Unmarshal(raw, &more) == nil; !many {
				return r // nobody knows what the CLI makes of it
			}
			if word {
				more = []string{one}
			}
		}
		r.Paths = append(r.Paths, more...)
		if other, _ := asked.word("path"); other != "" && !slices.Contains(r.Paths, other) {
			r.Paths = append(r.Paths, other)
		}
		_, output := in["shellId"]
		switch {
		case output && len(r.Paths) == 0 && !search: // of a command
			r.Kind = permit.Internal
		case search && !strings.HasPrefix(call.tool, "Searching for "): // files by their names
			var ok bool
			if r.Paths, ok = globPaths(pattern, r.Paths); ok {
				r.Kind = permit.Read
			}
		case search || len(r.Paths) > 0:
			r.Kind = permit.Read
		}
	case "fetch":
		address, _ := in.word("url")
		r.Kind, r.Host = permit.Fetch, hostOf(address)
	}
	return r
}

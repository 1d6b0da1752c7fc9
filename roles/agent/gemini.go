package agent

import (
	"path/filepath"
	"slices"
	"strings"
)

// gemini is Google's CLI of that name, headless: its prompt on standard input,
// its events on standard output.
type gemini struct{}

func (gemini) Name() string                { return "gemini" }
func (gemini) Matches(program string) bool { return program == "gemini" || program == "gemini-cli" }
func (gemini) Stream(req Request) Stream   { return newGeminiStream(req) }

// geminiModes are the owner's own words on permissions; any of them, and
// Request.Permissions adds nothing.
const geminiModes = "--approval-mode -y --yolo"

// geminiMode is the approval mode for what a role may do.
//
// Headless, default offers no tool that writes or runs a command. (The mode that
// is called read-only, plan, asks the model to leave it when its plan is made,
// and nobody has to agree: then everything is allowed. From default a model gets
// there too, and the settings of a repository can allow tools: geminiReadOnly
// forbids both, and geminiStream ends a run that does it all the same.)
//
// The CLI's only sandbox is a container that the owner has to set up, so the
// workspace has no narrower mode than yolo.
var geminiMode = map[string]string{PermitRead: "default", PermitWorkspace: "yolo", PermitAll: "yolo"}

// geminiReadOnly is a policy that holds whatever the model wants and whatever
// the repository's own settings allow: no tool that writes, runs a command,
// leaves the mode or sends something away.
const geminiReadOnly = `[[rule]]
toolName = ["enter_plan_mode", "exit_plan_mode", "write_file", "replace", "run_shell_command", "save_memory", "activate_skill", "web_fetch"]
decision = "deny"
priority = 999
`

// Command adds what the owner has not said themselves: the event stream, the
// model, the approval mode, the session, and the loop's directory where it lies
// outside of the working directory, since the CLI's file tools go nowhere else.
//
// Its launcher starts a second process and ignores SIGTERM; the environment
// switches it off. An untrusted directory would be refused (exit 55), so the
// owner's repository is trusted, as all that it runs here is.
func (gemini) Command(req Request, environ []string) (Command, error) {
	b := flagsFor(req)
	b.add("-o --output-format", "--output-format=stream-json")
	b.model()
	mode := geminiMode[req.Permissions]
	if mode != "" {
		b.add(geminiModes, "--approval-mode="+mode)
	}
	b.session("-r --resume --session-id --session-file", "--resume=", "--session-id=")
	for _, dir := range outside(req) {
		// The flag takes a list; a directory with a comma cannot be said.
		if !strings.Contains(dir, ",") {
			b.flags = append(b.flags, "--include-directories="+dir)
		}
	}
	var files map[string]string
	if policy := req.PromptPath + ".policy.toml"; req.Permissions == PermitRead && !hasFlag(b.words, strings.Fields(geminiModes)...) {
		b.flags = append(b.flags, "--policy="+policy)
		files = map[string]string{policy: geminiReadOnly}
	}
	c, err := b.command(environ, defaults(passed(req, environ), map[string]string{
		"GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_CLI_TRUST_WORKSPACE": "true",
	}))
	c.Files = files
	return c, err
}

// passed is what of the supervisor's environment the agent gets.
func passed(req Request, environ []string) []string {
	pass := filter(req.CLI)
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return !pass(name)
	})
}

// outside gives the directories in which a role leaves its files as far as they
// are not below the working directory, each once: a loop that works in a tree
// of its own has them elsewhere.
func outside(req Request) []string {
	var dirs []string
	for _, dir := range []string{req.LoopDir, filepath.Dir(req.LastMessageFile)} {
		if !inside(dir, req.WorkDir) && !slices.ContainsFunc(dirs, func(other string) bool { return inside(dir, other) }) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

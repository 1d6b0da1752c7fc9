package agent

import (
	"os"
	"strconv"
)

// claude is Claude Code. It runs headless with its stream of JSON lines on
// standard output, unless the owner has chosen another output.
type claude struct{}

func (claude) Name() string { return "claude" }

func (claude) Matches(program string) bool { return program == "claude" || program == "claude-code" }

// The owner's own words: on permissions, and on which session to use; with
// claudeResumes it may be one that has counters of earlier runs.
const (
	claudePermits = "--permission-mode --dangerously-skip-permissions --allow-dangerously-skip-permissions --permission-prompt-tool " +
		"--allowedTools --allowed-tools --disallowedTools --disallowed-tools --tools --restricted"
	claudeResumes = "--resume -r --continue -c --from-pr --teleport"
)

// What thinking is to newer models and to older ones, by thinkingLevels.
var (
	claudeEfforts  = [...]string{"low", "low", "low", "medium", "high", "max"}
	claudeThinking = [...]string{"0", "1024", "4096", "10000", "20000", "32000"}
)

func (c claude) Command(req Request, environ []string) (Command, error) {
	b := flagsFor(req)
	b.add("--print -p", "--print")
	if format, ok := flagValue(b.words, "--output-format"); !ok || format == "stream-json" {
		b.add("--output-format", "--output-format=stream-json")
		b.add("--verbose", "--verbose") // the stream is refused without it
	}
	b.model()
	b.permit(claudePermits, map[string][]string{
		PermitRead:      {"--tools=Read,Grep,Glob"},
		PermitWorkspace: {"--permission-mode=acceptEdits", "--allowedTools=Bash,Edit,Write,NotebookEdit"},
		PermitAll:       {"--dangerously-skip-permissions"},
	})
	b.session("--session-id "+claudeResumes, "--resume=", "--session-id=")
	if req.MaxCostUSD > 0 {
		b.add("--max-budget-usd", "--max-budget-usd="+strconv.FormatFloat(req.MaxCostUSD, 'f', -1, 64))
	}
	return b.command(environ, c.environment(req, environ, b.words, os.Geteuid() == 0))
}

// environment: superloop owns the retries, so the CLI has few of its own, and
// the bounds on its requests are what a slow answer needs. The owner's
// environment wins, but for the thinking, which is the role's.
//
// Thinking goes by the environment, not by --effort: releases that do not know
// a variable pass it over, where a flag would end them.
func (claude) environment(req Request, environ, words []string, root bool) map[string]string {
	env := defaults(environ, map[string]string{
		"DISABLE_AUTOUPDATER":     "1",
		"CLAUDE_CODE_MAX_RETRIES": "2",
		// To the first byte of an answer. One that stops half-way is given up
		// after five minutes without being told to.
		"API_TIMEOUT_MS": "300000",
	})
	if level := thinkingLevel(req.Thinking); level >= 0 {
		env["MAX_THINKING_TOKENS"] = claudeThinking[level]
		if !hasFlag(words, "--effort") { // the variable would win over it
			env["CLAUDE_CODE_EFFORT_LEVEL"] = claudeEfforts[level]
		}
	}
	if req.Permissions == PermitAll && root {
		env["IS_SANDBOX"] = "1" // without it the CLI refuses to skip permissions as root
	}
	return env
}

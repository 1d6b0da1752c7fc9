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

// claudePermits are the owner's own words on permissions; any of them, and
// Request.Permissions adds none.
var claudePermits = []string{
	"--permission-mode", "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions", "--permission-prompt-tool",
	"--allowedTools", "--allowed-tools", "--disallowedTools", "--disallowed-tools", "--tools", "--restricted",
}

// claudeSessions are the owner's own words on which session to use; with
// claudeResumes it may be one that has counters of earlier runs.
var (
	claudeResumes  = []string{"--resume", "-r", "--continue", "-c", "--from-pr", "--teleport"}
	claudeSessions = append([]string{"--session-id"}, claudeResumes...)
)

// What thinking is to newer models and to older ones, by thinkingLevels.
var (
	claudeEfforts  = [...]string{"low", "low", "low", "medium", "high", "max"}
	claudeThinking = [...]string{"0", "1024", "4096", "10000", "20000", "32000"}
)

func (c claude) Command(req Request, environ []string) (Command, error) {
	words := req.words()
	var flags []string
	if !hasFlag(words, "--print", "-p") {
		flags = append(flags, "--print")
	}
	if format, ok := flagValue(words, "--output-format"); !ok || format == "stream-json" {
		if !ok {
			flags = append(flags, "--output-format=stream-json")
		}
		if !hasFlag(words, "--verbose") { // the stream is refused without it
			flags = append(flags, "--verbose")
		}
	}
	flags = append(flags, modelFlag(req)...)
	if !hasFlag(words, claudePermits...) {
		flags = append(flags, permitted(req, permits{
			PermitRead:      {"--tools=Read,Grep,Glob"},
			PermitWorkspace: {"--permission-mode=acceptEdits", "--allowedTools=Bash,Edit,Write,NotebookEdit"},
			PermitAll:       {"--dangerously-skip-permissions"},
		})...)
	}
	session, err := sessionFlag(req, "--resume=", "--session-id=", claudeSessions...)
	if err != nil {
		return Command{}, err
	}
	flags = append(flags, session...)
	if req.MaxCostUSD > 0 && !hasFlag(words, "--max-budget-usd") {
		flags = append(flags, "--max-budget-usd="+strconv.FormatFloat(req.MaxCostUSD, 'f', -1, 64))
	}
	return assemble(req, environ, flags, c.environment(req, environ, words, os.Geteuid() == 0))
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

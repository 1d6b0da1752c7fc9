package verify

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
)

// Analysis is what the output of a failed check says about its tool.
type Analysis struct {
	// Repairable: the tool works, and the same command with another expectation shows it.
	Repairable bool `json:"repairable"`
	// Broken: there is evidence that the tool does not work. Nothing else that is tried can outweigh it. When neither
	// is true, the output says nothing.
	Broken       bool   `json:"broken"`
	ToolName     string `json:"tool_name,omitempty"` // the name as it stands in the output
	ExitCode     int    `json:"exit_code"`
	HasUsageText bool   `json:"has_usage_text"` // a line of usage, of the tool itself
	HasToolName  bool   `json:"has_tool_name"`
	OutputLength int    `json:"output_length"` // of both streams, in bytes

	SuggestedMode    string `json:"suggested_mode,omitempty"` // catalog.ModeOutput, or ""
	SuggestedPattern string `json:"suggested_pattern,omitempty"`
	Why              string `json:"why"` // one sentence, with the line that decided
}

// AnalyzeVerifyFailure says what the end and the output of a failed check prove. It takes the check for a question
// after the version, as checks are.
func AnalyzeVerifyFailure(stdout, stderr string, exit ExitInfo, tool string) Analysis {
	return analyse(stdout, stderr, exit, tool, []string{"--version", "-version", "version", "-V", "-v", "--help", "-help", "help", "-h"})
}

// analyse is AnalyzeVerifyFailure for the arguments that the tool really got.
func analyse(stdout, stderr string, exit ExitInfo, tool string, given []string) Analysis {
	tool = baseName(tool)
	raw := joined(stdout, stderr)
	output := clean(raw)
	lines := splitLines(output)
	a := Analysis{ExitCode: exit.Code, OutputLength: len(stdout) + len(stderr)}
	if at := findWord(output, tool); at >= 0 {
		a.HasToolName, a.ToolName = true, output[at:at+len(tool)]
	}
	p, proved := works(lines, given, tool)
	a.HasUsageText = proved && p.usage
	if why := exit.dead(); why != "" {
		a.Broken, a.Why = true, why
		return a
	}
	if why, line := brokenBy(lines, given); why != "" {
		a.Broken, a.Why = true, fmt.Sprintf("%s: %s", why, text.Line(line, maxSaid))
		return a
	}
	switch {
	case exit.Code == 0:
		a.Why = "it ended with 0: there is nothing to repair"
	case len(lines) == 0:
		a.Why = fmt.Sprintf("it wrote nothing and ended with %d, which proves neither that it works nor that it does not", exit.Code)
	case !proved:
		a.Why = fmt.Sprintf("there is no line of usage in its output (exit code %d), which proves neither that it works nor that it does not", exit.Code)
	default:
		a.suggest(raw, p)
	}
	return a
}

// suggest takes the first pattern that finds its line again in the output as it came, colours and all.
func (a *Analysis) suggest(raw string, p proof) {
	for _, expr := range p.patterns {
		if re, err := regexp.Compile(`(?i)` + expr); err == nil && re.MatchString(raw) && re.MatchString(clean(raw)) {
			a.Repairable, a.SuggestedMode, a.SuggestedPattern = true, catalog.ModeOutput, expr
			a.Why = "the tool works, it only was asked wrongly: " + text.Line(p.line, maxSaid)
			return
		}
	}
	a.Why = "no pattern finds the line again: " + text.Line(p.line, maxSaid)
}

var (
	helpOption = pattern.Lazy(`^\s+-{1,2}[\w?]`)
	helpHead   = pattern.Lazy(`(?i)^\s*(?:[\w /-]{0,40} )?(?:options|commands|arguments|flags|parameters)\b[^.]*:?\s*$`)
)

// analyseHelp judges the output of --help or -h. One that ended with 0 may show by other things than a line of usage
// that it is a help.
func analyseHelp(stdout, stderr string, exit ExitInfo, tool string, given []string) Analysis {
	a := analyse(stdout, stderr, exit, tool, given)
	if a.Broken || a.Repairable {
		return a
	}
	raw := joined(stdout, stderr)
	lines := splitLines(clean(raw))
	var p proof
	ok := false
	if exit.Code == 0 {
		p, ok = works(lines, nil, baseName(tool)) // it refused nothing: it ended with 0
	}
	if !ok {
		p, ok = helpProof(lines, a.ToolName, exit.Code == 0)
	}
	if ok {
		a.suggest(raw, p)
	} else if exit.Code == 0 {
		a.Why = "it ended with 0, and its output is no help"
	}
	return a
}

// helpProof: a list of options or commands under a heading. What ended with 0 needs less: a heading, or some options,
// or a text of several lines that names the tool, whose name then makes the pattern.
func helpProof(lines []string, name string, zero bool) (proof, bool) {
	options := 0
	for _, l := range lines {
		if helpOption().MatchString(l) {
			options++
		}
	}
	head := slices.IndexFunc(lines, helpHead().MatchString)
	listed := name != "" && head >= 0 && options >= 3 || zero && (head >= 0 || options >= 2)
	if !listed && !(zero && name != "" && len(lines) >= 3) {
		return proof{}, false
	}
	if name == "" && slices.ContainsFunc(lines, func(l string) bool { return usageLine().MatchString(l) }) {
		return proof{}, false // a usage, and not the tool's: that of what it runs on
	}
	var p proof
	if name != "" {
		p.patterns = append(p.patterns, asIs(name))
		p.line = lines[slices.IndexFunc(lines, func(l string) bool { return findWord(l, name) >= 0 })]
	}
	if head >= 0 {
		p.patterns = append(p.patterns, asIs(lines[head]))
		p.line = lines[head]
	}
	if len(p.patterns) == 0 {
		p.line = lines[slices.IndexFunc(lines, helpOption().MatchString)]
		p.patterns = append(p.patterns, asIs(firstWord(p.line)))
	}
	p.line = strings.TrimSpace(p.line)
	return p, true
}

// ExitInfo is how a command ended. Signal and Code are apart because a program may exit with 129 by itself: git does,
// to say that it was called wrongly.
type ExitInfo struct {
	Code       int
	Signal     string // the name of the signal that ended it, else ""
	TimedOut   bool   // ended by our time limit
	NotStarted bool   // no such file, not executable, not for this machine
}

// cut says why a process did not come to its own end, "" if it did.
func (e ExitInfo) cut() string {
	switch {
	case e.NotStarted:
		return "it could not be started"
	case e.TimedOut:
		return "it did not end within its time limit"
	case e.Signal != "":
		return "it was ended by the signal " + e.Signal
	}
	return ""
}

// dead says why a process that ended so can never prove that its tool works.
func (e ExitInfo) dead() string {
	switch why, name := e.cut(), shellSignals[e.Code]; {
	case why != "":
		return why
	case e.Code == 126:
		return "exit code 126: there is a file, and the system cannot run it"
	case name != "":
		return fmt.Sprintf("exit code %d is how a shell tells of the signal %s", e.Code, name)
	}
	return ""
}

// shellSignals are the signals that a shell in between has turned into an exit code. Codes that programs give by
// themselves are left alone: 129 (git), 128, 255.
var shellSignals = map[int]string{130: "SIGINT", 131: "SIGQUIT", 132: "SIGILL", 133: "SIGTRAP", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE",
	137: "SIGKILL", 139: "SIGSEGV", 141: "SIGPIPE", 143: "SIGTERM"}

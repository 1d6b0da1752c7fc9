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

// Analysis is the result of examining the output of a failed check.
type Analysis struct {
	// Repairable says that the tool works, and that the same command with other expectations would pass.
	Repairable bool `json:"repairable"`
	// Broken says that there is evidence that the tool does not work. No other evidence can outweigh it. If neither
	// Repairable nor Broken is true, the output proves nothing.
	Broken       bool   `json:"broken"`
	ToolName     string `json:"tool_name,omitempty"` // the tool's name in the spelling of the output
	ExitCode     int    `json:"exit_code"`
	HasUsageText bool   `json:"has_usage_text"` // the output has a usage line of the tool itself
	HasToolName  bool   `json:"has_tool_name"`
	OutputLength int    `json:"output_length"` // the size of both streams, in bytes

	SuggestedMode    string `json:"suggested_mode,omitempty"` // catalog.ModeOutput, or ""
	SuggestedPattern string `json:"suggested_pattern,omitempty"`
	Why              string `json:"why"` // one sentence, with the line that decided
}

// AnalyzeVerifyFailure says what the exit and the output of a failed check prove. AnalyzeVerifyFailure assumes that the
// check asked the tool for its version or its help, as checks usually do.
func AnalyzeVerifyFailure(stdout, stderr string, exit ExitInfo, tool string) Analysis {
	given := []string{"--version", "-version", "version", "-V", "-v", "--help", "-help", "help", "-h"}
	return analyse(stdout, stderr, exit, subject{tool: baseName(tool), given: given})
}

// analyse is AnalyzeVerifyFailure for a known subject.
func analyse(stdout, stderr string, exit ExitInfo, of subject) Analysis {
	tool, given := of.tool, of.given
	raw := joined(stdout, stderr)
	output := clean(raw)
	lines := splitLines(output)
	a := Analysis{ExitCode: exit.Code, OutputLength: len(stdout) + len(stderr)}
	if at := findWord(output, tool); at >= 0 {
		a.HasToolName, a.ToolName = true, output[at:at+len(tool)]
	}
	p, proved := works(lines, of)
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

// suggest takes the first pattern that matches the output in its original form, with colours, and without them.
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

// analyseHelp judges the output of --help or -h. If the exit code is 0, features other than a usage line can also prove
// that the output is a help text.
func analyseHelp(stdout, stderr string, exit ExitInfo, of subject) Analysis {
	a := analyse(stdout, stderr, exit, of)
	if a.Broken || a.Repairable {
		return a
	}
	raw := joined(stdout, stderr)
	lines := splitLines(clean(raw))
	var p proof
	ok := false
	if exit.Code == 0 {
		asked := of
		asked.took = true
		p, ok = works(lines, asked)
	}
	if !ok && !slices.ContainsFunc(lines, func(l string) bool { return of.another(l) }) && of.named(strings.Join(lines, "\n")) {
		p, ok = helpProof(lines, a.ToolName, exit.Code == 0)
	}
	if ok {
		a.suggest(raw, p)
	} else if exit.Code == 0 {
		a.Why = "it ended with 0, and its output is no help"
	}
	return a
}

// helpProof looks for a list of options or commands under a heading. If zero (the exit code was 0), less is enough: a
// heading, or some options, or a text of several lines that names the tool.
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
		return proof{}, false // the usage line is that of the interpreter, not of the tool
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

// ExitInfo says how a command ended. Signal and Code are separate because a program may exit with 129 by itself: git
// does so after a wrong call.
type ExitInfo struct {
	Code       int
	Signal     string // the name of the signal that ended the command, or ""
	TimedOut   bool   // superloop's time limit ended the command
	NotStarted bool   // the file does not exist, is not executable, or is for another machine
}

// cut says why a process did not end by itself, or "" if it did.
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

// dead says why such an exit can never prove that the tool works, or "" if it can.
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

// shellSignals maps exit codes to the signals that a shell reports by them. The map leaves out codes that programs
// return by themselves: 129 (git), 128, 255.
var shellSignals = map[int]string{130: "SIGINT", 131: "SIGQUIT", 132: "SIGILL", 133: "SIGTRAP", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE",
	137: "SIGKILL", 139: "SIGSEGV", 141: "SIGPIPE", 143: "SIGTERM"}

// proof is a line that only a working program writes, with patterns that match the line. The most specific pattern is
// the first.
type proof struct {
	usage    bool
	line     string
	patterns []string
}

// usageWords match the words that tools write before the form of their call, in several languages.
const usageWords = `(?:(?:correct|basic|general|command(?:[ -]line)?|example|quick|program|typical|common) )?usage(?: is| info(?:rmation)?)?|use|synopsis|syntax|aufruf|verwendung|benutzung|utilisation|syntaxe|uso|utilizzo|gebruik|användning|brug|bruk|käyttö|użycie|sposób użycia|použití|použitie|használat|utilizare|использование|использованиe|використання|χρήση|kullanım|用法|使用法|使い方|使用方法|사용법`

var (
	usageLine  = pattern.Lazy(`(?i)^\s*(?:[\w./+-]{1,64}: |error: |\[\w+\] )?((` + usageWords + `)(?: of \S+?)? ?[::])(.*)$`)
	usageBare  = pattern.Lazy(`(?i)^\s*(usage|synopsis)(?:\s*|\s+(\S+\s+[-\[<{(].*))$`) // a heading, or "usage tool [options]"
	refusal    = pattern.Lazy(`(?i)\b(?:un(?:known|kown|recogni[sz]ed|supported|expected|defined)|invalid|illegal|bad|no such|non-?existent|(?:applet|option|flag|switch|argument) not found|not (?:an?|a valid|valid|defined|recogni[sz]ed|supported|expected)|(?:wasn|isn|doesn|does no)['’ ]?t (?:expected|valid|recogni[sz]ed|supported|exist|take|accept|a )|unbekannte|ungültige|inconnue?|non reconnue?|desconocida|inválida)\b`)
	refused    = pattern.Lazy(`(?i)\b(?:options?|flags?|switch(?:es)?|arguments?|args?|parameters?|commands?|sub-?commands?|operands?|operation|applet|verb|opci[oó]n)\b`)
	getoptChar = pattern.Lazy(`(?i)\b(?:option|flag|switch)(?: character)?\s*(?:--|:)?\s*['"‘]?(-|[a-z?])?['"’]?[.]?$`) // invalid option -- '-'; Illegal option --; illegal option character: -
	helpWord   = pattern.Lazy("(?i)\\b(?:try|use|see|run|type|check|with|for)\\b.*?(?:^|[\\s'\"`‘“(/])(?:-{1,2}help|-h|-\\?|-H|help|\\S*/\\S+ help)(?:$|[\\s'\"`’”.,;)])")
	helpFor    = pattern.Lazy(`(?i)\bfor (?:more |further |detailed |full |a |the )*(?:information|info|help|usage|details|options|list|summary)|(?:gives|shows|displays|prints) .*(?:usage|help|options)`)
)

// works finds the best proof in the lines of an output. Best is a usage line, then the refusal of an argument that the
// check passed, then a hint at the help.
func works(lines []string, of subject) (proof, bool) {
	tool := of.tool
	for i := range lines {
		if p, ok := usageProof(lines, i, of); ok {
			return p, true
		}
	}
	if slices.ContainsFunc(lines, of.another) {
		return proof{}, false // another program answers
	}
	for _, l := range lines {
		if !indented(l) && isRefusal(l, of.asked()) && of.speaks(l) && !of.hints(l) {
			return proof{line: strings.TrimSpace(l), patterns: sentence(l, tool)}, true
		}
	}
	for _, l := range lines {
		if !optionText(l) && of.speaks(l) && !of.hints(l) && (of.part() == "" || of.named(l)) && helpWord().MatchString(l) && (findWord(l, tool) >= 0 || helpFor().MatchString(l) && !mentionsLauncher(l)) {
			return proof{line: strings.TrimSpace(l), patterns: sentence(l, tool)}, true
		}
	}
	return proof{}, false
}

// usageProof examines line i. A usage line of the interpreter that runs the tool proves nothing about the tool.
func usageProof(lines []string, i int, of subject) (proof, bool) {
	head, word, rest, ok := usageParts(lines[i])
	if !ok {
		return proof{}, false
	}
	text := rest
	if strings.TrimSpace(text) == "" && i+1 < len(lines) {
		text = lines[i+1]
	}
	if tool := of.tool; foreign(head+" "+text, tool) || of.other(head, text) || !of.named(head+" "+strings.Join(lines[i:min(len(lines), i+3)], " ")) {
		return proof{}, false
	}
	tool := of.tool
	p := proof{usage: true, line: strings.TrimSpace(lines[i])}
	name := regexp.QuoteMeta(tool)
	switch {
	case findWord(rest, tool) >= 0:
		p.patterns = append(p.patterns, asIs(head)+`.*`+name, asIs(word)+`.*`+name)
	case findWord(head, tool) >= 0: // Usage of /path/tool:
		p.patterns = append(p.patterns, asIs(word)+`.*`+name)
	case strings.TrimSpace(rest) == "" && isWord(firstWord(text), tool):
		p.patterns = append(p.patterns, asIs(head)+`\s+\S*`+name)
	}
	p.patterns = append(p.patterns, asIs(word+":"), asIs(word))
	return p, true
}

// usageParts splits a usage line: the words of it, the word for "usage" alone, and the form of the call.
func usageParts(line string) (head, word, rest string, ok bool) {
	if m := usageLine().FindStringSubmatch(line); m != nil {
		return m[1], m[2], m[3], true
	}
	if m := usageBare().FindStringSubmatch(line); m != nil {
		return m[1], m[1], m[2], true
	}
	return "", "", "", false
}

func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return ""
}

// isWord reports whether the word is the name of the tool, with or without a directory.
func isWord(word, tool string) bool { return tool != "" && strings.EqualFold(baseName(word), tool) }

// asIs returns a regular expression that matches exactly the text, without regard to case.
func asIs(text string) string { return `(?i)` + regexp.QuoteMeta(strings.TrimSpace(text)) }

// isRefusal reports whether a line refuses an argument that the tool was given.
func isRefusal(line string, given []string) bool {
	if !refusal().MatchString(line) && !strings.Contains(line, "provided but not defined") && !strings.Contains(line, "error in command line argument") && !strings.Contains(line, "is unknown") {
		return false
	}
	if !refused().MatchString(line) && !strings.Contains(line, "flag provided") {
		return false
	}
	if names(line, given) || names(line, bare(given)) {
		return true
	}
	m := getoptChar().FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		return false
	}
	if m[1] == "" { // in "Illegal option --" the shell means the option "-"
		return strings.HasSuffix(strings.TrimSpace(line), "--")
	}
	return slices.ContainsFunc(given, func(g string) bool { return strings.HasPrefix(g, "-") && strings.Contains(g, m[1]) })
}

// bare returns the arguments without their dashes ("Unknown option: version"). For an argument with two dashes it also
// returns the form with one dash ("Unrecognized option '-version'").
func bare(given []string) []string {
	var out []string
	for _, g := range given {
		name := strings.TrimLeft(g, "-")
		out = append(out, name)
		if strings.HasPrefix(g, "--") {
			out = append(out, "-"+name)
		}
	}
	return out
}

// sentence returns patterns for a line that is not a usage line. The patterns contain the tool's name if the line does.
func sentence(line, tool string) []string {
	line = strings.TrimSpace(line)
	if at := findWord(line, tool); at > 0 && strings.HasPrefix(line, "/") && isWord(strings.TrimRight(firstWord(line), ":"), tool) {
		line = line[at:] // the directory of the tool may change
	}
	const long = 80
	short := line
	if len(short) > long {
		if i := strings.LastIndexByte(short[:long], ' '); i > 0 {
			short = short[:i]
		}
	}
	if at := findWord(line, tool); at >= 0 && findWord(short, tool) < 0 {
		return []string{asIs(short) + `.*` + regexp.QuoteMeta(tool), asIs(short)}
	}
	return []string{asIs(short)}
}

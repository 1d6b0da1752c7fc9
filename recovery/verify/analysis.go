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

// proof is a line that only a running program writes, and patterns that find it again, the most telling first.
type proof struct {
	usage    bool
	line     string
	patterns []string
}

// usageWords are what tools write before the form of their call, in the languages that they speak.
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

// works finds the best proof in the lines of an output: a line of usage, then the refusal of an argument that was
// given, then a word on where help is.
func works(lines, given []string, tool string) (proof, bool) {
	for i := range lines {
		if p, ok := usageProof(lines, i, tool); ok {
			return p, true
		}
	}
	for _, l := range lines {
		if !indented(l) && isRefusal(l, given) {
			return proof{line: strings.TrimSpace(l), patterns: sentence(l, tool)}, true
		}
	}
	for _, l := range lines {
		if !optionText(l) && helpWord().MatchString(l) && (findWord(l, tool) >= 0 || helpFor().MatchString(l) && !mentionsLauncher(l)) {
			return proof{line: strings.TrimSpace(l), patterns: sentence(l, tool)}, true
		}
	}
	return proof{}, false
}

// usageProof looks at line i. A usage of the interpreter under a tool proves only that its wrapper called it wrongly.
func usageProof(lines []string, i int, tool string) (proof, bool) {
	head, rest, word := "", "", ""
	if m := usageLine().FindStringSubmatch(lines[i]); m != nil {
		head, word, rest = m[1], m[2], m[3]
	} else if m := usageBare().FindStringSubmatch(lines[i]); m != nil {
		head, word, rest = m[1], m[1], m[2]
	} else {
		return proof{}, false
	}
	text := rest
	if strings.TrimSpace(text) == "" && i+1 < len(lines) {
		text = lines[i+1]
	}
	if foreign(head+" "+text, tool) {
		return proof{}, false
	}
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

func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return ""
}

// isWord: the word is the tool, perhaps with its directory.
func isWord(word, tool string) bool { return tool != "" && strings.EqualFold(baseName(word), tool) }

// asIs is a text as it stands, without regard to case, for whoever matches it with it.
func asIs(text string) string { return `(?i)` + regexp.QuoteMeta(strings.TrimSpace(text)) }

func launchers() []string {
	return []string{"java", "javaw", "node", "python", "perl", "ruby", "php", "bash", "sh", "dash", "zsh", "env", "tclsh", "lua",
		"mono", "dotnet", "deno", "bun", "qemu", "wine", "docker", "exec", "sudo", "timeout", "nice", "xargs"}
}

var versionTail = pattern.Lazy(`[\d.-]+$`)

// foreign: the usage is that of an interpreter, and says nothing of the tool.
func foreign(text, tool string) bool {
	words := strings.Fields(text)
	if len(words) < 2 || findWord(text, tool) >= 0 {
		return false
	}
	for _, w := range words[1:min(len(words), 4)] { // "Usage: tool", "Usage of tool:"
		name := versionTail().ReplaceAllString(baseName(strings.TrimRight(w, ":")), "")
		if !slices.Contains(launchers(), name) {
			continue
		}
		return name != versionTail().ReplaceAllString(tool, "") && tool != name+"js"
	}
	return false
}

// mentionsLauncher: where help is said to be with an interpreter, it is the interpreter that speaks.
func mentionsLauncher(line string) bool {
	return slices.ContainsFunc(strings.Fields(line), func(w string) bool {
		return slices.Contains(launchers(), versionTail().ReplaceAllString(baseName(strings.Trim(w, "`'\".,:;()")), ""))
	})
}

// isRefusal: the line refuses an argument that was given.
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
	if m[1] == "" { // "Illegal option --": the shell's own way to say "-"
		return strings.HasSuffix(strings.TrimSpace(line), "--")
	}
	return slices.ContainsFunc(given, func(g string) bool { return strings.HasPrefix(g, "-") && strings.Contains(g, m[1]) })
}

// bare are the arguments without their dashes, "Unknown option: version", and with one of them: "Unrecognized option
// '-version'".
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

// sentence gives patterns for a line that is no usage: with the name of the tool where the line has it.
func sentence(line, tool string) []string {
	line = strings.TrimSpace(line)
	if at := findWord(line, tool); at > 0 && strings.HasPrefix(line, "/") && isWord(strings.TrimRight(firstWord(line), ":"), tool) {
		line = line[at:] // where it stands may change
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

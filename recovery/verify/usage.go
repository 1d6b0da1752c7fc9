package verify

import (
	"regexp"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

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

// usageProof looks at line i. A usage of the interpreter under a tool is no proof of the tool: its wrapper has called
// it wrongly.
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

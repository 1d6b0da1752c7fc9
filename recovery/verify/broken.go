package verify

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/pattern"
)

// sign is one kind of evidence that a tool is broken.
type sign struct {
	why      string
	re       *regexp.Regexp
	anywhere bool // also counts in indented lines, which usually belong to a help text
	// about says that the sign does not count in a line that names an argument of the tool: such a line is about the
	// argument.
	about bool
}

// signs are ordered by how much each one tells an operator; the first that matches is reported.
var signs = sync.OnceValue(func() []sign {
	s := func(why string, exprs ...string) sign {
		return sign{why: why, re: regexp.MustCompile(`(?i)(?:` + strings.Join(exprs, "|") + `)`)}
	}
	any := func(s sign) sign { s.anywhere = true; return s }
	about := func(s sign) sign { s.about = true; return s }
	return []sign{
		any(s("a shared library is missing or does not fit",
			`error while loading shared libraries`, `cannot open shared object file`, `symbol lookup error`, `undefined symbol: `,
			"version [`'\"]?(?:GLIBC|GLIBCXX|CXXABI|OPENSSL|[A-Z]\\w+)_[\\w.]+['\"]? not found", `error loading shared library`, `error relocating `,
			`\bdyld(?:\[\d+\])?: `, `library not loaded: `, `invalid elf header`, `wrong elf class`, `bad cpu type in executable`)),
		s("the system cannot run its file", `exec format error`, `cannot execute`, `required file not found`, `bad interpreter`, `no such device or address`),
		any(s("a module of its is missing",
			`modulenotfounderror`, `importerror: `, `\bno module named `, `\bmodule_not_found\b`, `cannot find (?:module|package) `, `can't find package `,
			`cannot load such file`, `\(gem::\w+\)`, `could not find '?[\w-]+'? .*(?:among|in locally|in any of the sources)`,
			`can't locate \S+ in @inc`, `failed opening required`, `module '[^']+' not found:`, `packagenotfounderror`, `distributionnotfound`,
			`could not find or load main class`, `noclassdeffounderror`, `classnotfoundexception`, `unable to access jarfile`, `invalid or corrupt jarfile`,
			`can't open file '`, `can't find '__main__' module`, `could not load (?:file or assembly|the)`)),
		any(s("it ended with a stack trace",
			`^\s*traceback \(most recent call last\)`, `^\s*panic: `, `^goroutine \d+ \[`, `^fatal error: `, `\[signal sig`, `^thread '.*' .*panicked at`,
			`^\s+at .+[:(]\S*:\d+:\d+\)?$`, `^\s+at [\w$.<>]+\(.*\)$`, `^node:internal/`, `unhandledpromiserejection`, `^exception in thread `, `unhandled exception`,
			`uncaught (?:exception|error)`, ":\\d+:in [`'\"]", `^fatal python error`, `\b(?-i:[A-Z][a-z]\w*(?:Exception)): `)),
		s("its own code or its wrapper is broken",
			`^\s*(?:syntax|name|attribute|type|reference|range|value|runtime|os|filenotfound|permission|load|nomethod)error\b`,
			`undefined subroutine`, `begin failed--compilation aborted`, `(?:^|php )(?:fatal|parse) error:`, `syntax error: unexpected`,
			`syntax error near unexpected`, `^\S+: \d+: syntax error: `, `unexpected eof while looking for`, `internal (?:compiler )?error\b`, `unsupportedclassversionerror`),
		s("it crashed",
			`segmentation fault`, `\bcore dumped\b`, `^(?:.*: )?illegal instruction`, `\bbus error\b`, `^(?:.*: line \d+: *\d* *)?aborted\b`, `floating point exception`,
			`stack smashing detected`, `double free or corruption`, `free\(\): invalid`, `malloc\(\): `, `addresssanitizer`, `terminate called after throwing`,
			`libc\+\+abi: `, `assertion .*failed`, `^killed\b`, `trace/breakpoint trap`, `fatal process oom`, `fatal process out of memory`, `javascript heap out of memory`),
		about(s("a file or program that it needs is not there", `no such file`, `\bcommand not found`, `: not found$`, `\b(?:file|library|program|binary|executable|module|directory) not found$`, `cannot find the (?:file|path) specified`)),
		s("the system refuses something that it needs",
			`permission denied`, `operation not permitted`, `access is denied`, `read-only file system`, `no space left on device`, `disk quota exceeded`,
			`cannot allocate memory`, `\bout of memory\b`, `too many open files`, `\beacces\b`, `\beperm\b`, `\benospc\b`, `\berofs\b`, `\benomem\b`, `\bemfile\b`),
		s("what it runs on is missing or too old",
			`java_home (?:is|environment|not|must|variable)`, `could not create the java virtual machine`, `unable to locate a java`, `no java runtime`,
			`must install (?:or update )?\.net`, `the framework '.*' .*not found`, `requires? (?:a )?(?:node(?:\.js)?|python|java|jre|jdk|ruby|php|perl|go|glibc|\.net|bash)\b.*\d`,
			`does not support (?:node|python|java|ruby|php|this)`, `unsupported (?:engine|platform|architecture|os|operating system|python|node|java)\b`,
			`you (?:need|have) to install`, `is not installed`, `please (?:re)?install`, `could not choose a version`, `no default toolchain`, `not supported on this (?:platform|system|architecture)`),
		s("its licence does not let it run",
			`licen[cs]e (?:[\w-]+ ){0,3}(?:expired|failed|not found|invalid|missing|denied)\b`, `not (?:yet )?(?:agreed|accepted) .*licen[cs]e`, `(?:no|invalid|expired|missing) (?:valid )?licen[cs]e`, `failed to (?:check ?out|acquire|obtain) .*licen[cs]e`),
		about(s("its configuration or data is missing or broken",
			`(?:cannot|can't|can not|could not|couldn't|unable to|failed to|error) (?:read|reading|open|opening|load|loading|find|parse|parsing|locate|initiali[sz]e|initiali[sz]ing)\b.*(?:conf|\.toml|\.ya?ml|\.json|\.ini|\.db|database|data ?file|template|plugin|librar|module|state|cache)`,
			`(?:invalid|missing|bad|broken|corrupt(?:ed)?) (?:required )?config`, `config(?:uration)?(?: file)?\b.*(?:not found|is missing|is invalid|is corrupt|does not exist)`,
			`\bis corrupt(?:ed)?\b`, `checksum mismatch`)),
	}
})

var missingCommand = sync.OnceValue(func() *regexp.Regexp {
	const quote = "[\"'`\u2018\u201c]"
	return regexp.MustCompile(`(?i)` + quote + `?([\w-]+)` + quote + `?\S? is not an? (?:[\w-]+ )?(?:sub-?)?command\b` +
		`|(?:no such|unknown|unrecogni[sz]ed|invalid) (?:sub-?)?command(?:: ?| )` + quote + `([\w-]+)|(?:no such|unknown) (?:sub-?)?command: ([\w-]+)|invalid choice: ` + quote + `([\w-]+)`)
})

// lacksCommand finds a line that says that a subcommand does not exist. Then the plugin that the check asks for (docker
// compose, cargo nextest, git lfs) is missing, although the program itself works.
func lacksCommand(lines []string) string {
	for _, l := range lines {
		m := missingCommand().FindStringSubmatch(l)
		if m == nil {
			continue
		}
		if name := m[1] + m[2] + m[3] + m[4]; !question().MatchString(name) {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

// brokenBy returns the first evidence that a tool is broken: its meaning, and the line. given are the tool's arguments.
func brokenBy(lines, given []string) (why, line string) {
	ownJVM := refusedByJava(lines, given)
	if l := lacksCommand(lines); l != "" {
		return "the command that the check is about is not there", l
	}
	lines = slices.DeleteFunc(slices.Clone(lines), optionText)
	for _, s := range signs() {
		for _, l := range lines {
			if !s.anywhere && indented(l) {
				continue
			}
			if !s.re.MatchString(l) || s.about && names(l, given) || ownJVM && strings.Contains(l, "Java Virtual Machine") {
				continue
			}
			return s.why, strings.TrimSpace(l)
		}
	}
	return "", ""
}

// refusedByJava reports whether java has refused one of the given options. Old versions of java then also print that
// they could not create the virtual machine.
func refusedByJava(lines, given []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Unrecognized option: ") && names(l, given) })
}

var optionLine = pattern.Lazy(`^\s+(?:-{1,2}[\w?]|\[-)`)

// optionText reports whether a line describes an option in a help text. Such a line may mention any error.
func optionText(line string) bool { return optionLine().MatchString(line) }

func indented(line string) bool { return line != "" && (line[0] == ' ' || line[0] == '\t') }

// names reports whether a line contains one of the arguments as a word of its own.
func names(line string, given []string) bool {
	return slices.ContainsFunc(given, func(g string) bool { return len(g) > 1 && indexWord(line, g, "-/") >= 0 })
}

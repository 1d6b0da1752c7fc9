package classify

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/superloop/superloop/internal/pattern"
)

// An error that the code makes is worded by the code. What the machine says reaches a message by a variable instead, and
// brings the words of the runtime along: "dial tcp", "[Errno 111]", "(os error 28)". So the strings of the code are cut
// out of a message. If nothing of the system's wording is left, the code made the error. Unlike the look at the lines
// near a place, this one can afford to read whole files.

const (
	leastCut = 4 // bytes of a string that is cut out of a message
)

var (
	// framed matches the words with which a runtime tells what the system said.
	framed = pattern.Lazy(`\b(?:dial|read|write|accept|listen) (?:tcp|udp|unix)|\b(?:open|write|read|l?stat|mkdir|rename|remove|unlink|f?sync|chdir|chmod|fork/exec|truncate|symlink|close|copy_file_range) [^\s:]*[/.][^\s:]*: |\[Errno -?\d+\]|\(os error \d+\)|\bOs \{ code|\bkind: Uncategorized|\bErrno::|@ rb_sys|connect\(2\)|\b(?:connect|bind|sendto|recvfrom|getsockopt): |\blookup \S+|\bline \d+: \S`)
	// throwing matches a line of code that throws an error, or gives one to the caller.
	throwing = pattern.Lazy(`\b(?:raise|throw|die|croak|reject|error)\b|\bnew \w*(?:Error|Exception)\(|and_raise|side_effect|\w*[rR]ejects?(?:ed)?\w*\(`)
	// hole matches the places of a string at which a value is put in, and what ends a line.
	hole = pattern.Lazy(`%[-+#0-9.]*[a-zA-Z]|\$\{[^}]*\}|#\{[^}]*\}|\{[^}]*\}|\\[nrt]|\$\w+(?:\[\w+\]|->[\[{]\w+[\]}])*|\\`)
	// joined matches what follows a string to which a value is put.
	joined = pattern.Lazy(`^\s*(?:\+|<>|\.\.|\.\s*[$\w]|<<)\s*\S`)
	// told matches a line of code that tells errors from each other, that is no statement, or that only imports a name.
	told = pattern.Lazy(`^\s*(?://|#|\*|--|import |from |use |require)|\b(?:rescue|except|catch|errors\.(?:Is|As)|instanceof|match|case|toThrow\w*|assert\w*|expect\w*|Contains|includes?|startswith)\b|[!=]==?|=~`)
	// symbol matches the name of an error of the system in code.
	symbol = pattern.Lazy(`\b(?:(?:syscall|unix|errno|Errno|libc|Errno:)[.:]+|errno = (?:[^;"]*\W)?|return -)(E[A-Z0-9]+)\b|\b(?:fs|os)\.(Err\w+)|\bfrom_raw_os_error\((\d+)\)|\bErrorKind::(\w+)|[ ({\[](:(?:e[a-z]{4,}|nxdomain|timeout))\b(?:[^-=]|$)`)
	// traceless matches the files of languages whose errors are values, so that a report does not name the place that made one.
	traceless = pattern.Lazy(`\.(?:go|rs|exs?|c|cc|cpp|h|sh|bash|bats|p[lm]|t|tcl|test|lua)$`)
	// proved matches the line in which prove names a file of tests that did not pass.
	proved = pattern.Lazy(`^(\S+\.t) \.+\s*(?:$|Dubious|Failed)`)
	// rustErrno matches how Rust shows an error of the system.
	rustErrno = regexp.MustCompile(`Os \{ code: (\d+), kind: \w+, message: "[^"]*" \}`)
)

// gives matches a line of code that gives a text away, whatever it tells besides.
var gives = pattern.Lazy("\\b(?:return|throw|raise|reject|panic|die)\\b[^;]*[\"'`]")

// symbols holds what the C library says of an error, by the names that code has for it.
var symbols = map[string]string{
	"ENOSPC": "no space left on device", "ECONNREFUSED": "connection refused", "ECONNRESET": "connection reset by peer", "EACCES": "permission denied",
	"EPERM": "operation not permitted", "ENOENT": "no such file or directory", "ETIMEDOUT": "connection timed out", "EADDRINUSE": "address already in use",
	"EROFS": "read-only file system", "EMFILE": "too many open files", "ENFILE": "too many open files in system", "ENOMEM": "cannot allocate memory",
	"EDQUOT": "disk quota exceeded", "EPIPE": "broken pipe", "EHOSTUNREACH": "no route to host", "ENETUNREACH": "network is unreachable",
	"EAGAIN": "resource temporarily unavailable", "EBUSY": "device or resource busy", "EIO": "input/output error", "ECONNABORTED": "software caused connection abort",
	"ErrPermission": "permission denied", "ErrNotExist": "file does not exist", "ErrDeadlineExceeded": "i/o timeout",
	"PermissionDenied": "permission denied", "ConnectionRefused": "connection refused", "ConnectionReset": "connection reset", "StorageFull": "no storage space",
	"TimedOut": "timed out", "AddrInUse": "address in use", "BrokenPipe": "broken pipe", "NotFound": "entity not found",
}

// composed reports whether strings and names of errors in the code make up all that a message has of the system's wording.
func composed(said string, code []string) bool {
	left := said
	if m := systemType().FindString(said); m != "" {
		kind := m[strings.LastIndexAny(m, ".:")+1:]
		if !slices.ContainsFunc(code, func(l string) bool { return word(l, m) || word(strings.ReplaceAll(l, "."+kind, " "+kind), kind) }) {
			return false
		}
		left = left[len(m):]
	}
	cuts := map[string]bool{}
	worded := false // a string has the words of the system, and the message goes on as it should
	for _, l := range code {
		for _, at := range quotedText().FindAllStringSubmatchIndex(l, 40) {
			text := ""
			for g := 2; g < len(at); g += 2 {
				text += unescaped(l[max(0, at[g]):max(0, at[g+1])])
			}
			if joined().MatchString(l[at[1]:]) {
				text += "%s" // what is put to it
			}
			for _, part := range hole().Split(text, -1) {
				if part = strings.TrimSpace(part); len(part) >= leastCut {
					cuts[part] = true
				}
			}
			worded = worded || machine().MatchString(text) && endsAs(text, left)
		}
		for _, m := range symbol().FindAllStringSubmatch(l, 10) {
			text := cmp.Or(symbols[m[1]+m[2]+m[4]], m[5])
			if n, err := strconv.Atoi(m[3]); err == nil {
				text = syscall.Errno(n).Error()
				left = strings.ReplaceAll(left, "(os error "+m[3]+")", "")
				if r := rustErrno.FindStringSubmatch(left); r != nil && r[1] == m[3] {
					left = strings.Replace(left, r[0], text, 1)
				}
			}
			if text == "" {
				continue
			}
			for _, t := range []string{text, strings.ToUpper(text[:1]) + text[1:]} { // as Go has it, and as the C library
				cuts[t] = true
				worded = worded || strings.Contains(left, t)
			}
		}
	}
	if !worded {
		return false
	}
	for _, c := range slices.SortedFunc(maps.Keys(cuts), func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		left = strings.ReplaceAll(left, c, "\x00")
	}
	return !machine().MatchString(left) && !framed().MatchString(left)
}

var (
	// innermost matches a frame of a trace that names the innermost one first, and raisedAt the line in which pytest names
	// the place of an exception behind its message.
	innermost = pattern.Lazy(`^\s*(?:at |❯ |# [./]|from |[^\s:]+\.rb:\d+:in )`)
	raisedAt  = pattern.Lazy(`^(\S+\.py):\d+: [A-Z]?[\w.]*$`)
	calledAt  = pattern.Lazy(`^\s*File "([^"]+)", line \d+|^(\S+\.py):\d+: in \S`)
	// runtimes matches a frame of a runtime or a library, other than of a runner of tests.
	runtimes = pattern.Lazy(`\bjava\.base/|\bjdk\.|\(node:(?:fs|net|dns|child_process|_tls|internal/(?:fs|net|dns|child_process|errors|deps/undici))|/usr/lib/ruby|/gems/`)
)

// checkers matches a frame of a library with which a test checks.
var checkers = pattern.Lazy(`node_modules/(?:@?expect|@?vitest|@?jest|mocha|chai|ava|tape|uvu|@?jasmine|should|power-assert)|/(?:rspec|minitest)|/(?:unittest|_pytest|pluggy)/`)

// fromOutside reports whether the trace of an exception shows that a runtime or a library threw it.
func fromOutside(lines []string, at int) bool {
	if at < 0 || at >= len(lines) {
		return false
	}
	if strings.Contains(lines[at], "[Errno ") && !raisedHere(lines[:at]) {
		return true
	}
	for _, l := range lines[at+1 : min(len(lines), at+maxMessage)] {
		if m := raisedAt().FindStringSubmatch(l); m != nil {
			return foreign(m[1])
		}
		if t := strings.TrimSpace(l); innermost().MatchString(l) || strings.HasSuffix(t, ")") && strings.Contains(t, " (node:") {
			return runtimes().MatchString(l) || foreign(l) && !strings.Contains(l, "node:internal") && !checkers().MatchString(l)
		}
	}
	for i := at - 1; i >= 0 && i > at-maxTrace; i-- {
		if m := calledAt().FindStringSubmatch(lines[i]); m != nil {
			return foreign(m[1] + m[2])
		}
	}
	return false
}

// raisedHere reports whether the line of code before the name of an exception of Python raises it. A function of the
// interpreter has none.
func raisedHere(before []string) bool {
	for i := len(before) - 1; i >= 0 && i > len(before)-maxHeader; i-- {
		l := before[i]
		if t := strings.TrimLeft(l, "> "); t != "" && !strings.HasPrefix(l, "E ") && strings.Trim(t, "^~ ") != "" {
			return strings.Contains(t, "raise") || calledAt().MatchString(l) || !strings.HasPrefix(l, ">") && indent(l) < 4
		}
	}
	return true
}

var (
	// serves matches a line of code that starts a server, and status the status of HTTP in a message.
	serves = pattern.Lazy(`\bHTTPServer\(|\bhttptest\.New|\bcreateServer\(|\.listen\(\s*0|\bMockWebServer\b|(?i)\bwiremock|\bsetupServer\(|\bTestServer\(|\bTCPServer\.new|\bBypass\.open|\bmockito::|\bhttpmock::|[:"'(, ]0["')]*\)`)
	status = pattern.Lazy(`\b(4[0-3]\d|50\d)\b`)
	// givenPort matches an address of this machine with a port that the system may have given.
	givenPort = pattern.Lazy(`(?:127\.0\.0\.1|localhost|::1)[\]:'", ]+(?:port )?(3[2-9]\d{3}|[45]\d{4}|6[0-5]\d{3})\b`)
)

// ownServer reports whether a message tells what a server answered that the test itself has started, or speaks of a port
// that the test had the system choose: no line of the code has it.
func (j *judgement) ownServer(said string, f *failure) bool {
	code, port := status().FindString(said), ""
	if machine().MatchString(said) {
		for _, l := range append([]string{said}, f.lines...) {
			if m := givenPort().FindStringSubmatch(l); m != nil && port == "" {
				port = m[1]
			}
		}
	}
	if code == "" && port == "" {
		return false
	}
	started, answered, fixed := false, false, false
	var files []string
	for _, l := range f.lines {
		if file, _ := placeIn(l); file != "" && j.local(file) != "" {
			files = append(files, j.local(file))
		}
	}
	for _, file := range j.reach(files) {
		for _, c := range j.scoped(file, f) {
			started = started || serves().MatchString(c)
			answered = answered || code != "" && word(c, code)
			fixed = fixed || strings.Contains(c, port)
		}
	}
	return started && (answered || port != "" && !fixed)
}

// scoped returns the lines of a file without those of other tests.
func (j *judgement) scoped(file string, f *failure) []string {
	if lines := j.readLines(file); f.Runner != "" {
		return withoutOthers(lines, f.lines)
	}
	return j.readLines(file)
}

// endsAs reports whether a message ends as a string of the code does, or where a value is put into the string.
func endsAs(literal, said string) bool {
	parts := hole().Split(literal, -1)
	for i, part := range parts {
		part = strings.TrimSpace(part)
		if len(part) < leastCut || !machine().MatchString(part) {
			continue
		}
		if i+1 < len(parts) && strings.Contains(said, part) || isOf(part, said) {
			return true
		}
	}
	return false
}

// wholeSources returns the lines of the files that the report names, and of files of the same kind beside them, which may
// word an error. It returns nil if the report shows that the error came from elsewhere: languages that show traces name
// the place that threw it.
func (j *judgement) wholeSources(f *failure) (out []string) {
	if j.in.Dir == "" {
		return nil
	}
	var files []string
	add := func(file string) bool {
		if file = j.local(file); file != "" && !slices.Contains(files, file) && len(files) < maxSources {
			files = append(files, file)
		}
		return file != ""
	}
	thrown, known := false, false
	for i, l := range f.lines {
		if strings.HasPrefix(strings.TrimSpace(l), "location: '") {
			continue // node:test names so the place of the test
		}
		file, n := placeIn(l)
		if m := proved().FindStringSubmatch(l); m != nil {
			file = m[1]
		}
		if file == "" || !add(file) {
			if pythonRaise().MatchString(l) && quotesOwnCode(f.lines, i) {
				thrown, known = true, true
			}
			continue
		}
		if traceless().MatchString(file) {
			thrown = true
		} else if !known {
			lines := j.scoped(j.local(file), f)
			known = !strings.HasSuffix(file, ".py")
			thrown = thrown || slices.ContainsFunc(lines[max(0, min(len(lines), n-2)):min(len(lines), n+1)], throwing().MatchString)
		}
	}
	for _, call := range j.calls.words { // of a script that names no place
		for _, arg := range call {
			if len(files) == 0 && traceless().MatchString(arg) && add(arg) {
				thrown = true
			}
		}
	}
	for _, dir := range []string{".", "src"} { // of a program that the command has built
		for _, name := range slices.Concat(j.beside(dir, ".go"), j.beside(dir, ".rs")) {
			if j.builds() && !known && add(name) {
				thrown = true
			}
		}
	}
	if !thrown {
		return nil
	}
	for _, file := range j.reach(files) {
		out = append(out, j.wording(file, f)...)
	}
	return out
}

// wording returns the lines of a file that may make an error.
func (j *judgement) wording(file string, f *failure) (out []string) {
	for _, l := range j.scoped(file, f) {
		if !told().MatchString(l) || gives().MatchString(l) {
			out = append(out, l)
		}
	}
	return out
}

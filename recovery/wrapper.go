package recovery

import "strings"

// wrapper describes the arguments of a program that runs another program.
type wrapper struct {
	programs string // the names of the program
	grammar
	operands int    // the number of words between the options and the command
	assigns  bool   // NAME=VALUE words may be in front of the command
	idle     string // the options with which the program runs nothing
	reads    string // selects a reader of its own for arguments that do not simply end in a command
}

// wrappers are the programs whose arguments hold a command, mostly at the end.
var wrappers = []wrapper{
	{programs: "command", grammar: grammar{"pvV", ""}, idle: "-v -V"},
	{programs: "builtin nohup eatmydata catchsegv chronic unbuffer fakeroot", grammar: grammar{"", ""}},
	{programs: "setsid", grammar: grammar{"cfw", "ctty fork wait"}},
	{programs: "exec", grammar: grammar{"cla:", ""}},
	{programs: "timeout gtimeout", grammar: grammar{"s:k:vfp", "signal: kill-after: preserve-status foreground verbose"}, operands: 1},
	{programs: "nice gnice", grammar: grammar{"n:0123456789", "adjustment:"}},
	{programs: "ionice", grammar: grammar{"c:n:t", "class: classdata: ignore"}},
	{programs: "chrt", grammar: grammar{"abdfirovRT:P:D:", "batch deadline fifo idle other rr reset-on-fork verbose all-tasks"}, operands: 1},
	{programs: "taskset", grammar: grammar{"ac", "all-tasks cpu-list"}, operands: 1},
	{programs: "stdbuf gstdbuf", grammar: grammar{"i:o:e:", "input: output: error:"}},
	{programs: "sudo sudo-rs", grammar: grammar{"AbBEHnPSiska:C:c:D:g:h:p:R:r:T:t:U:u:Kv", "askpass background bell preserve-env set-home non-interactive preserve-groups stdin login shell reset-timestamp remove-timestamp validate auth-type: close-from: login-class: chdir: group: host: prompt: chroot: role: command-timeout: type: other-user: user:"}, assigns: true, idle: "-K -v --remove-timestamp --validate"},
	{programs: "doas", grammar: grammar{"nsLa:C:u:", ""}, idle: "-C -L"},
	{programs: "pkexec", grammar: grammar{"", "disable-internal-agent keep-cwd user:"}},
	{programs: "time gtime", grammar: grammar{"apvqVf:o:", "append portability verbose quiet format: output:"}},
	{programs: "chroot gchroot", grammar: grammar{"u:g:G:", "userspec: groups: skip-chdir"}, operands: 1},
	{programs: "unshare", grammar: grammar{"imnpuUCTfrcS:G:R:w:", "mount uts ipc net pid user cgroup time fork map-root-user map-current-user map-auto mount-proc kill-child keep-caps setuid: setgid: root: wd: propagation: setgroups:"}},
	{programs: "strace ltrace", grammar: grammar{"a:b:e:E:I:o:O:p:P:s:S:u:U:X:cCdfFhiknqrtTvVwxyYzZDA", "follow-forks output: trace: string-limit: summary summary-only quiet"}},
	{programs: "caffeinate", grammar: grammar{"disumt:w:", ""}},
	{programs: "env genv", grammar: grammar{"i0vu:C:S:P:a:", "ignore-environment null debug unset: chdir: split-string: argv0: block-signal default-signal ignore-signal list-signal-handling"}, reads: "env"},
	{programs: "xargs gxargs", grammar: grammar{"0rtpxoa:d:E:I:L:n:P:s:J:R:S:", "null no-run-if-empty verbose interactive exit open-tty arg-file: delimiter: eof max-lines max-args: max-procs: max-chars: replace show-limits process-slot-var:"}, reads: "xargs"},
	{programs: "flock", grammar: grammar{"snxueoFvw:E:c:", "shared exclusive nonblock nb unlock close verbose no-fork wait: timeout: conflict-exit-code: command:"}, reads: "flock"},
	{programs: "watch gwatch", grammar: grammar{"bcCdeghprtvwxn:q:s:", "beep color no-color differences errexit chgexit exec precise no-rerun no-title no-wrap interval: equexit: shotsdir:"}, reads: "watch"},
}

// npx describes the arguments of npx and similar programs.
var npx = wrapper{grammar: grammar{"yqp:c:w:", "yes no no-install quiet silent bun offline prefer-offline package: call: workspace: workspaces shell-mode with: from: python: frozen"}, reads: "npx"}

func (c call) wrapped(w wrapper) {
	options, rest, ok := w.split(c.args, false)
	if !ok {
		name := c.name
		if w.reads != "" {
			name = strings.TrimPrefix(name, "g") // systems other than GNU call GNU's programs with a "g" in front
		}
		c.unclear("the options of " + name + " are not all understood, so nobody can say what it runs")
		return
	}
	switch w.reads {
	case "env":
		c.env(w, options, rest)
	case "xargs":
		c.xargs(options, rest)
	case "flock":
		c.flock(options, rest)
	case "watch":
		c.watch(options, rest)
	case "npx":
		c.npx(options, rest)
	default:
		c.plain(w, options, rest)
	}
}

// plain reads the words behind the options as a command.
func (c call) plain(w wrapper, options []option, rest []word) {
	for _, o := range options {
		for idle := range strings.FieldsSeq(w.idle) {
			if o.name == idle {
				return
			}
		}
		switch {
		case c.name == "strace" && o.name == "-E":
			name, _, _ := strings.Cut(o.value.text, "=")
			c.variable(name, c.text)
		case c.name == "strace" && (o.name == "-o" || o.name == "--output") && (!o.value.known || strings.HasPrefix(o.value.text, "|") || strings.HasPrefix(o.value.text, "!")):
			c.unclear("strace pipes its output to a command")
		}
	}
	if w.assigns {
		rest = c.assignments(rest)
	}
	for range w.operands {
		if len(rest) == 0 || !rest[0].known {
			break
		}
		rest = rest[1:]
	}
	switch {
	case len(rest) > 0:
		c.inner(rest)
	case c.name == "sudo" || c.name == "doas" || c.name == "pkexec" || c.name == "chroot" || c.name == "unshare" || c.name == "fakeroot":
		c.unclear(c.name + " runs a shell that reads its input")
	}
}

// assignments judges NAME=VALUE words and returns the words that follow them.
func (c call) assignments(ws []word) []word {
	for i, w := range ws {
		name, _, ok := strings.Cut(w.before(), "=")
		if !ok || w.split { // env takes even "=x" for an assignment
			return ws[i:]
		}
		c.variable(name, c.text)
	}
	return nil
}

func (c call) env(w wrapper, options []option, rest []word) {
	if text, has := find(options, "-S", "--split-string"); has {
		if !text.known || strings.ContainsAny(text.text, "\\'\"$#") {
			c.unclear("env -S splits a text by rules of its own")
			return
		}
		var words []word
		for f := range strings.FieldsSeq(text.text) {
			words = append(words, literal(f))
		}
		// The resulting words may begin with options of env again.
		if c.args, c.depth = append(words, rest...), c.depth+1; c.depth > maxDepth || c.tired(c.args) {
			c.unclear("env splits texts in texts")
			return
		}
		c.wrapped(w)
		return
	}
	if len(rest) > 0 && rest[0].known && rest[0].text == "-" {
		rest = rest[1:]
	}
	if rest = c.assignments(rest); len(rest) > 0 {
		c.inner(rest)
	}
}

func (c call) xargs(options []option, rest []word) {
	if len(rest) == 0 {
		return // without a command xargs runs echo
	}
	replaced, has := find(options, "-I", "-J", "--replace")
	words := make([]word, 0, len(rest)+1)
	for _, w := range rest {
		if mark := replaced.text; has && (mark == "" && strings.Contains(w.text, "{}") || mark != "" && strings.Contains(w.text, mark)) {
			w = word{text: string(unknown)}
		}
		words = append(words, w)
	}
	if name, plain := find(options, "--process-slot-var"); plain {
		c.variable(name.text, c.text)
	}
	c.inner(append(words, word{text: string(unknown), many: true, split: true}))
}

func (c call) find() {
	if c.anyUnknown() {
		c.unclear("find gets words that are not written out; they could be -exec")
	}
	for i := 0; i < len(c.args); i++ {
		switch c.args[i].text {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(c.args) && c.args[end].text != ";" && !(c.args[end].text == "+" && c.args[end-1].text == "{}") {
				end++
			}
			words := make([]word, 0, end-i)
			for _, w := range c.args[i+1 : end] {
				if strings.Contains(w.text, "{}") {
					w = word{text: strings.ReplaceAll(w.text, "{}", string(unknown)), many: true}
				}
				words = append(words, w)
			}
			c.inner(words)
			i = end
		case "-delete":
			c.findDeletes()
		case "-files0-from":
			c.unclear("find reads its starting points from a file")
		}
	}
}

// switchUser reads su and similar programs. Only the script of option -c can be read.
func (c call) switchUser() {
	for i, a := range c.args {
		name, value, inline := strings.Cut(a.text, "=")
		switch {
		case (name == "--command" || name == "--session-command") && inline:
			c.body(word{text: value, known: a.known})
			return
		case (a.text == "-c" || name == "--command" || name == "--session-command") && i+1 < len(c.args):
			c.body(c.args[i+1])
			return
		}
	}
	c.unclear(c.name + " runs a shell whose commands are not read")
}

func (c call) script() {
	g := grammar{"aefqrkc:E:m:o:I:O:B:T:t:F:", "append command: echo: return flush force quiet log-in: log-out: log-io: log-timing: logging-format: output-limit:"}
	options, _, ok := g.split(c.args, true)
	if body, has := find(options, "-c", "--command"); ok && has {
		c.body(body)
		return
	}
	c.unclear("script runs a shell, or a command that is not read")
}

func (c call) flock(options []option, rest []word) {
	body, has := find(options, "-c", "--command")
	switch {
	case has:
		c.body(body)
	case len(rest) > 1 && (rest[1].text == "-c" || rest[1].text == "--command"):
		if len(rest) > 2 {
			c.body(rest[2])
		}
	case len(rest) > 1:
		c.inner(rest[1:])
	}
}

func (c call) watch(options []option, rest []word) {
	if _, plain := find(options, "-x", "--exec"); plain {
		c.inner(rest)
	} else if len(rest) > 0 {
		c.body(joinedWord(rest))
	}
}

func (c call) npx(options []option, rest []word) {
	if body, has := find(options, "-c", "--call"); has {
		c.body(body)
	} else if len(rest) > 0 {
		c.inner(rest)
	}
}

// joinedWord joins words by blanks, as eval and watch pass them to a shell.
func joinedWord(ws []word) word {
	out := word{known: true}
	var texts []string
	for _, w := range ws {
		out.known = out.known && w.known
		texts = append(texts, w.text)
	}
	out.text = strings.Join(texts, " ")
	return out
}

package recovery

import (
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// interpreters lists programs with the options that bring code (letters, words) and the options that take another value
// (valued).
var interpreters = []struct{ programs, letters, words, valued string }{
	{"python pypy pythonw ipython", "ci", "", "mWXQ"},
	{"perl", "eE", "", "IMm"},
	{"ruby", "e", "", "IrCEK"},
	{"node nodejs tsx ts-node electron", "epi", "--eval --print --interactive --import --require --loader --experimental-loader", "rC"},
	{"bun", "ep", "--eval --print --preload", "rc"}, // for bun in the role of an interpreter; packageManager reads the rest
	{"php", "rBREa", "--run --process-begin --process-code --process-end --interactive", "cdfFtSz"},
	{"lua luajit", "ei", "", "l"},
	{"osascript Rscript julia elixir erl raku swift scala groovy jshell ghc racket guile sbcl clojure", "eE", "--eval --expr --execute", ""},
}

// interpreter reads a program that runs code of another language, and returns false for other programs. A file of code
// in the repository counts as a program. Code in the command itself, or from the input, is opaque.
func (c call) interpreter() bool {
	base := strings.TrimRight(c.name, "0123456789.-")
	for _, i := range interpreters {
		if listed(i.programs, base) {
			c.code(i.letters, i.words, i.valued)
			return true
		}
	}
	switch base {
	case "deno":
		if len(c.args) == 0 || c.has("eval", "repl") {
			c.unclear("deno runs code that is in the command")
		}
	case "awk", "gawk", "mawk", "nawk", "original-awk":
		c.awk()
	case "sed", "gsed":
		c.sed()
	default:
		return false
	}
	return true
}

// code looks for code in the arguments, up to the name of the program's file.
func (c call) code(letters, words, valued string) {
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		name, _, _ := strings.Cut(a.text, "=")
		switch {
		case !a.known && (a.many || a.mayBeOption()):
			c.unclear(c.name + " gets words that are not written out; they could be code")
			return
		case a.text == "-" || strings.HasPrefix(a.text, "/dev/") || strings.HasPrefix(a.text, "/proc/"):
			c.unclear(c.name + " runs code from its input")
			return
		case a.text == "--version" || a.text == "--help" || a.text == "-V" && c.name != "ruby":
			return
		case strings.HasPrefix(a.text, "--") && len(a.text) > 2:
			for w := range strings.FieldsSeq(words) {
				if name == w || len(name) > 3 && strings.HasPrefix(w, name) {
					c.unclear(c.name + " runs code that is in the command")
					return
				}
			}
		case isOption(a.text):
			at := strings.IndexAny(a.text[1:], letters+valued) + 1
			switch {
			case at > 0 && strings.IndexByte(letters, a.text[at]) >= 0:
				c.unclear(c.name + " runs code that is in the command")
				return
			case at > 0 && a.text[at] == 'm' && strings.HasPrefix(c.name, "py"):
				if rest := a.text[at+1:]; rest != "" {
					c.module(append([]word{literal(rest)}, c.args[i+1:]...))
				} else {
					c.module(c.args[i+1:])
				}
				return
			case at > 0 && at == len(a.text)-1:
				i++ // skips the option's value
			}
		case a.text == "--":
			if i+1 < len(c.args) {
				c.own(c.name+" runs a file", c.text)
				return
			}
		default:
			c.own(c.name+" runs a file", c.text)
			return
		}
	}
	c.unclear(c.name + " runs code from its input")
}

// awk reads the arguments of awk. A program for awk can run commands, and can come from a file.
func (c call) awk() {
	for i, a := range c.args {
		text := strings.ReplaceAll(a.text, "||", "")
		switch {
		case !a.known:
			c.unclear("awk gets words that are not written out; they could be its program")
			return
		case strings.Contains(text, "system"), strings.Contains(text, "|"), strings.Contains(text, "getline"), strings.Contains(text, "@"):
			c.unclear("awk can run commands")
			return
		case len(a.text) > 1 && a.text[0] == '-' && strings.IndexByte("fEilW-", a.text[1]) >= 0 && (i == 0 || c.args[i-1].text != "-F"):
			c.unclear("awk reads its program from a file, or has options that are not read")
			return
		}
	}
}

// sed reads the arguments of sed. The command e of a script runs commands, and a script can come from a file.
func (c call) sed() {
	scripted := false
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case !a.known && (!scripted || a.mayBeOption()):
			c.unclear("sed gets words that are not written out; they could be its script")
			return
		case a.text == "-e" || a.text == "--expression":
			if i++; i == len(c.args) || !tameSed(c.args[i]) {
				c.unclear("sed can run commands")
				return
			}
			scripted = true
		case strings.HasPrefix(a.text, "--expression="):
			if !tameSed(literal(a.text[len("--expression="):])) {
				c.unclear("sed can run commands")
				return
			}
			scripted = true
		case a.text == "--quiet", a.text == "--silent", a.text == "--regexp-extended", a.text == "--in-place", a.text == "--null-data", a.text == "--separate", strings.HasPrefix(a.text, "--in-place="):
		case strings.HasPrefix(a.text, "-i") && !strings.HasPrefix(a.text, "--"):
		case isOption(a.text) && strings.Trim(a.text[1:], "nErszu") == "":
		case isOption(a.text):
			c.unclear("sed gets an option that is not read, such as the file of a script")
			return
		case !scripted:
			if !tameSed(a) {
				c.unclear("sed can run commands")
				return
			}
			scripted = true
		}
	}
}

// tameSed reports whether a script of sed is known to only edit: an address and one of d, p, q, D, =, or the command s
// with its usual flags, or y. Any other script counts as one that runs commands.
func tameSed(w word) bool {
	s := strings.TrimSpace(w.text)
	if !w.known || s == "" {
		return false
	}
	s = strings.TrimLeft(s, "0123456789,$ ")
	if s != "" && s[0] == '/' {
		_, rest, ok := cutSed(s)
		if !ok {
			return false
		}
		s = strings.TrimLeft(rest, "I ")
	}
	switch {
	case s == "":
		return false
	case len(s) == 1:
		return strings.Contains("dpqD=", s)
	case s[0] != 's' && s[0] != 'y' || s[1] == '\\' || s[1] == '\n':
		return false
	}
	delim := s[1:2]
	_, rest, ok := cutSed(s[1:])
	if !ok {
		return false
	}
	_, rest, ok = cutSed(delim + rest)
	return ok && strings.Trim(rest, "gpiIm0123456789") == ""
}

// cutSed splits /regex/rest. The delimiter is the first byte of s.
func cutSed(s string) (inside, rest string, ok bool) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '\n':
			return "", "", false
		case s[0]:
			return s[1:i], s[i+1:], true
		}
	}
	return "", "", false
}

// known reads programs that run other programs or code, either because of an option or always.
func (c call) known() {
	c.otherDeletes()
	switch {
	case strings.HasPrefix(c.name, "ld-linux"), strings.HasPrefix(c.name, "ld-musl"), strings.HasPrefix(c.name, "ld.so"), strings.HasPrefix(c.name, "ld64"), strings.HasPrefix(c.name, "qemu-"):
		c.unclear(c.name + " runs the program that its arguments name")
		return
	case listed(runsOthers, c.name):
		c.unclear(c.name + " runs other commands, in a way that is not read")
		return
	}
	switch c.name {
	case "make", "gmake", "bmake":
		for _, a := range c.args {
			if !a.known || strings.Contains(a.text, "$") || strings.Contains(a.text, "!=") {
				c.unclear(c.name + " can run what stands in its arguments")
				return
			}
		}
	case "kill", "pkill", "killall":
		if strings.Contains(join(c.args), "superloop") {
			c.state(c.text)
		}
	}
	long, short, words := "", "", ""
	for _, t := range triggers {
		if listed(t.programs, c.name) {
			long, short, words = t.long, t.short, t.words
		}
	}
	for i, a := range c.args {
		if a.known && a.text == "--" {
			return
		}
		if a.split {
			if long+short+words != "" {
				c.unclear(c.name + " gets words that are not written out; they could run other commands")
			}
			return
		}
		name, _, _ := strings.Cut(a.before(), "=")
		for l := range strings.FieldsSeq(long) {
			// GNU programs take any prefix of a long name.
			if name == l || len(name) > 3 && strings.HasPrefix(name, "--") && strings.HasPrefix(l, name) {
				c.unclear(c.name + " " + text.Display(clip(name)) + " runs other commands")
				return
			}
		}
		bundle := len(name) > 1 && name[0] == '-' && name[1] != '-' || i == 0 && (c.name == "tar" || c.name == "bsdtar" || c.name == "gtar")
		if bundle && short != "" && strings.ContainsAny(name, short) {
			c.unclear(c.name + " " + text.Display(clip(name)) + " runs other commands")
			return
		}
		for w := range strings.FieldsSeq(words) {
			if a.text == w || strings.HasSuffix(w, "=") && strings.HasPrefix(a.text, w) {
				c.unclear(c.name + " " + w + " runs other commands")
				return
			}
		}
	}
}

// triggers are the arguments with which programs run other programs: beginnings of long options, letters of short
// options, and whole words. A word with "=" at its end stands for every word that begins so.
var triggers = []struct{ programs, long, short, words string }{
	{"tar gtar bsdtar", "--checkpoint-action --to-command --use-compress-program --rsh-command --rmt-command --info-script --new-volume-script", "IF", ""},
	{"cpio pax", "--rsh-command --rmt-command", "", ""},
	{"rg", "--pre --hostname-bin", "", ""},
	{"sort gsort", "--compress-program", "", ""},
	{"split gsplit", "--filter", "", ""},
	{"rsync", "--rsh --rsync-path", "e", ""},
	{"scp sftp", "", "oSD", ""},
	{"zip", "--unzip-command", "", "-TT"},
	{"make gmake bmake", "--eval", "E", "SHELL= .SHELLFLAGS= MAKEFLAGS= CC= -f- --file=- --makefile=- -"},
	{"cmake", "", "PE", ""},
	{"go", "", "", "-exec -exec= -toolexec -toolexec= -vettool -vettool="},
	{"cargo", "--config", "", ""},
	{"gcc g++ cc c++ clang clang++", "-wrapper -fplugin -specs", "B", ""},
	{"man", "--pager --html --preprocessor", "PHp", ""},
	{"wget", "--use-askpass --execute --config", "e", ""},
	{"curl", "--config", "K", ""},
	{"apt apt-get aptitude dpkg", "--option --config-file --pre-invoke --post-invoke", "oc", ""},
	{"pip pip3", "--python", "", ""},
	{"docker podman nerdctl docker-compose kubectl oc buildah", "", "", "run exec debug cp attach"},
	{"ip", "", "", "exec"},
	{"hg svn", "--config --config-option --editor-cmd --diff-cmd --diff3-cmd", "", ""},
	{"fd fdfind", "--exec --exec-batch", "xX", ""},
	{"mvn", "", "", "exec:exec exec:java"},
	{"latex pdflatex xelatex lualatex", "-shell-escape --shell-escape -enable-write18", "", ""},
	{"psql mysql mariadb sqlite3 duckdb", "--file --command --cmd --init --execute", "fce", ""},
	{"openssl", "", "", "engine -engine -provider-path"},
	{"logrotate tcpdump dhclient", "", "zf", ""},
}

// runsOthers are programs whose purpose is to run the commands that they are given.
const runsOthers = "ssh mosh sshpass rsh lxc lxc-attach nsenter systemd-run systemd-nspawn machinectl at batch " +
	"crontab screen tmux byobu dtach parallel sem expect gdb lldb vim vi view vimdiff rvim nvim emacs emacsclient ed " +
	"ex red nano pico joe m4 dc socat nc ncat netcat telnet ftp nix nix-shell nix-env guix entr watchexec nodemon " +
	"direnv mise asdf bwrap firejail proot faketime rlwrap valgrind perf hyperfine xvfb-run dbus-run-session " +
	"run-parts ansible fish csh tcsh pwsh powershell nu elvish xonsh rc es wish tclsh irb pry ghci gnuplot octave " +
	"gosu su-exec setpriv capsh chpst runsv daemonize start-stop-daemon cpulimit numactl prlimit setarch linux32 " +
	"linux64 i386 x86_64 arch run0 kdesu gksu gksudo calife super please dotenv env-cmd cross-env cross-env-shell " +
	"concurrently chronic-sh less more most rename prename"

// packageManager reads the subcommands of package managers that run programs by name.
func (c call) packageManager() {
	if c.has("--script-shell", "--shell", "--scripts-prepend-node-path") {
		c.unclear(c.name + " gets a shell of its own for scripts")
	}
	switch c.name {
	case "npx", "bunx", "pnpx", "uvx":
		c.runs(c.args)
		return
	case "corepack":
		if len(c.args) > 0 && (c.args[0].text == "npm" || c.args[0].text == "pnpm" || c.args[0].text == "yarn" || c.args[0].text == "npx" || !c.args[0].known) {
			c.inner(c.args)
		}
		return
	}
	for i, a := range c.args {
		switch {
		case !a.known:
			c.unclear(c.name + " gets words that are not written out")
			return
		case c.name == "bun" && isCode(a.text):
			c.unclear("bun runs code that is in the command")
			return
		case isOption(a.text):
			continue
		}
		switch verb := c.name + " " + a.text; verb {
		case "npm exec", "npm x", "pnpm exec", "pnpm dlx", "pnpm x", "yarn exec", "yarn dlx", "yarn node", "bun x", "bun exec", "bun run", "bundle exec", "poetry run",
			"pipenv run", "pipx run", "uv run", "uv x", "rbenv exec", "pyenv exec", "nodenv exec", "fnm exec", "volta run", "conda run", "mamba run",
			"micromamba run", "hatch run", "pdm run", "rye run":
			c.runs(c.args[i+1:])
		case "npm config", "npm set", "npm c", "pnpm config", "pnpm set", "yarn config", "npm pkg", "npm set-script", "npm explore", "npm edit", "bundle config":
			c.unclear(verb + " can set what is run later")
		default:
			if c.name == "pnpm" && !listed(pnpmVerbs, a.text) {
				c.inner(c.args[i:])
			}
		}
		return
	}
}

// pnpmVerbs are the subcommands that pnpm has itself. pnpm runs any other word as a command.
const pnpmVerbs = "install i add remove rm uninstall un update up upgrade link ln unlink import rebuild rb prune " +
	"fetch install-test it patch patch-commit patch-remove audit list ls outdated why licenses run run-script test t " +
	"start create store publish pack init root bin deploy doctor setup dedupe approve-builds ignored-builds env " +
	"cache info view recursive multi m"

// isCode reports whether an option before bun's subcommand holds code.
func isCode(a string) bool {
	return a == "-" || a == "--eval" || a == "--print" || strings.HasPrefix(a, "-e") || strings.HasPrefix(a, "-p") || strings.HasPrefix(a, "--eval=") || strings.HasPrefix(a, "--print=")
}

// runs reads the words behind npx and similar programs.
func (c call) runs(args []word) {
	c.args = args
	c.wrapped(npx)
}

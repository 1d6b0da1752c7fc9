package recovery

import "strings"

// interpreter reads programs that run code of another language, and says whether this is one. Code in a file of the
// repository is a program like any other; code in the command itself, or from the input, is opaque.
func (c call) interpreter() bool {
	base := strings.TrimRight(c.name, "0123456789.-")
	letters, words, valued := "", "", "" // options with code, and options with another value
	switch base {
	case "python", "pypy", "pythonw", "ipython":
		letters, words, valued = "ci", "", "mWXQ"
	case "perl":
		letters, words, valued = "eE", "", "IMm"
	case "ruby":
		letters, words, valued = "e", "", "IrCEK"
	case "node", "nodejs", "tsx", "ts-node", "electron":
		letters, words, valued = "epi", "--eval --print --interactive --import --require --loader --experimental-loader", "rC"
	case "bun": // run as an interpreter; see packageManager for the rest
		letters, words, valued = "ep", "--eval --print --preload", "rc"
	case "deno":
		if len(c.args) == 0 || c.has("eval", "repl") {
			c.unclear("deno runs code that is in the command")
		}
		return true
	case "php":
		letters, words, valued = "rBREa", "--run --process-begin --process-code --process-end --interactive", "cdfFtSz"
	case "lua", "luajit":
		letters, words, valued = "ei", "", "l"
	case "osascript", "Rscript", "julia", "elixir", "erl", "raku", "swift", "scala", "groovy", "jshell", "ghc", "racket", "guile", "sbcl", "clojure":
		letters, words, valued = "eE", "--eval --expr --execute", ""
	case "awk", "gawk", "mawk", "nawk", "original-awk":
		c.awk()
		return true
	case "sed", "gsed":
		c.sed()
		return true
	default:
		return false
	}
	c.code(letters, words, valued)
	return true
}

// code looks for code in the arguments, up to the program's file.
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
				return // a module
			case at > 0 && at == len(a.text)-1:
				i++ // the option's value
			}
		case a.text == "--":
			if i+1 < len(c.args) {
				return
			}
		default:
			return // a file
		}
	}
	c.unclear(c.name + " runs code from its input")
}

// awk: its programs can run commands, and can come from files.
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

// sed: the command e runs commands, and a script can come from a file.
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

// tameSed knows the scripts that only edit: an address and one of d, p, q, D, =;
// or s with its usual flags. Any other is taken for one that runs commands.
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

// cutSed splits /regex/rest; the delimiter is the first byte.
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

package inputs

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/manifest"
)

// lifecycle are the scripts that package managers run by themselves, when they install, pack or publish.
func lifecycle() []string {
	return []string{"preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare", "prepublish", "prepublishOnly", "publish", "postpublish",
		"prepack", "pack", "postpack", "dependencies", "predependencies", "postdependencies", "preuninstall", "uninstall", "postuninstall", "preversion",
		"version", "postversion", "prerebuild", "rebuild", "postrebuild", "pnpm:devPreinstall"}
}

// runVerbs are the words after which a program runs a script, or that are scripts themselves.
func runVerbs() []string {
	return []string{"run", "run-script", "rum", "urn", "test", "t", "tst", "start", "stop", "restart"}
}

func execVerbs() []string { return []string{"exec", "x", "dlx", "node"} }

// installs reports whether a call of a package manager installs something, or does what nobody here knows. Only what is
// known to do something else does not.
func (c call) installs() bool {
	words := c.words()
	if c.name == "npx" || c.name == "pnpx" || c.name == "bunx" {
		return false
	}
	if len(words) == 0 {
		return true
	}
	if slices.ContainsFunc(words, func(w string) bool {
		return slices.Contains([]string{"install", "i", "ci", "add", "a", "update", "up", "upgrade", "rebuild", "dedupe", "link", "it", "cit", "install-test",
			"install-ci-test", "clean-install"}, w)
	}) {
		return true
	}
	first := words[0]
	if slices.Contains(runVerbs(), first) || slices.Contains(execVerbs(), first) {
		return false
	}
	if slices.Contains([]string{"ls", "list", "view", "info", "why", "outdated", "cache", "config", "ping", "whoami", "audit", "bin", "root", "prefix", "help", "store",
		"clean-cache", "-v"}, first) {
		return slices.Contains(words, "fix")
	}
	if c.name == "npm" {
		return true // any other verb, an abbreviation, a word that is an option's value
	}
	return slices.Contains([]string{"workspaces", "workspace", "recursive", "deploy", "import", "fetch", "rb", "pm", "create", "init", "publish", "pack", "remove", "rm",
		"unlink", "patch", "patch-commit"}, first)
}

// ignoresScripts reports whether a call says itself that it runs no script.
func (c call) ignoresScripts() bool {
	return c.name != "yarn" && c.has("--ignore-scripts") && !slices.Contains(c.args, "--no-ignore-scripts")
}

// packageScripts adds the scripts of package.json that a call runs, and what they run in turn.
func packageScripts(c call, dirs []string) {
	words := c.words()
	if c.name == "npx" || c.name == "pnpx" || c.name == "bunx" {
		c.rest(words)
		return
	}
	if len(words) > 1 && slices.Contains(execVerbs(), words[0]) {
		c.rest(words[1:])
	}
	if c.installs() && !c.ignoresScripts() {
		for _, d := range dirs {
			c.scriptsOf(d, lifecycle())
		}
	}
	// A script is run by "run NAME", by its name alone (but not with npm), and by the verbs that are names of scripts.
	named := slices.Clone(words)
	for _, w := range words {
		switch w {
		case "t", "tst", "it", "cit", "install-test", "install-ci-test":
			named = append(named, "test")
		case "restart":
			named = append(named, "stop", "start")
		}
	}
	if c.name == "npm" && !slices.ContainsFunc(words, func(w string) bool { return slices.Contains(runVerbs(), w) }) {
		named = slices.DeleteFunc(named, func(w string) bool { return w != "test" && w != "start" && w != "stop" })
	}
	keys := make([]string, 0, 3*len(named))
	for _, n := range named {
		keys = append(keys, "pre"+n, n, "post"+n)
	}
	if slices.ContainsFunc(c.args, func(a string) bool { return strings.Contains(a, Unknown) }) {
		keys = nil // any script could be meant: see scriptsOf
	}
	everywhere := c.has("-w", "--workspace", "--workspaces", "-ws", "-r", "--recursive", "--filter", "-F") || len(words) > 0 &&
		(words[0] == "workspace" || words[0] == "workspaces" || words[0] == "recursive")
	if everywhere {
		for _, d := range dirs {
			c.scriptsOf(d, keys)
		}
	} else if d, ok := c.nearest("package.json"); ok {
		c.scriptsOf(d, keys)
		if slices.Contains(named, "start") {
			c.whole(path.Join(d, "server.js"), c.name) // what "npm start" runs by default
		}
	}
	if c.name == "bun" || c.name == "yarn" {
		for _, w := range words { // bun x.ts, bun run x.ts
			if p, ok := c.path(c.dir, w); ok && c.is(p) == regular && path.Ext(p) != "" {
				c.scriptAt(p, false)
			}
		}
	}
}

// rest reads the words behind npx and its kin as a command.
func (c call) rest(words []string) {
	if len(words) > 0 {
		c.sequence([]string{c.dir}, [][]string{words}, c.depth+1)
	}
}

// nearest is the directory in which a file is found first, going up.
func (c call) nearest(file string) (string, bool) {
	for _, d := range upwards(c.dir) {
		if c.is(path.Join(d, file)) != missing {
			return d, true
		}
	}
	return "", false
}

// scriptsOf adds those of the named scripts that are there; nil means all.
func (c call) scriptsOf(dir string, names []string) {
	file := path.Join(dir, "package.json")
	text := c.open(file, c.name)
	if text == nil {
		return
	}
	pkg, err := jsonObject(text)
	if err != nil {
		c.whole(file, c.name)
		return
	}
	scripts, _ := pkg["scripts"].(map[string]any)
	if names == nil {
		names = slices.Sorted(maps.Keys(scripts))
	}
	for _, n := range names {
		v, ok := scripts[n]
		if !ok {
			continue
		}
		c.text(file, "scripts."+n, c.name, jsonText(v))
		if command, ok := v.(string); ok {
			c.in(dir).shellText(command)
		}
	}
}

// packageMembers are the workspaces of dir.
func packageMembers(c call, dir string) []string {
	var list []string
	if text := c.peek(path.Join(dir, "package.json")); text != nil {
		if pkg, err := jsonObject(text); err == nil {
			switch w := pkg["workspaces"].(type) {
			case []any:
				list = append(list, jsonStrings(w)...)
			case map[string]any:
				if l, ok := w["packages"].([]any); ok {
					list = append(list, jsonStrings(l)...)
				}
			}
		}
	}
	if text := c.peek(path.Join(dir, "pnpm-workspace.yaml")); text != nil {
		list = append(list, manifest.YAMLList(text, "packages")...)
	}
	return c.globs(dir, list, "package.json")
}

// peek reads a file without making it an input.
func (r *reader) peek(file string) []byte {
	real, k, _ := r.resolve(file)
	if k != regular {
		return nil
	}
	c, err := r.content(real)
	if err != nil {
		return nil
	}
	return c.text
}

func corepack(c call, _ []string) {
	if words := c.words(); len(words) > 0 && !slices.Contains([]string{"enable", "disable", "prepare"}, words[0]) {
		c.rest(words)
	}
}

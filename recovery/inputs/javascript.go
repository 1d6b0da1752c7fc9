package inputs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/manifest"
	"github.com/superloop/superloop/internal/text"
)

// lifecycle lists the scripts that package managers run by themselves when they install, pack or publish.
const lifecycle = "preinstall install postinstall preprepare prepare postprepare prepublish prepublishOnly publish postpublish prepack pack postpack" +
	" dependencies predependencies postdependencies preuninstall uninstall postuninstall preversion version postversion prerebuild rebuild postrebuild" +
	" pnpm:devPreinstall"

const (
	runVerbs  = "run run-script rum urn test t tst start stop restart" // a script name follows, or the verb is a script
	execVerbs = "exec x dlx node"                                      // a program follows
)

// installs reports whether a call of a package manager may install packages. For an unknown verb it returns true with
// npm and false with the others, which run scripts by their names.
func (c call) installs() bool {
	words := c.words()
	if c.name == "npx" || c.name == "pnpx" || c.name == "bunx" {
		return false
	}
	if len(words) == 0 {
		return true
	}
	switch first := words[0]; {
	case slices.ContainsFunc(words, func(w string) bool {
		return among(w, "install i ci add a update up upgrade rebuild dedupe link it cit install-test install-ci-test clean-install")
	}):
		return true
	case among(first, runVerbs), among(first, execVerbs):
		return false
	case among(first, "ls list view info why outdated cache config ping whoami audit bin root prefix help store clean-cache -v"):
		return slices.Contains(words, "fix")
	default: // with npm, any other verb counts: it may be an abbreviation, or the value of an option
		return c.name == "npm" || among(first, "workspaces workspace recursive deploy import fetch rb pm create init publish pack remove rm unlink patch patch-commit")
	}
}

// packageScripts adds the scripts of package.json that a call runs, and the files that these scripts run.
func packageScripts(c call, dirs []string) {
	words := c.words()
	if c.name == "npx" || c.name == "pnpx" || c.name == "bunx" {
		c.rest(words)
		return
	}
	if len(words) > 1 && among(words[0], execVerbs) {
		c.rest(words[1:])
	}
	ignores := c.name != "yarn" && c.has("--ignore-scripts") && !slices.Contains(c.args, "--no-ignore-scripts")
	if c.installs() && !ignores {
		for _, d := range dirs {
			c.scriptsOf(d, strings.Fields(lifecycle))
		}
	}
	// "run NAME" runs a script, and so does a bare NAME (except with npm). Some verbs, such as test, are script names.
	named := slices.Clone(words)
	for _, w := range words {
		switch w {
		case "t", "tst", "it", "cit", "install-test", "install-ci-test":
			named = append(named, "test")
		case "restart":
			named = append(named, "stop", "start")
		}
	}
	if c.name == "npm" && !slices.ContainsFunc(words, func(w string) bool { return among(w, runVerbs) }) {
		named = slices.DeleteFunc(named, func(w string) bool { return w != "test" && w != "start" && w != "stop" })
	}
	keys := make([]string, 0, 3*len(named))
	for _, n := range named {
		keys = append(keys, "pre"+n, n, "post"+n)
	}
	if slices.ContainsFunc(c.args, func(a string) bool { return strings.Contains(a, Unknown) }) {
		keys = nil // the call may mean any script: scriptsOf adds all for nil
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
			c.whole(path.Join(d, "server.js"), c.name) // "npm start" runs server.js by default
		}
	}
	if c.name == "bun" || c.name == "yarn" {
		for _, w := range words { // as in bun x.ts and bun run x.ts
			if p, ok := c.path(c.dir, w); ok && c.is(p) == regular && path.Ext(p) != "" {
				c.scriptAt(p, false)
			}
		}
	}
}

// rest reads the words after npx and similar programs as a command.
func (c call) rest(words []string) {
	if len(words) > 0 {
		c.sequence([]string{c.dir}, [][]string{words}, c.depth+1)
	}
}

// nearest returns the first directory that has the file, from the directory of the call upwards.
func (c call) nearest(file string) (string, bool) {
	for _, d := range upwards(c.dir) {
		if c.is(path.Join(d, file)) != missing {
			return d, true
		}
	}
	return "", false
}

// scriptsOf adds the named scripts that package.json in dir has, or all scripts if names is nil.
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

// packageMembers returns the directories of the workspaces that package.json or pnpm-workspace.yaml in dir declares.
func packageMembers(c call, dir string) []string {
	pkg, _ := manifest.PackageJSON(c.peek(path.Join(dir, "package.json")))
	list := append(pkg.Workspaces, manifest.YAMLList(c.peek(path.Join(dir, "pnpm-workspace.yaml")), "packages")...)
	return c.globs(dir, list, "package.json")
}

// peek reads a file and does not add it to the inputs. It returns nil if the file is missing or unreadable.
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
	if words := c.words(); len(words) > 0 && !among(words[0], "enable disable prepare") {
		c.rest(words)
	}
}

// jsonObject parses a JSON object as JavaScript does: keys are case-sensitive, the last of two equal keys counts, and a
// byte order mark is ignored. Values that are nested deeper than door.MaxDepth are an error, because jsonText takes the
// square of the depth in memory.
func jsonObject(data []byte) (map[string]any, error) {
	if !door.Shallow(data) {
		return nil, door.ErrDeep
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	dec.UseNumber()
	var v map[string]any
	if err := text.Reason(dec.Decode(&v)); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the object")
	}
	return v, nil
}

// jsonText writes a value as JSON with sorted keys. It writes a string without quotes.
func jsonText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func jsonStrings(list []any) []string {
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// packageJSON selects from package.json the settings that decide whose code runs during an installation. packageScripts
// selects the scripts.
func packageJSON(text []byte) ([]part, bool) {
	pkg, err := jsonObject(text)
	out := keysOf(pkg, "packageManager", "devEngines", "workspaces", "trustedDependencies", "dependenciesMeta", "allowScripts", "allowBuilds", "gypfile",
		"patchedDependencies", "installConfig")
	if p, ok := pkg["pnpm"].(map[string]any); ok {
		for k, v := range p {
			if k != "overrides" {
				out = append(out, part{"pnpm." + k, jsonText(v)})
			}
		}
		out = append(out, foreign("pnpm.overrides", p["overrides"])...)
	}
	for _, k := range []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "overrides", "resolutions", "catalog", "catalogs"} {
		out = append(out, foreign(k, pkg[k])...)
	}
	return out, err == nil
}

// manifestTool selects from package.json the settings that decide which package manager runs.
func manifestTool(text []byte) ([]part, bool) {
	pkg, err := jsonObject(text)
	return keysOf(pkg, "packageManager", "devEngines"), err == nil
}

// keysOf returns those of the keys that the object has, each as a part.
func keysOf(object map[string]any, keys ...string) (out []part) {
	for _, k := range keys {
		if v, ok := object[k]; ok {
			out = append(out, part{k, jsonText(v)})
		}
	}
	return out
}

// foreign returns the dependencies that do not come from a registry, each as a part.
func foreign(name string, v any) []part {
	switch v := v.(type) {
	case map[string]any:
		var out []part
		for k, inner := range v {
			out = append(out, foreign(name+"."+k, inner)...)
		}
		return out
	case string:
		if fromElsewhere(v) {
			return []part{{name, v}}
		}
	}
	return nil
}

// fromElsewhere reports whether the version of a dependency is a location: a URL, a repository or a directory. A
// version, a range or a tag contains neither ":" nor "/".
func fromElsewhere(spec string) bool {
	for _, plain := range []string{"npm:", "workspace:", "catalog:"} {
		if strings.HasPrefix(spec, plain) {
			return false
		}
	}
	return strings.ContainsAny(spec, ":/")
}

// iniLines selects all lines of an ini file except blank lines and comments.
func iniLines(text []byte) ([]part, bool) {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != ';' && line[0] != '#' {
			b.WriteString(line + "\n")
		}
	}
	return settings(b.String()), true
}

// settings returns the text as one part named settings, or no part for an empty text.
func settings(text string) []part {
	if text == "" {
		return nil
	}
	return []part{{"settings", text}}
}

// workspaceYAML selects everything of pnpm-workspace.yaml except catalog entries with plain versions. A catalog ends at
// the first line that is not indented, so no other setting can hide in it. A catalog entry that names a location
// counts.
func workspaceYAML(text []byte) ([]part, bool) {
	var b strings.Builder
	in := false
	for line := range strings.Lines(string(text)) {
		bare := strings.TrimRight(line, " \t\r\n")
		trimmed := strings.TrimSpace(bare)
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		if bare[0] != ' ' && bare[0] != '\t' {
			in = bare == "catalog:" || bare == "catalogs:"
		} else if in {
			_, version, ok := strings.Cut(trimmed, ": ")
			version = strings.Trim(version, `"'`)
			if (ok || strings.HasSuffix(trimmed, ":")) && !fromElsewhere(version) && !strings.ContainsAny(version, "&*!|>{[") {
				continue
			}
		}
		b.WriteString(bare + "\n")
	}
	return []part{{"settings", b.String()}}, true
}

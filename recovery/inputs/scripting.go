package inputs

import (
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/manifest"
)

// tomlParts returns the settings for which keep says that they count, each as a part with the text that keep returns.
// It returns false for a file that is not valid TOML or exceeds a bound of the parser; such a file counts whole.
func tomlParts(text []byte, keep func(manifest.Setting) (value string, counts bool)) ([]part, bool) {
	all, ok := manifest.TOML(text)
	if !ok {
		return nil, false
	}
	var out []part
	at := map[string]int{}
	for _, s := range all {
		value, counts := keep(s)
		if i, ok := at[s.Path]; counts && ok { // the key of a [[list]] occurs once per element
			out[i].text += "\n" + value
		} else if counts {
			at[s.Path] = len(out)
			out = append(out, part{s.Path, value})
		}
	}
	return out, true
}

// pyproject selects from pyproject.toml the settings that decide how a project is built and where packages come from.
// It leaves out, by name, the tools that no installer reads. An unknown tool counts.
func pyproject(text []byte) ([]part, bool) {
	return tomlParts(text, func(s manifest.Setting) (string, bool) {
		switch first, rest, _ := strings.Cut(s.Path, "."); first {
		case "build-system":
			return s.Value, true
		case "project", "dependency-groups":
			// Plain requirements name no location.
			places := strings.Join(slices.DeleteFunc(s.Strings, plainRequirement), "\n")
			return places, places != "" && !strings.HasPrefix(rest, "urls") && rest != "readme" && rest != "description"
		case "tool":
			tool, key, _ := strings.Cut(rest, ".")
			switch {
			case tool == "poetry" && strings.Contains(key, "dependencies"):
				return s.Value, elsewhere(s)
			case tool == "poetry":
				return s.Value, !among(key, "name version description authors readme license keywords homepage repository documentation classifiers maintainers") &&
					!strings.HasPrefix(key, "urls")
			}
			return s.Value, !among(tool, "ruff black mypy pytest isort coverage pylint pyright basedpyright flake8 bandit codespell commitizen towncrier"+
				" interrogate vulture pydocstyle yapf djlint semantic_release tox ty typos")
		}
		return "", false
	})
}

// elsewhere reports whether a dependency in TOML names a location that code comes from.
func elsewhere(s manifest.Setting) bool {
	last := s.Path[strings.LastIndexByte(s.Path, '.')+1:]
	for _, k := range []string{"git", "path", "url", "file", "registry", "registry-index", "source", "index", "ref", "branch", "rev", "tag", "develop", "subdirectory"} {
		if last == k && strings.Count(s.Path, ".") > 1 || strings.Contains(s.Value, k+" = ") {
			return true
		}
	}
	return false
}

// plainRequirement reports whether a requirement names no location.
func plainRequirement(s string) bool {
	return !strings.Contains(s, "://") && !strings.Contains(s, "@") && !strings.Contains(s, "git+") && !strings.Contains(s, "file:")
}

func pipfile(text []byte) ([]part, bool) {
	return tomlParts(text, func(s manifest.Setting) (string, bool) {
		switch first, _, _ := strings.Cut(s.Path, "."); first {
		case "source", "scripts", "pipenv":
			return s.Value, true
		}
		return s.Value, elsewhere(s)
	})
}

// uvMembers returns the members of a uv workspace.
func uvMembers(c call, dir string) []string {
	return c.globs(dir, c.tomlStrings(path.Join(dir, "pyproject.toml"), "tool.uv.workspace.members"), "pyproject.toml")
}

// tomlStrings returns the strings under a path of a TOML file. It does not add the file to the inputs.
func (r *reader) tomlStrings(file, name string) (out []string) {
	all, _ := manifest.TOML(r.peek(file))
	for _, s := range all {
		if s.Path == name {
			out = append(out, s.Strings...)
		}
	}
	return out
}

// pip adds the requirement files and the projects that the arguments of pip name.
func pip(c call, _ []string) {
	c.requirementFiles("-r", "--requirement", "-c", "--constraint")
	for _, w := range append(c.values("-e", "--editable"), c.words()...) {
		w, _, _ = strings.Cut(w, "[") // the extras, as in .[dev]
		if w == "." || strings.ContainsAny(w, "/\\") {
			if p, ok := c.path(c.dir, w); ok {
				c.project(p)
			}
		}
	}
	if c.has("--group") {
		c.project(c.dir)
	}
}

// project adds the files that decide how a Python project is built. If p is a regular file, such as an archive, project
// adds this file.
func (c call) project(p string) {
	if c.is(p) == regular {
		c.whole(p, c.name)
		return
	}
	c.whole(path.Join(p, "setup.py"), c.name)
	c.whole(path.Join(p, "setup.cfg"), c.name)
	file := path.Join(p, "pyproject.toml")
	c.source(file, source{pattern: "pyproject.toml", parts: pyproject})
	for _, d := range c.tomlStrings(file, "build-system.backend-path") {
		if d, ok := c.path(p, d); ok { // the build backend is in the project
			for _, f := range c.expand(d, "*.py") {
				c.whole(f, c.name)
			}
		}
	}
}

func (c call) requirementFiles(options ...string) {
	for _, file := range c.values(options...) {
		if p, ok := c.path(c.dir, file); ok {
			c.requirements(p, 0)
		}
	}
}

// requirements adds the files that a requirement file includes, and those of its lines that are more than a plain
// requirement.
func (c call) requirements(file string, depth int) {
	if c.was("requirements\x00"+c.dir+"\x00"+file, 0) {
		return
	}
	if depth > maxDepth {
		c.deep(file, c.name)
		return
	}
	text := c.open(file, c.name)
	if text == nil {
		return
	}
	var kept []string
	for _, line := range manifest.Requirements(text) {
		option := line[0] == '-'
		place := strings.Contains(line, "://") || strings.Contains(line, "@") || strings.ContainsAny(line[:1], "./~") || strings.Contains(strings.Fields(line)[0], "/") ||
			strings.HasSuffix(line, ".whl") || strings.HasSuffix(line, ".zip") || strings.HasSuffix(line, ".gz")
		if !option && !place {
			continue
		}
		kept = append(kept, line)
		name, value, _ := strings.Cut(strings.Replace(line, "=", " ", 1), " ")
		if len(name) > 2 && name[0] == '-' && name[1] != '-' { // an option with its value, as in -rfile
			name, value = name[:2], name[2:]
		}
		p, ok := c.path(path.Dir(file), strings.TrimSpace(value))
		switch {
		case !ok:
		case name == "-r" || name == "--requirement" || name == "-c" || name == "--constraint":
			c.requirements(p, depth+1)
		case name == "-e" || name == "--editable":
			c.project(p)
		}
		if p, ok := c.path(c.dir, line); ok && !option && c.is(p) == directory {
			c.project(p)
		}
	}
	if len(kept) > 0 {
		c.text(file, "options and places", c.name, strings.Join(kept, "\n")+"\n")
	}
}

// uv adds the files that "uv pip" and "uv run" name.
func uv(c call, dirs []string) {
	if words := c.words(); len(words) > 0 && words[0] == "pip" {
		pip(c, dirs)
		return
	}
	c.requirementFiles("-r", "--requirements", "--with-requirements")
	runsRest(c, dirs)
}

// runsRest reads the words after "run", "x" or "tool" as a command.
func runsRest(c call, _ []string) {
	words := c.words()
	for i, w := range words {
		if (w == "run" || w == "x" || w == "tool") && i+1 < len(words) {
			c.rest(words[i+1:])
			if path.Ext(words[i+1]) == ".py" {
				c.name = "python"
				c.operand(words[i+1])
			}
			return
		}
	}
}

// bundler adds the files that a Gemfile or Rakefile loads by a literal path, and reads the words after "bundle exec" as
// a command.
func bundler(c call, dirs []string) {
	for _, d := range dirs {
		for _, name := range []string{"Gemfile", "gems.rb", "Rakefile", "rakefile", "Rakefile.rb"} {
			c.loads(path.Join(d, name), 0)
		}
	}
	if words := c.words(); len(words) > 1 && words[0] == "exec" {
		c.rest(words[1:])
	}
}

// loads adds the Ruby files that a Ruby file loads by a literal path.
func (c call) loads(file string, depth int) {
	if c.was("loads\x00"+file, 0) {
		return
	}
	if depth > maxDepth {
		c.deep(file, c.name)
		return
	}
	for line := range strings.Lines(string(c.peek(file))) {
		line = strings.TrimSpace(line)
		for _, verb := range []string{"eval_gemfile", "require_relative", "load", "import"} {
			rest, ok := strings.CutPrefix(line, verb)
			rest = strings.TrimLeft(rest, " (")
			if !ok || rest == "" || rest[0] != '"' && rest[0] != '\'' {
				continue
			}
			name, _, _ := strings.Cut(rest[1:], rest[:1])
			p, ok := below(path.Dir(file), name)
			if !ok {
				continue
			}
			for _, f := range []string{p, p + ".rb"} {
				if _, ok := c.whole(f, c.name); ok {
					c.loads(f, depth+1)
					break
				}
			}
		}
	}
}

// gem adds the Gemfile, the gemspec and the gem that the arguments of gem name.
func gem(c call, _ []string) {
	for _, f := range append(c.values("-g", "--file"), c.words()...) {
		if strings.HasSuffix(f, ".gemspec") || strings.HasSuffix(f, ".gem") || strings.HasSuffix(f, "Gemfile") {
			c.named(f)
		}
	}
	if c.has("-g", "--file") {
		c.whole(path.Join(c.dir, "Gemfile"), c.name)
	}
}

// composerJSON selects from composer.json the settings that decide where packages come from and which plugins may run.
// composerScripts selects the scripts.
func composerJSON(text []byte) ([]part, bool) {
	v, err := jsonObject(text)
	return keysOf(v, "repositories", "config", "extra", "minimum-stability"), err == nil
}

// composerScripts adds the scripts of composer.json that composer runs by itself (those of its events), and those that
// the call names.
func composerScripts(c call, dirs []string) {
	named := append(c.words(), "command", "init")
	for _, d := range dirs {
		file := path.Join(d, "composer.json")
		v, err := jsonObject(c.peek(file))
		if err != nil {
			continue // the whole file is an input, if it exists
		}
		scripts, _ := v["scripts"].(map[string]any)
		for name := range scripts {
			if slices.Contains(named, name) || strings.HasPrefix(name, "pre-") || strings.HasPrefix(name, "post-") {
				c.in(d).composerScript(file, scripts, name, 0)
			}
		}
	}
}

func (c call) composerScript(file string, scripts map[string]any, name string, depth int) {
	v, ok := scripts[name]
	if !ok || c.was("composer\x00"+file+"\x00"+name, 0) {
		return
	}
	if depth > maxDepth {
		c.deep(file, c.name)
		return
	}
	c.text(file, "scripts."+name, c.name, jsonText(v))
	lines, ok := v.([]any)
	if !ok {
		lines = []any{v}
	}
	for _, line := range jsonStrings(lines) {
		other, ok := strings.CutPrefix(line, "@")
		if !ok {
			c.shellText(line)
			continue
		}
		word, rest, _ := strings.Cut(other, " ")
		switch word {
		case "php", "composer":
			c.shellText(word + " " + rest)
		case "putenv", "no_additional_args", "additional_args":
		default:
			c.composerScript(file, scripts, word, depth+1)
		}
	}
}

package guard

import (
	"path"
	"slices"
	"strings"
)

// pyproject takes out of pyproject.toml what decides how a project is built and
// where packages come from. Tools that no installer listens to are left out by
// name, so that one that nobody here knows counts.
func pyproject(_ *reader, text []byte) ([]part, bool) {
	return tomlParts(text, func(s *setting) bool {
		switch first, rest, _ := strings.Cut(s.path, "."); first {
		case "build-system":
			return true
		case "project", "dependency-groups":
			// Plain requirements are no places.
			s.value = strings.Join(placesIn(s.value), "\n")
			return s.value != "" && !strings.HasPrefix(rest, "urls") && rest != "readme" && rest != "description"
		case "tool":
			tool, key, _ := strings.Cut(rest, ".")
			switch tool {
			case "ruff", "black", "mypy", "pytest", "isort", "coverage", "pylint", "pyright", "basedpyright", "flake8", "bandit", "codespell", "commitizen",
				"towncrier", "interrogate", "vulture", "pydocstyle", "yapf", "djlint", "semantic_release", "tox", "ty", "typos":
				return false
			case "poetry":
				if strings.Contains(key, "dependencies") {
					return elsewhere(s)
				}
				return !slices.Contains([]string{"name", "version", "description", "authors", "readme", "license", "keywords", "homepage", "repository",
					"documentation", "classifiers", "maintainers"}, key) && !strings.HasPrefix(key, "urls")
			}
			return true
		}
		return false
	})
}

// elsewhere reports whether a dependency in TOML names a place.
func elsewhere(s *setting) bool {
	last := s.path[strings.LastIndexByte(s.path, '.')+1:]
	for _, k := range []string{"git", "path", "url", "file", "registry", "registry-index", "source", "index", "ref", "branch", "rev", "tag", "develop", "subdirectory"} {
		if last == k && strings.Count(s.path, ".") > 1 || strings.Contains(s.value, k+" = ") {
			return true
		}
	}
	return false
}

// placesIn gives the strings in a TOML value that are no plain requirements. One
// with an escape could be anything.
func placesIn(value string) []string {
	var out []string
	for _, s := range tomlStrings(value) {
		if strings.Contains(s, "://") || strings.Contains(s, "@") || strings.Contains(s, "git+") || strings.Contains(s, "file:") || strings.Contains(s, `\`) {
			out = append(out, s)
		}
	}
	return out
}

func pipfile(_ *reader, text []byte) ([]part, bool) {
	return tomlParts(text, func(s *setting) bool {
		switch first, _, _ := strings.Cut(s.path, "."); first {
		case "source", "scripts", "pipenv":
			return true
		}
		return elsewhere(s)
	})
}

// uvMembers are the members of uv's workspace.
func uvMembers(c call, dir string) []string {
	text := c.peek(path.Join(dir, "pyproject.toml"))
	if text == nil {
		return nil
	}
	all, _ := tomlSettings(text)
	var list []string
	for _, s := range all {
		if s.path == "tool.uv.workspace.members" {
			list = append(list, tomlStrings(s.value)...)
		}
	}
	return c.globs(dir, list, "pyproject.toml")
}

// tomlStrings gives the strings in a value, escapes as they are written.
func tomlStrings(value string) []string {
	var out []string
	for t := (tomlReader{s: value}); ; {
		i := strings.IndexAny(t.s, `"'`)
		if i < 0 {
			return out
		}
		t.s = t.s[i:]
		q := t.s[0]
		v, ok := t.quoted(q)
		if !ok {
			return out
		}
		out = append(out, strings.Trim(v, string(q)))
	}
}

// pip reads requirement files and the projects that it is told to install.
func pip(c call, _ []string) {
	for _, file := range c.values("-r", "--requirement", "-c", "--constraint") {
		if p, ok := c.path(c.dir, file); ok {
			c.requirements(p, 0)
		}
	}
	for _, w := range append(c.values("-e", "--editable"), c.words()...) {
		w, _, _ = strings.Cut(w, "[") // .[dev]
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

// project adds what builds a Python project, or an archive that is there already.
func (c call) project(p string) {
	if c.is(p) == regular {
		c.whole(p, c.name)
		return
	}
	c.whole(path.Join(p, "setup.py"), c.name)
	c.whole(path.Join(p, "setup.cfg"), c.name)
	file := path.Join(p, "pyproject.toml")
	c.source(file, source{pattern: "pyproject.toml", parts: pyproject})
	all, _ := tomlSettings(c.peek(file))
	for _, s := range all {
		if s.path != "build-system.backend-path" {
			continue
		}
		for _, d := range tomlStrings(s.value) { // the backend is in the project
			if d, ok := c.path(p, d); ok {
				for _, f := range c.expand(d, "*.py") {
					c.whole(f, c.name)
				}
			}
		}
	}
}

// requirements adds those lines of a requirement file that are no plain
// requirement, and the files that it includes.
func (c call) requirements(file string, depth int) {
	text := c.open(file, c.name)
	if text == nil || depth > maxDepth {
		return
	}
	var kept []string
	lines := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\\\n", " ")
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if i := strings.Index(line, " #"); i >= 0 {
			line = strings.TrimSpace(line[:i])
		}
		if line == "" || line[0] == '#' {
			continue
		}
		option := line[0] == '-'
		place := strings.Contains(line, "://") || strings.Contains(line, "@") || strings.ContainsAny(line[:1], "./~") || strings.Contains(strings.Fields(line)[0], "/") ||
			strings.HasSuffix(line, ".whl") || strings.HasSuffix(line, ".zip") || strings.HasSuffix(line, ".gz")
		if !option && !place {
			continue
		}
		kept = append(kept, line)
		name, value, _ := strings.Cut(strings.Replace(line, "=", " ", 1), " ")
		if len(name) > 2 && name[0] == '-' && name[1] != '-' { // -rfile
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

// uv reads what "uv pip" and "uv run" are given.
func uv(c call, dirs []string) {
	words := c.words()
	if len(words) > 0 && words[0] == "pip" {
		pip(c, dirs)
		return
	}
	for _, file := range c.values("-r", "--requirements", "--with-requirements") {
		if p, ok := c.path(c.dir, file); ok {
			c.requirements(p, 0)
		}
	}
	runsRest(c, dirs)
}

// runsRest reads what stands behind "run".
func runsRest(c call, _ []string) {
	words := c.words()
	for i, w := range words {
		if (w == "run" || w == "x" || w == "tool") && i+1 < len(words) {
			rest := words[i+1:]
			c.rest(rest)
			if path.Ext(rest[0]) == ".py" {
				at := c
				at.name = "python"
				at.operand(rest[0])
			}
			return
		}
	}
}

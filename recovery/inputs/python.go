package inputs

import (
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/manifest"
)

// tomlParts gives those settings that count as parts, with the text that keep gives for them. A file that is no TOML,
// or where something could hide, counts as a whole.
func tomlParts(text []byte, keep func(manifest.Setting) (value string, counts bool)) ([]part, bool) {
	all, ok := manifest.TOML(text)
	if !ok {
		return nil, false
	}
	var out []part
	at := map[string]int{}
	for _, s := range all {
		value, counts := keep(s)
		if i, ok := at[s.Path]; counts && ok { // a key of a [[list]] comes once for each element
			out[i].text += "\n" + value
		} else if counts {
			at[s.Path] = len(out)
			out = append(out, part{s.Path, value})
		}
	}
	return out, true
}

// pyproject takes out of pyproject.toml what decides how a project is built and where packages come from. Tools that no
// installer listens to are left out by name, so that one that nobody here knows counts.
func pyproject(text []byte) ([]part, bool) {
	return tomlParts(text, func(s manifest.Setting) (string, bool) {
		switch first, rest, _ := strings.Cut(s.Path, "."); first {
		case "build-system":
			return s.Value, true
		case "project", "dependency-groups":
			// Plain requirements are no places.
			places := strings.Join(slices.DeleteFunc(s.Strings, plainRequirement), "\n")
			return places, places != "" && !strings.HasPrefix(rest, "urls") && rest != "readme" && rest != "description"
		case "tool":
			tool, key, _ := strings.Cut(rest, ".")
			switch tool {
			case "ruff", "black", "mypy", "pytest", "isort", "coverage", "pylint", "pyright", "basedpyright", "flake8", "bandit", "codespell", "commitizen",
				"towncrier", "interrogate", "vulture", "pydocstyle", "yapf", "djlint", "semantic_release", "tox", "ty", "typos":
				return "", false
			case "poetry":
				if strings.Contains(key, "dependencies") {
					return s.Value, elsewhere(s)
				}
				return s.Value, !slices.Contains([]string{"name", "version", "description", "authors", "readme", "license", "keywords", "homepage", "repository",
					"documentation", "classifiers", "maintainers"}, key) && !strings.HasPrefix(key, "urls")
			}
			return s.Value, true
		}
		return "", false
	})
}

// elsewhere reports whether a dependency in TOML names a place.
func elsewhere(s manifest.Setting) bool {
	last := s.Path[strings.LastIndexByte(s.Path, '.')+1:]
	for _, k := range []string{"git", "path", "url", "file", "registry", "registry-index", "source", "index", "ref", "branch", "rev", "tag", "develop", "subdirectory"} {
		if last == k && strings.Count(s.Path, ".") > 1 || strings.Contains(s.Value, k+" = ") {
			return true
		}
	}
	return false
}

// plainRequirement reports whether a requirement names no place.
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

// uvMembers are the members of uv's workspace.
func uvMembers(c call, dir string) []string {
	all, _ := manifest.TOML(c.peek(path.Join(dir, "pyproject.toml")))
	var list []string
	for _, s := range all {
		if s.Path == "tool.uv.workspace.members" {
			list = append(list, s.Strings...)
		}
	}
	return c.globs(dir, list, "pyproject.toml")
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
	all, _ := manifest.TOML(c.peek(file))
	for _, s := range all {
		for _, d := range s.Strings {
			if d, ok := c.path(p, d); ok && s.Path == "build-system.backend-path" { // the backend is in the project
				for _, f := range c.expand(d, "*.py") {
					c.whole(f, c.name)
				}
			}
		}
	}
}

// requirements adds those lines of a requirement file that are no plain requirement, and the files that it includes.
func (c call) requirements(file string, depth int) {
	text := c.open(file, c.name)
	if text == nil || depth > maxDepth {
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
	if words := c.words(); len(words) > 0 && words[0] == "pip" {
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
			c.rest(words[i+1:])
			if path.Ext(words[i+1]) == ".py" {
				c.name = "python"
				c.operand(words[i+1])
			}
			return
		}
	}
}

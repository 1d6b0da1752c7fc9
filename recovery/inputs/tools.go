package inputs

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/manifest"
)

// makefiles adds the makefiles that make reads by default or by option, the files that they include, and the scripts
// that their recipes run, including those of nested calls of make.
func makefiles(c call, dirs []string) {
	named := c.values("-f", "--file", "--makefile")
	for _, d := range dirs {
		for _, f := range []string{"GNUmakefile", "makefile", "Makefile", "BSDmakefile"} {
			c.in(d).makefile(path.Join(d, f), 0)
		}
		for _, n := range named {
			if p, ok := c.path(d, n); ok {
				c.in(d).makefile(p, 0)
			}
		}
	}
}

func (c call) makefile(file string, depth int) {
	if c.was("makefile\x00"+c.dir+"\x00"+file, c.depth) {
		return
	}
	text, ok := c.whole(file, c.name)
	switch {
	case !ok:
		return
	case depth > maxDepth:
		c.deep(file, c.name)
		return
	case text.size > maxScript:
		c.beyond(file, "commands", c.name, "its recipes are not read: it has more than %d KiB", maxScript>>10)
		return
	}
	for line := range strings.Lines(strings.ReplaceAll(string(text.text), "\\\n", " ")) {
		if recipe, ok := strings.CutPrefix(line, "\t"); ok {
			c.recipe(recipe)
			continue
		}
		fields := strings.Fields(line)
		if len(fields) > 1 && slices.Contains([]string{"include", "-include", "sinclude"}, fields[0]) {
			for _, f := range fields[1:] {
				if f[0] == '#' {
					break
				}
				c.include(f, depth)
			}
		}
		if _, recipe, ok := strings.Cut(line, ";"); ok && strings.Contains(line, ":") {
			c.recipe(recipe)
		}
		if i := strings.Index(line, "$(shell "); i >= 0 {
			c.recipe(line[i+len("$(shell "):])
		}
	}
}

// include adds the makefiles that an include directive names. For a name with a variable it adds every *.mk and *.mak
// file.
func (c call) include(word string, depth int) {
	var files []string
	if strings.Contains(word, "$") {
		files = append(c.expand(".", "**/*.mk"), c.expand(".", "**/*.mak")...)
	} else if p, ok := below(c.dir, word); ok {
		files = []string{p}
		if strings.ContainsAny(word, "*?[") {
			files = c.expand(".", p)
		}
	}
	for _, f := range files {
		c.makefile(f, depth+1)
	}
}

func (c call) recipe(line string) {
	line = strings.TrimLeft(line, "@-+ \t")
	c.shellText(strings.NewReplacer("$(MAKE)", "make", "${MAKE}", "make", "$(CURDIR)", ".", "${CURDIR}", ".", "$(PWD)", ".",
		"$$(pwd)", ".", "$$PWD", ".", "$$", "$").Replace(line))
}

// justfile reads the recipes of a justfile like those of a makefile, and those of the files that it imports.
func justfile(c call, dirs []string) {
	for _, d := range dirs {
		for _, name := range []string{"justfile", "Justfile", ".justfile"} {
			c.in(d).just(path.Join(d, name), 0)
		}
	}
}

func (c call) just(file string, depth int) {
	if c.was("just\x00"+c.dir+"\x00"+file, c.depth) {
		return
	}
	if depth > maxDepth {
		c.deep(file, c.name)
		return
	}
	for line := range strings.Lines(string(c.peek(file))) {
		if recipe := strings.TrimLeft(line, " \t"); recipe != line {
			c.recipe(recipe)
		}
		fields := strings.Fields(line)
		if len(fields) > 1 && (fields[0] == "import" || fields[0] == "mod" || fields[0] == "import?") {
			if p, ok := below(path.Dir(file), strings.Trim(fields[len(fields)-1], `"'`)); ok {
				c.whole(p, c.name)
				c.just(p, depth+1)
			}
		}
	}
}

// cargoToml selects from Cargo.toml the settings that name code which the build runs, or a location that code comes
// from.
func cargoToml(text []byte) ([]part, bool) {
	return tomlParts(text, func(s manifest.Setting) (string, bool) {
		first, _, _ := strings.Cut(s.Path, ".")
		switch first {
		case "patch", "replace", "registries", "source", "build", "unstable", "cargo-features":
			return s.Value, true
		case "profile":
			return "", false
		}
		switch s.Path {
		case "package.build", "package.links", "package.workspace", "package", "lib.proc-macro", "lib.proc_macro", "workspace", "workspace.members", "workspace.exclude":
			return s.Value, true
		}
		return s.Value, strings.Contains(s.Path, "dependencies") && elsewhere(s)
	})
}

func cargoMembers(c call, dir string) []string {
	all, _ := manifest.TOML(c.peek(path.Join(dir, "Cargo.toml")))
	var list []string
	for _, s := range all {
		switch s.Path {
		case "workspace.members", "workspace.default-members":
			list = append(list, s.Strings...)
		case "workspace":
			list = append(list, "**")
		}
	}
	return c.globs(dir, list, "Cargo.toml")
}

// cargoBuild adds the build script that package.build of Cargo.toml names. The default build.rs is in the table.
func cargoBuild(c call, dirs []string) {
	for _, d := range dirs {
		for _, file := range c.tomlStrings(path.Join(d, "Cargo.toml"), "package.build") {
			if p, ok := below(d, file); ok {
				c.whole(p, c.name)
			}
		}
	}
}

// goMod selects from go.mod and go.work the directives that bring in other code or another toolchain. It leaves out
// plain requirements.
func goMod(text []byte) ([]part, bool) {
	kept := map[string][]string{}
	for _, d := range manifest.GoMod(text) {
		switch d.Verb {
		case "replace", "toolchain", "use", "tool":
			kept[d.Verb] = append(kept[d.Verb], strings.Join(d.Words, " "))
		}
	}
	var out []part
	for d, lines := range kept {
		out = append(out, part{d, strings.Join(lines, "\n") + "\n"})
	}
	return out, true
}

func goMembers(c call, dir string) []string {
	parts, _ := goMod(c.peek(path.Join(dir, "go.work")))
	var list []string
	for _, p := range parts {
		if p.name == "use" {
			list = strings.Fields(p.text)
		}
	}
	return c.globs(dir, list, "go.mod")
}

// goCommand adds the files that "go run" and "go generate" execute.
func goCommand(c call, _ []string) {
	words := c.words()
	if len(words) == 0 {
		return
	}
	switch words[0] {
	case "run":
		for _, w := range words[1:] {
			p, ok := c.path(c.dir, w)
			if !ok || w != "." && !strings.HasPrefix(w, ".") && !strings.HasSuffix(w, ".go") {
				break
			}
			if c.is(p) != directory {
				c.whole(p, c.name)
				continue
			}
			for _, f := range c.expand(p, "*.go") {
				c.whole(f, c.name)
			}
			break
		}
	case "generate":
		for _, f := range c.expand(c.dir, "**/*.go") {
			if c.is(f) == regular {
				c.generate(f)
			}
		}
	}
}

// generate adds the "go:generate" lines of a Go file, and reads them as commands. A file that cannot be read counts
// whole.
func (c call) generate(file string) {
	var kept []string
	text := c.peek(file)
	for line := range strings.Lines(string(text)) {
		if d, ok := strings.CutPrefix(line, "//go:generate"); ok && d != "" {
			kept = append(kept, strings.TrimSpace(d))
		}
	}
	if text == nil || len(kept) > 0 && c.strict() {
		c.whole(file, c.name)
	}
	if len(kept) == 0 {
		return
	}
	c.text(file, "go:generate", c.name, strings.Join(kept, "\n")+"\n")
	for _, command := range kept {
		c.in(path.Dir(file)).shellText(command)
	}
}

// pom selects everything of a pom.xml except the plain dependencies of the project. Dependencies of plugins count, and
// so do those with a systemPath.
func pom(text []byte) ([]part, bool) {
	dec := xml.NewDecoder(bytes.NewReader(text))
	dec.Strict = true
	var out, held strings.Builder
	var open []string
	depth := 0 // the nesting of the dependency that is held back; 0 means none
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false
		}
		line := ""
		switch t := token.(type) {
		case xml.StartElement:
			open = append(open, t.Name.Local)
			if depth == 0 && t.Name.Local == "dependency" && plainDependency(open) {
				depth = len(open)
				held.Reset()
			}
			line = strings.Repeat(" ", len(open)) + "<" + t.Name.Local
			for _, a := range t.Attr {
				line += " " + a.Name.Local + "=" + a.Value
			}
			line += ">\n"
		case xml.EndElement:
			if depth == len(open) {
				if strings.Contains(held.String(), "<systemPath>") {
					out.WriteString(held.String())
				}
				depth = 0
			}
			open = open[:len(open)-1]
		case xml.CharData:
			if s := strings.Join(strings.Fields(string(t)), " "); s != "" {
				line = strings.Repeat(" ", len(open)+1) + s + "\n"
			}
		case xml.Directive:
			return nil, false // a directive can define entities with any content
		}
		if depth > 0 {
			held.WriteString(line)
		} else {
			out.WriteString(line)
		}
	}
	return []part{{"build", out.String()}}, true
}

// plainDependency reports whether the innermost open element is below project/dependencies. The dependencies may also
// be in dependencyManagement or in a profile.
func plainDependency(open []string) bool {
	return !slices.ContainsFunc(open[:len(open)-1], func(name string) bool {
		return !slices.Contains([]string{"project", "dependencies", "dependencyManagement", "profiles", "profile"}, name)
	})
}

// mavenModules returns the modules of a pom.xml, with the modules of these modules.
func mavenModules(c call, dir string) []string {
	var out []string
	seen := map[string]bool{dir: true}
	for todo := []string{dir}; len(todo) > 0; {
		d := todo[0]
		todo = todo[1:]
		dec := xml.NewDecoder(bytes.NewReader(c.peek(path.Join(d, "pom.xml"))))
		in := false
		for {
			token, err := dec.Token()
			if err != nil {
				break
			}
			switch t := token.(type) {
			case xml.StartElement:
				in = t.Name.Local == "module" || t.Name.Local == "subproject"
			case xml.EndElement:
				in = false
			case xml.CharData:
				m, ok := below(d, strings.TrimSpace(string(t)))
				if !in || !ok || seen[m] || c.is(m) != directory {
					continue
				}
				seen[m] = true
				out, todo = append(out, m), append(todo, m)
				if len(out) >= maxMembers {
					c.lose(path.Join(dir, "pom.xml"), c.name, errMembers)
					return out
				}
			}
		}
	}
	return out
}

// gitHooks adds the hooks that git would run. git does not run files that end in .sample.
func gitHooks(c call, dirs []string) {
	for _, d := range dirs {
		for _, f := range c.expand(d, ".git/hooks/*") {
			if path.Ext(f) != ".sample" {
				c.whole(f, c.name)
			}
		}
	}
}

// gitConfig selects from .git/config the settings that can make git run a program or talk to another server. It leaves
// out settings that change often, such as those of branches.
func gitConfig(text []byte) ([]part, bool) {
	var b strings.Builder
	section, keep := "", true
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case strings.HasSuffix(line, `\`):
			return nil, false // the line continues, which the following code does not handle
		case line[0] == '[':
			section = line
			keep = !slices.ContainsFunc([]string{`[branch "`, "[user]", "[color]", "[gc]", "[init]", "[advice]"}, func(plain string) bool {
				return strings.HasPrefix(strings.ToLower(line), plain)
			})
			if !strings.HasSuffix(line, "]") || strings.Count(line, "]") > 1 {
				return nil, false // there is more on the line than the section
			}
			continue
		case strings.EqualFold(section, "[core]"):
			key, _, _ := strings.Cut(strings.ToLower(line), "=")
			if among(strings.TrimSpace(key), "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks untrackedcache splitindex") {
				continue
			}
		}
		if keep {
			b.WriteString(section + " " + line + "\n")
		}
	}
	return settings(b.String()), true
}

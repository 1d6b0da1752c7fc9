package inputs

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
)

// pom leaves the plain dependencies out of a pom.xml: those of the project, not those of its plugins, and none that
// stands on a path of the system.
func pom(text []byte) ([]part, bool) {
	dec := xml.NewDecoder(bytes.NewReader(text))
	dec.Strict = true
	var out, held strings.Builder
	var open []string
	depth := 0 // of the dependency that is held back, 0: none is
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false
		}
		to := &out
		switch t := token.(type) {
		case xml.StartElement:
			open = append(open, t.Name.Local)
			if depth == 0 && t.Name.Local == "dependency" && plainDependency(open) {
				depth = len(open)
				held.Reset()
			}
			if depth > 0 {
				to = &held
			}
			to.WriteString(strings.Repeat(" ", len(open)) + "<" + t.Name.Local)
			for _, a := range t.Attr {
				to.WriteString(" " + a.Name.Local + "=" + a.Value)
			}
			to.WriteString(">\n")
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
				if depth > 0 {
					to = &held
				}
				to.WriteString(strings.Repeat(" ", len(open)+1) + s + "\n")
			}
		case xml.Directive:
			return nil, false // entities could be anything
		}
	}
	return []part{{"build", out.String()}}, true
}

// plainDependency: project/dependencies/dependency, and the same below dependencyManagement or a profile.
func plainDependency(open []string) bool {
	return !slices.ContainsFunc(open[:len(open)-1], func(name string) bool {
		return !slices.Contains([]string{"project", "dependencies", "dependencyManagement", "profiles", "profile"}, name)
	})
}

// mavenModules are the modules of a pom.xml, and theirs.
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

// maven adds the settings that a call names.
func maven(c call, _ []string) {
	c.wholeOf("-s", "--settings", "-gs", "--global-settings", "-t", "--toolchains", "-f", "--file")
}

// gradle adds the build and init scripts that a call names.
func gradle(c call, _ []string) {
	c.wholeOf("-I", "--init-script", "-b", "--build-file", "-c", "--settings-file")
}

package inputs

import (
	"path"
	"slices"
	"strings"
)

// bundler follows what a Gemfile or Rakefile loads by a path that is written out, and reads what stands behind "bundle
// exec".
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

// loads adds the Ruby files that a Ruby file loads.
func (c call) loads(file string, depth int) {
	if depth > maxDepth {
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

// gem reads the Gemfile or gemspec that a gem command is given.
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

// composerJSON takes out of composer.json where packages come from and which plugins may run; for the scripts see
// composerScripts.
func composerJSON(text []byte) ([]part, bool) {
	v, err := jsonObject(text)
	return keysOf(v, "repositories", "config", "extra", "minimum-stability"), err == nil
}

// composerScripts adds the scripts of composer.json that composer runs by itself (those before and after its events),
// and those that the call names.
func composerScripts(c call, dirs []string) {
	named := append(c.words(), "command", "init")
	for _, d := range dirs {
		file := path.Join(d, "composer.json")
		v, err := jsonObject(c.peek(file))
		if err != nil {
			continue // the whole file is an input, if it is there
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
	if !ok || depth > maxDepth {
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

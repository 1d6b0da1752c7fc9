package inputs

import (
	"path"
	"strings"
)

// gitHooks adds the hooks that git would run; it does not run its examples.
func gitHooks(c call, dirs []string) {
	for _, d := range dirs {
		for _, f := range c.expand(d, ".git/hooks/*") {
			if path.Ext(f) != ".sample" {
				c.whole(f, c.name)
			}
		}
	}
}

// gitConfig takes out of .git/config what can make git run a program or talk to
// another place. Branches and the like come and go.
func gitConfig(text []byte) ([]part, bool) {
	var b strings.Builder
	section, keep := "", true
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case strings.HasSuffix(line, `\`):
			return nil, false // what follows is not what it looks like
		case line[0] == '[':
			section = line
			keep = !plainSection(line)
			if !strings.HasSuffix(line, "]") || strings.Count(line, "]") > 1 {
				return nil, false // there is more on the line
			}
			continue
		case strings.EqualFold(section, "[core]"):
			key, _, _ := strings.Cut(strings.ToLower(line), "=")
			switch strings.TrimSpace(key) {
			case "repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks", "untrackedcache", "splitindex":
				continue
			}
		}
		if keep {
			b.WriteString(section + " " + line + "\n")
		}
	}
	if b.Len() == 0 {
		return nil, true
	}
	return []part{{"settings", b.String()}}, true
}

func plainSection(header string) bool {
	header = strings.ToLower(header)
	for _, plain := range []string{`[branch "`, "[user]", "[color]", "[gc]", "[init]", "[advice]"} {
		if strings.HasPrefix(header, plain) {
			return true
		}
	}
	return false
}

package remedy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
)

const longestName = 214 // bytes of a name; the bound of npm, which is the highest of all registries

var (
	placeholder = pattern.Lazy(`\{([A-Za-z_][A-Za-z0-9_]*)\}`)
	safeName    = pattern.Lazy(`^[A-Za-z0-9@][A-Za-z0-9@._/+:-]*$`)
)

// filler fills the placeholders in the words of an option with the captures of one match.
type filler struct {
	captures map[string]string
	dir      string
	command  []string // the failed command, word by word
	shell    string   // the failed command as a shell's text
}

// words fills the placeholders of one command. If a whole argument is {command}, it becomes the words of the failed
// command. After -c it becomes one argument, the text of the failed command.
func (f filler) words(argv []string) ([]string, error) {
	out := make([]string, 0, len(argv))
	for i, a := range argv {
		if a == "{command}" {
			switch {
			case len(f.command) == 0:
				return nil, fmt.Errorf("the failed command is not known")
			case i > 0 && argv[i-1] == "-c":
				out = append(out, f.shell)
			default:
				out = append(out, f.command...)
			}
			continue
		}
		w, err := f.word(a)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// word fills the placeholders of one word. It returns an error if a captured text does not look like a name: an option,
// a path with "..", a URL, or a text that a shell or a package manager takes for more than a name.
func (f filler) word(s string) (string, error) {
	var err error
	out := placeholder().ReplaceAllStringFunc(s, func(m string) string {
		v, e := f.value(m[1 : len(m)-1])
		if e != nil && err == nil {
			err = e
		}
		return v
	})
	return out, err
}

func (f filler) value(name string) (string, error) {
	switch name {
	case "dir":
		if f.dir == "" {
			return "", fmt.Errorf("the directory of the failed command is not known")
		}
		return f.dir, nil
	case "command":
		return "", fmt.Errorf("{command} must be an argument of its own")
	}
	if v, ok := f.captures[name]; ok && v != "" {
		if v, ok := f.inside(v); ok {
			return v, nil
		}
		if !plainName(v) {
			return "", fmt.Errorf("what the output gives as %s is not a plain name", name)
		}
		return v, nil
	}
	return "", fmt.Errorf("the output does not name the %s", strings.ReplaceAll(name, "_", " "))
}

// inside makes an absolute path below the failed command's directory relative, such as .git/index.lock. It returns
// false for another path, and for one whose elements are not plain names.
func (f filler) inside(v string) (string, bool) {
	if f.dir == "" || !path.IsAbs(v) || len(v) > longestName {
		return "", false
	}
	rel, ok := strings.CutPrefix(v, strings.TrimSuffix(f.dir, "/")+"/")
	if !ok {
		return "", false
	}
	for _, name := range strings.Split(rel, "/") {
		if !plainName(strings.TrimPrefix(name, ".")) || name == ".." {
			return "", false
		}
	}
	return rel, true
}

// text fills the placeholders in a sentence for an operator. A placeholder without a value becomes its name in <>.
func (f filler) text(s string) string {
	return placeholder().ReplaceAllStringFunc(s, func(m string) string {
		name := m[1 : len(m)-1]
		if name == "command" {
			return commandText([]Step{{Argv: f.command}})
		}
		if v, err := f.value(name); err == nil {
			return v
		}
		return "<" + name + ">"
	})
}

// plainName reports whether a captured text looks like a name and so may stand in a command.
func plainName(v string) bool {
	return len(v) <= longestName && safeName().MatchString(v) && !strings.Contains(v, "://") && !slices.Contains(strings.Split(v, "/"), "..")
}

// environ fills the placeholders in the values of variables. It returns NAME=value pairs, sorted by name.
func (f filler) environ(vars map[string]string) ([]string, error) {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		v, err := f.word(vars[name])
		if err != nil {
			return nil, err
		}
		out = append(out, name+"="+v)
	}
	return out, nil
}

// commandText returns the text of steps for a shell. It quotes arguments if needed and joins the steps by " && ".
func commandText(steps []Step) string {
	texts := make([]string, len(steps))
	for i, s := range steps {
		texts[i] = stepText(s)
	}
	return strings.Join(texts, " && ")
}

func stepText(s Step) string {
	var words []string
	if len(s.Env) > 0 && !isSudo(s.Argv) {
		words = make([]string, 0, len(s.Env)+len(s.Argv))
		for _, e := range s.Env {
			name, value, _ := strings.Cut(e, "=")
			words = append(words, name+"="+text.Word(value))
		}
	}
	for _, a := range s.Argv {
		words = append(words, text.Word(a))
	}
	return strings.Join(words, " ")
}

func isSudo(argv []string) bool { return len(argv) > 0 && argv[0] == "sudo" }

// commandGoal returns the goal key of steps, cmd/<digest>. Steps with the same variables, words and directories have
// the same key.
func commandGoal(dir string, steps []Step) string {
	h := sha256.New()
	for _, s := range steps {
		for _, list := range [][]string{s.Env, s.Argv} {
			for _, w := range list {
				fmt.Fprintf(h, "%d:%s,", len(w), w)
			}
			h.Write([]byte(";"))
		}
		fmt.Fprintf(h, "@%s\n", path.Clean(cmp.Or(s.Dir, dir)))
	}
	return "cmd/" + hex.EncodeToString(h.Sum(nil))[:16]
}

func toolGoal(recipe string) string { return "tool/" + recipe }

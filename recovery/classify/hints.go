package classify

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/manifest"
	"github.com/superloop/superloop/recovery"
)

// maxHintFile bounds how much of a project's file is read for hints.
const maxHintFile = 64 << 10

// lookInto adds what a project's own files say a command runs: the script of package.json, the recipe of a Makefile's
// target, the text of a script. These are hints only: the command stays opaque.
func (c *calls) lookInto(dir string) {
	known := len(c.words)
	for _, call := range c.words[:known] {
		for _, text := range c.ownText(dir, call) {
			for n, part := range recovery.Analyse(text).Parts {
				if n >= 100 {
					break
				}
				c.add(part.Words, 1)
			}
		}
	}
}

// ownText gives the shell text behind one call, if a file of the project has it.
func (c *calls) ownText(dir string, call []string) []string {
	args := afterFlags(call[1:])
	switch call[0] {
	case "npm", "pnpm", "yarn", "bun":
		name := "test"
		if len(args) > 0 {
			name = args[0]
			if (name == "run" || name == "run-script") && len(args) > 1 {
				name = args[1]
			}
		}
		if name == "t" || name == "tst" {
			name = "test"
		}
		m, _ := manifest.PackageJSON(readSome(filepath.Join(dir, "package.json")))
		var out []string
		for _, s := range []string{"pre" + name, name, "post" + name} {
			if text := m.Scripts[s]; text != "" {
				out = append(out, text)
			}
		}
		return out
	case "make", "gmake":
		target := ""
		if len(args) > 0 {
			target = args[0]
		}
		for _, f := range []string{"GNUmakefile", "makefile", "Makefile"} {
			if b := readSome(filepath.Join(dir, f)); b != nil {
				return []string{makeRecipe(string(b), target)}
			}
		}
	case "sh", "bash", "dash", "zsh":
		if len(args) > 0 {
			return script(dir, args[0])
		}
	default:
		if strings.HasSuffix(call[0], ".sh") {
			return script(dir, call[0])
		}
	}
	return nil
}

// script reads a shell script that stands in dir or below.
func script(dir, name string) []string {
	if filepath.IsAbs(name) || strings.Contains(name, "..") {
		return nil
	}
	if b := readSome(filepath.Join(dir, name)); b != nil {
		return []string{string(b)}
	}
	return nil
}

// makeRecipe is the command lines of a target, of the first one if it is "".
func makeRecipe(text, target string) string {
	var out []string
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "\t") {
			if inside {
				out = append(out, strings.TrimLeft(strings.TrimSpace(line), "@-+"))
			}
			continue
		}
		name, _, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ".") || strings.Contains(name, "=") {
			continue
		}
		if inside && target == "" && len(out) > 0 {
			break
		}
		inside = target == "" && len(out) == 0 || target != "" && slices.Contains(strings.Fields(name), target)
	}
	return strings.Join(out, "\n")
}

// readSome reads the beginning of a regular file, nil if there is none.
func readSome(path string) []byte {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxHintFile))
	if err != nil {
		return nil
	}
	return b
}

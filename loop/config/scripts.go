package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/manifest"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/recovery"
)

// maxManifest bounds a package.json or a Makefile that is looked at, in bytes.
const maxManifest = 4 << 20

// editors are programs that are often there to write the files of a project.
const editors = " sh bash node deno python python3 ruby perl npx bunx pnpx cp mv ln tee sed git "

// edits are the subcommands with which package managers write a package.json or run any program.
const edits = " init pkg set-script create exec x dlx "

// effectOf returns what a step can leave behind.
func effectOf(words []string) effect {
	if strings.Contains(editors, " "+words[0]+" ") || strings.Contains(words[0], "/") || len(words) > 1 && strings.Contains(edits, " "+words[1]+" ") {
		return makesAnything
	}
	return makesFiles
}

// targets returns the finding of a step that runs a script of package.json or a target of a Makefile that is not there.
func (v *visitor) targets(dir string, s recovery.Step) []finding {
	var out []finding
	switch s.Words[0] {
	case "npm", "pnpm", "yarn", "bun":
		out = v.script(dir, s)
	case "make", "gmake":
		out = v.makeTargets(dir, s)
	}
	for i := range out {
		out[i].sure = out[i].sure && v.made < makesAnything
	}
	return out
}

// script looks for the script that a package manager is to run. It knows only the plain forms: an option that it does
// not know may change what the words behind it mean.
func (v *visitor) script(dir string, s recovery.Step) []finding {
	manager, words := s.Words[0], s.Words[1:]
	name, run := "", false
	for i := 0; i < len(words) && name == ""; i++ {
		switch w := words[i]; {
		case w == "--silent" || w == "-s":
		case (w == "--prefix" || w == "-C" || w == "--cwd") && i+1 < len(words):
			i++
			dir = filepath.Join(dir, words[i])
		case strings.HasPrefix(w, "-") || unknownWord(w):
			return nil
		case !run && (w == "run" || w == "run-script" && manager != "bun"):
			run = true
		case run:
			name = w
		case (w == "test" || w == "t" && manager == "npm") && manager != "bun":
			name = "test"
		default:
			return nil
		}
	}
	if name == "" || !filepath.IsLocal(dir) {
		return nil
	}
	file, data := v.upwards(dir, "package.json")
	if data == nil {
		return []finding{{s.Text, "a package.json", fmt.Sprintf("there is no package.json in %s, so %s has no script %s", place(dir), manager, quoted(name)), false}}
	}
	p, ok := manifest.PackageJSON(data)
	if !ok {
		return []finding{{s.Text, "a package.json that can be read", fmt.Sprintf("%s is no JSON object, so %s finds no script in it; mend it", file, manager), true}}
	}
	if _, has := p.Scripts[name]; has {
		return nil
	}
	f := finding{s.Text, "a script of " + file, fmt.Sprintf("%s has no script %s%s", file, quoted(name), hasScripts(p, name)), true}
	if manager == "yarn" || manager == "bun" { // these also run a program of a package, and bun a file
		for _, path := range []string{filepath.Join(v.root, filepath.Dir(file), "node_modules", ".bin", name), filepath.Join(v.root, dir, name)} {
			if _, err := os.Stat(path); err == nil {
				return nil
			}
		}
		f.sure = len(p.Dependencies)+len(p.DevDependencies)+len(p.OptionalDependencies) == 0
	}
	return []finding{f}
}

// place names a directory of the repository.
func place(dir string) string {
	if dir == "." {
		return "the repository"
	}
	return dir
}

// hasScripts names the scripts that there are, for an operator who has mistyped one.
func hasScripts(p manifest.Package, not string) string {
	names := slices.Sorted(maps.Keys(p.Scripts))
	if len(names) == 0 {
		return "; it has none: add it, or correct the command"
	}
	const most = 8
	more := ""
	if len(names) > most {
		names, more = names[:most], ", ..."
	}
	return fmt.Sprintf("; it has %s%s: add it, or correct the command", listed(names), more)
}

// upwards reads a file of a directory of the repository, or of the nearest directory above it that has it.
func (v *visitor) upwards(dir, name string) (file string, data []byte) {
	for {
		file = filepath.Join(dir, name)
		if data, err := door.Read(filepath.Join(v.root, file), maxManifest); err == nil {
			return file, data
		}
		if dir == "." {
			return "", nil
		}
		dir = filepath.Dir(dir)
	}
}

// rule matches the line of a Makefile that names targets.
var rule = pattern.Lazy(`(?m)^([^\s#:=][^#:=\n]*?)\s*&?::?(?:[^=]|$)`)

// elsewhere matches what makes the targets of a Makefile unknown: other files, pattern rules, names that make computes.
var elsewhere = pattern.Lazy(`(?m)^\s*-?s?include\b|^[^\t#\n]*%[^\n]*:|^\.DEFAULT\b|^[^\t#=\n]*\$[^=\n]*:(?:[^=]|$)|\$\((?:eval|call)\b|^define\b`)

// makeTargets looks for the targets that make is to make, where the Makefile alone says which there are.
func (v *visitor) makeTargets(dir string, s recovery.Step) []finding {
	var want []string
	words := s.Words[1:]
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == "-C" && i+1 < len(words):
			i++
			dir = filepath.Join(dir, words[i])
		case w == "-s" || w == "-k" || w == "-B" || strings.HasPrefix(w, "-j") && len(w) > 2:
		case strings.HasPrefix(w, "-") || unknownWord(w):
			return nil
		case !strings.Contains(w, "="):
			want = append(want, w)
		}
	}
	if !filepath.IsLocal(dir) {
		return nil
	}
	var file string
	var data []byte
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} { // as make looks for it
		var err error
		file = filepath.Join(dir, name)
		if data, err = door.Read(filepath.Join(v.root, file), maxManifest); err == nil {
			break
		}
	}
	if data == nil {
		return []finding{{s.Text, "a Makefile", fmt.Sprintf("there is no Makefile in %s; write it, or correct the command", place(dir)), false}}
	}
	if elsewhere().Match(data) {
		return nil
	}
	var targets []string
	for _, m := range rule().FindAllSubmatch(data, -1) {
		targets = append(targets, strings.Fields(string(m[1]))...)
	}
	var out []finding
	for _, w := range want {
		if slices.Contains(targets, w) || v.buildable(dir, w) {
			continue
		}
		shown := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(targets))), func(t string) bool { return strings.HasPrefix(t, ".") })
		const most = 8
		out = append(out, finding{s.Text, "a target of " + file, fmt.Sprintf("%s has no target %s; it has %s: add it, or correct the command", file, quoted(w), listed(shown[:min(len(shown), most)])), true})
	}
	return out
}

// buildable reports whether make may make the target without a rule: from a file of that name, or of that name with a
// suffix.
func (v *visitor) buildable(dir, target string) bool {
	if strings.ContainsAny(target, "/.") {
		return true
	}
	found, err := filepath.Glob(filepath.Join(v.root, dir, target+"*"))
	return err != nil || len(found) > 0
}

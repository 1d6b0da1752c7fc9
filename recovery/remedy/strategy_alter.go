package remedy

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/recovery/catalog"
)

// changedArgs returns the failed command without the first of the modifier's DropArgs that it has, and with Args added:
// at its end, or before a "--", behind which the words are another program's. why is the reason if the modifier does not
// name the call among Alters, or if it changes nothing.
func (r *resolver) changedArgs(m catalog.Modifier, src source) (argv []string, why string) {
	if len(m.Args) == 0 && len(m.DropArgs) == 0 {
		return slices.Clone(r.argv), ""
	}
	c := callOf(r.argv)
	own := c.args
	if end := slices.Index(own, "--"); end >= 0 {
		own = own[:end]
	}
	drop := slices.IndexFunc(own, func(a string) bool { return slices.Contains(m.DropArgs, a) })
	if drop < 0 && len(m.Args) == 0 && len(m.Env) > 0 {
		return slices.Clone(r.argv), "" // only the variables change
	}
	skip := slices.Concat(repeatTable().options[c.program], m.DropArgs)
	switch {
	case len(m.Alters) == 0:
		return nil, "the remedy does not say which commands it may alter"
	case !slices.ContainsFunc(m.Alters, func(entry string) bool { return c.names(entry, skip) }):
		return nil, "the failed command is none of those that the remedy may alter (" + strings.Join(m.Alters, ", ") + ")"
	}
	add, err := src.fill.words(m.Args)
	if err != nil {
		return nil, err.Error()
	}
	kept := slices.Clone(own)
	if drop >= 0 {
		kept = slices.Delete(kept, drop, drop+1)
	}
	if len(add) > 0 && !contains(kept, add) {
		kept = append(kept, add...)
	}
	argv = slices.Concat(r.argv[:c.at], kept, c.args[len(own):])
	if slices.Equal(argv, r.argv) {
		return nil, "the failed command was like that already"
	}
	return argv, ""
}

// runners are the programs that run what a file of the project says, such as a target or a script. Package classify
// looks into these files, so a handler of pip matches a make whose recipe calls pip.
var runners = []string{"make", "gmake", "just", "task", "rake", "invoke", "tox", "nox", "bash", "sh", "dash", "npm", "npx", "pnpm", "yarn", "bun"}

// byVariables returns the variables by which the programs that the failed command runs in turn take the modifier's Args:
// pip reads each long option from PIP_OPTION, npm from NPM_CONFIG_OPTION. It returns nil if the failed command does not
// run a file of the project, if the handler is not one of that program, or if an argument has no such form.
func (r *resolver) byVariables(m catalog.Modifier, src source) []string {
	prefix, ok := map[string]string{"pip": "PIP_", "npm": "NPM_CONFIG_"}[src.family]
	c := callOf(r.argv)
	script := c.program == "" && len(r.argv) > 0 && strings.HasPrefix(r.argv[0], "./")
	if !ok || len(m.Args) == 0 || len(m.DropArgs) > 0 || c.program == src.family && changer(r.argv) != "" || !script && !slices.Contains(runners, c.program) ||
		!slices.ContainsFunc(m.Alters, func(entry string) bool { return strings.HasPrefix(entry, src.family+" ") }) {
		return nil
	}
	args, err := src.fill.words(m.Args)
	if err != nil {
		return nil
	}
	var out []string
	for _, a := range args {
		name, value, valued := strings.Cut(a, "=")
		option, long := strings.CutPrefix(name, "--")
		if !long || option == "" {
			return nil
		}
		if !valued {
			value = map[string]string{"pip": "1", "npm": "true"}[src.family]
		}
		out = append(out, prefix+strings.ToUpper(strings.ReplaceAll(option, "-", "_"))+"="+value)
	}
	return out
}

// contains reports whether words holds all of part, one behind the other.
func contains(words, part []string) bool {
	for i := 0; i+len(part) <= len(words); i++ {
		if slices.Equal(words[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// lessParallel limits a build to one job at a time and returns the command and the variables to set. It uses a switch
// of the program if one works for all of the program's commands, else variables that the build tools read.
func lessParallel(argv []string) ([]string, []string) {
	switch named(argv[0]) {
	case "make", "gmake", "ninja":
		return withSwitch(dropJobs(argv), "-j1"), nil
	case "cargo":
		return argv, []string{"CARGO_BUILD_JOBS=1"}
	case "go":
		return argv, []string{"GOFLAGS=-p=1", "GOMAXPROCS=1"}
	case "cmake":
		return argv, []string{"CMAKE_BUILD_PARALLEL_LEVEL=1"}
	case "gradle", "gradlew":
		return withSwitch(argv, "--max-workers=1"), nil
	case "mvn", "mvnw":
		return withSwitch(argv, "-T1"), nil
	}
	return argv, []string{"CARGO_BUILD_JOBS=1", "CMAKE_BUILD_PARALLEL_LEVEL=1", "JOBS=1", "MAKEFLAGS=-j1"}
}

// withSwitch returns a command with a switch at its end, before "--" if it has one, unless the command has it already.
func withSwitch(argv []string, word string) []string {
	end := slices.Index(argv, "--")
	if end < 0 {
		end = len(argv)
	}
	if slices.Contains(argv[:end], word) {
		return slices.Clone(argv)
	}
	return slices.Insert(slices.Clone(argv), end, word)
}

// dropJobs removes the switches -j and --jobs and their numbers.
func dropJobs(argv []string) []string {
	var out []string
	for i := 0; i < len(argv); i++ {
		a := argv[i]
		switch {
		case i > 0 && (a == "-j" || a == "--jobs"):
			if i+1 < len(argv) && isNumber(argv[i+1]) {
				i++
			}
		case i > 0 && (len(a) > 2 && a[:2] == "-j" && isNumber(a[2:]) || len(a) > 7 && a[:7] == "--jobs="):
		default:
			out = append(out, a)
		}
	}
	return out
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

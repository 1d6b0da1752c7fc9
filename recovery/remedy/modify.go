package remedy

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/catalog"
)

// retry is the failed command once more, after each of the waits of the option, or of the category if it has none.
func (r *resolver) retry(waits []int) result {
	if len(r.argv) == 0 {
		return failed("the failed command is not known")
	}
	if c, ok := r.cat.Category(r.f.Category); ok && len(waits) == 0 {
		waits = c.Retry
	}
	if len(waits) == 0 {
		waits = []int{0}
	}
	res := result{goal: r.goal, substitutes: true, timeout: r.s.Timeout, command: r.text}
	for _, s := range waits {
		res.tries = append(res.tries, time.Duration(max(s, 0))*time.Second)
	}
	res.steps = []Step{{Argv: r.argv, Dir: r.dir, For: r.goal}}
	return res
}

// modified is the failed command with something changed.
func (r *resolver) modified(t *catalog.Option, src source) result {
	m := t.Modifier
	if len(r.argv) == 0 {
		return failed("the failed command is not known")
	}
	env, err := src.fill.environ(m.Env)
	if err != nil {
		return failed("%s", err)
	}
	argv, why := r.changedArgs(m, src)
	if why != "" {
		return failed("%s", why)
	}
	if m.LessParallel {
		var more []string
		argv, more = lessParallel(argv)
		env = append(env, more...)
		slices.Sort(env)
		env = slices.Compact(env)
	}
	if !m.Sudo && m.Ask == "" && m.ExtendTime == 0 && len(env) == 0 && slices.Equal(argv, r.argv) {
		return r.retry(m.Wait)
	}
	res := result{substitutes: true, timeout: r.s.Timeout}
	if m.ExtendTime > 0 {
		limit := r.s.Timeout
		if limit <= 0 {
			limit = recovery.DefaultTimeout
		}
		res.timeout = time.Duration(float64(limit) * m.ExtendTime)
		res.notes = append(res.notes, "with a time limit of "+res.timeout.String())
	}
	if m.Ask != "" {
		res.notes = append(res.notes, "an operator must give the "+src.fill.text(m.Ask)+" first")
	}
	sudo := m.Sudo
	if sudo && isSudo(argv) {
		return failed("the failed command runs by sudo already")
	}
	if sudo && len(env) > 0 && !r.p.Root {
		argv, env = slices.Concat([]string{"env"}, env, argv), nil
	}
	w := r.builder().steps([][]string{argv}, sudo)
	if w.reason != "" {
		return result{work: w}
	}
	if sudo && r.p.Root {
		return failed("the failed command ran as the superuser already")
	}
	w.steps[0].Env, w.notes = env, res.notes
	if len(m.Wait) > 0 {
		w.steps[0].Wait = time.Duration(max(m.Wait[0], 0)) * time.Second
	}
	res.work = w
	if !sudo && slices.Equal(argv, r.argv) && len(env) == 0 {
		res.command = r.text
	}
	return res
}

// changedArgs takes arguments out of the failed command, and appends others.
func (r *resolver) changedArgs(m catalog.Modifier, src source) (argv []string, why string) {
	argv = slices.Clone(r.argv)
	if len(m.Args) == 0 && len(m.DropArgs) == 0 {
		return argv, ""
	}
	if len(argv) > 2 && argv[1] == "-c" && isShell(argv[0]) {
		return nil, "the failed command is a shell's text, where no argument can be added"
	}
	add, err := src.fill.words(m.Args)
	if err != nil {
		return nil, err.Error()
	}
	kept := slices.DeleteFunc(slices.Clone(argv[1:]), func(a string) bool { return slices.Contains(m.DropArgs, a) })
	argv = append(argv[:1], kept...)
	for _, a := range add {
		if a != "" && slices.Contains(kept, a) && a[0] == '-' {
			continue
		}
		argv = append(argv, a)
	}
	if slices.Equal(argv, r.argv) {
		return nil, "the failed command was like that already"
	}
	return argv, ""
}

func isShell(program string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ash", "zsh", "ksh"}, filepath.Base(program))
}

// lessParallel makes a build do one thing at a time: by the program's own switch where it has one that works for every
// of its commands, else by the variables that the usual build tools read.
func lessParallel(argv []string) ([]string, []string) {
	switch filepath.Base(argv[0]) {
	case "make", "gmake", "ninja":
		return append(dropJobs(argv), "-j1"), nil
	case "cargo":
		return argv, []string{"CARGO_BUILD_JOBS=1"}
	case "go":
		return argv, []string{"GOFLAGS=-p=1", "GOMAXPROCS=1"}
	case "cmake":
		return argv, []string{"CMAKE_BUILD_PARALLEL_LEVEL=1"}
	case "gradle", "gradlew":
		return append(slices.Clone(argv), "--max-workers=1"), nil
	case "mvn", "mvnw":
		return append(slices.Clone(argv), "-T1"), nil
	}
	return argv, []string{"CARGO_BUILD_JOBS=1", "CMAKE_BUILD_PARALLEL_LEVEL=1", "JOBS=1", "MAKEFLAGS=-j1"}
}

// dropJobs takes -j and its number out.
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

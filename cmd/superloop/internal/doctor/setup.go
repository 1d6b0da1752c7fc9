package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/superloop/superloop/loop/config"
)

// config looks whether the configuration is valid, and what it warns of.
func (p Patient) config(context.Context) Result {
	if p.Config == nil {
		var bad *config.Error
		if !errors.As(p.ConfigErr, &bad) || len(bad.Problems) == 0 {
			return Result{Status: Fail, Detail: fmt.Sprint(p.ConfigErr), Fix: "superloop validate"}
		}
		if bad.Problems[0].Code == config.CodeNoFile {
			return Result{Status: Fail, Detail: "there is no " + p.ConfigPath, Fix: "superloop init"}
		}
		return Result{Status: Fail, Detail: p.ConfigPath + ": " + firstOf(bad.Problems), Fix: "superloop validate"}
	}
	detail := fmt.Sprintf("%s, %s, %s", p.ConfigPath, count(len(p.Config.Loops), "loop"), count(len(p.Config.Runners), "runner"))
	if w := p.Config.Warnings; len(w) > 0 {
		return Result{Status: Warn, Detail: detail + ", " + count(len(w), "warning") + ": " + firstOf(w), Fix: "superloop validate shows all"}
	}
	return Result{Status: OK, Detail: detail}
}

// permissions looks whether others may change what superloop is told to do.
func (p Patient) permissions(context.Context) Result {
	for _, path := range []string{filepath.Dir(p.ConfigPath), p.ConfigPath} {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Result{Status: Fail, Detail: "there is no " + path, Fix: "superloop init"}
		case err != nil:
			return Result{Status: Fail, Detail: err.Error(), Fix: "ls -ld " + quote(path)}
		}
		perm := info.Mode().Perm()
		who := ""
		switch {
		case perm&0o002 != 0 && info.Mode()&fs.ModeSticky == 0:
			who = "everybody"
		case perm&0o020 != 0:
			who = "its group"
		}
		if who != "" {
			return Result{Status: Warn, Detail: fmt.Sprintf("%s may change %s (mode %04o), and so what superloop runs as you", who, path, perm),
				Fix: "chmod go-w " + quote(path)}
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Getuid() {
			return Result{Status: Warn, Detail: fmt.Sprintf("%s belongs to uid %d, who may change what superloop runs as you", path, st.Uid),
				Fix: fmt.Sprintf("chown %d %s", os.Getuid(), quote(path))}
		}
	}
	return Result{Status: OK, Detail: "only you and root may change the configuration"}
}

// specs looks for the files that the loops and roles read.
func (p Patient) specs(context.Context) Result {
	if p.Config == nil {
		return Result{Status: Fail, Detail: "not known without a valid configuration", Fix: "superloop validate"}
	}
	problems := p.Config.Check(p.Repo, p.lookPath)
	problems = slices.DeleteFunc(problems, func(q config.Problem) bool { // those are told by runner
		return strings.HasPrefix(q.Pointer, "/runner/") || strings.HasPrefix(q.Pointer, "/runners/")
	})
	if len(problems) > 0 {
		return Result{Status: Fail, Detail: firstOf(problems), Fix: "superloop validate"}
	}
	var files []string
	for _, l := range p.Config.Loops {
		if !slices.Contains(files, l.SpecFile) {
			files = append(files, l.SpecFile)
		}
	}
	return Result{Status: OK, Detail: strings.Join(files, ", ")}
}

// bash looks for the shell that runs the tests.
func (p Patient) bash(ctx context.Context) Result {
	const fix = "install bash; test and validation commands run under bash -c"
	path, err := p.lookPath("bash")
	if err != nil {
		return Result{Status: Fail, Detail: err.Error(), Fix: fix}
	}
	out, err := p.tool(ctx, path, "--version")
	if err != nil {
		return Result{Status: Fail, Detail: err.Error(), Fix: fix}
	}
	return Result{Status: OK, Detail: fmt.Sprintf("%s at %s", firstLine(out), path)}
}

// runners are those of the configuration, by name.
func (p Patient) runners() []config.Runner {
	if p.Config == nil {
		return nil
	}
	var list []config.Runner
	for _, r := range p.Config.Runners {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b config.Runner) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (p Patient) uses(runner string) bool {
	return slices.ContainsFunc(p.Config.Loops, func(l config.Loop) bool {
		return slices.ContainsFunc(l.Roles, func(r config.Role) bool { return r.Runner == runner })
	})
}

// runner looks for the program of a runner and asks it for its version. A
// program that is given by a path is not asked: a script may take no notice of
// --version and begin to work.
func (p Patient) runner(ctx context.Context, r config.Runner) Result {
	missing, unused := Fail, ""
	if !p.uses(r.Name) {
		missing, unused = Warn, "; no loop uses it"
	}
	if len(r.Command) == 0 {
		return Result{Status: missing, Detail: "it has no command" + unused, Fix: "superloop validate"}
	}
	program := strings.ReplaceAll(r.Command[0], "{repo}", p.Repo)
	byPath := strings.Contains(program, "/")
	if byPath && !filepath.IsAbs(program) {
		program = filepath.Join(p.Repo, program) // an agent starts in the repository
	}
	path, err := p.lookPath(program)
	if err != nil {
		return Result{Status: missing, Detail: err.Error() + unused, Fix: "install it, or correct the command of the runner in " + p.ConfigPath}
	}
	if byPath {
		return Result{Status: OK, Detail: path + " can be executed; given by its path, it is not asked for its version" + unused}
	}
	out, err := p.tool(ctx, path, "--version")
	said := firstLine(out)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Result{Status: Warn, Detail: fmt.Sprintf("%s did not tell its version within %s%s", path, toolTimeout, unused), Fix: "try it by hand: " + quote(path) + " --version"}
	case err != nil:
		return Result{Status: Warn, Detail: err.Error() + unused, Fix: "try it by hand: " + quote(path) + " --version"}
	case said == "":
		said = "a version that it does not tell"
	}
	return Result{Status: OK, Detail: fmt.Sprintf("%s at %s%s", said, path, unused)}
}

package preflight

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/proc"
)

// headSize is how many bytes of a program are examined. No script around a CLI is longer.
const headSize = 64 << 10

// program is the file of a command's first word, with its first headSize bytes.
type program struct {
	path string
	File
	head []byte
}

// broken adds a finding that says why the program cannot be started. It returns false.
func (l line) broken(rep *Report, fix, format string, args ...any) bool {
	rep.add(Error, l.at+".command", fix, fmt.Sprintf(format, args...))
	return false
}

// machO are the first bytes of executable files for macOS.
var machO = []string{"\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe"}

// find finds the program as exec will find it, and determines the kind of its file. A cause that keeps the program from
// starting becomes a finding.
func find(l line, rep *Report) (p program, ok bool) {
	name := l.Argv[0]
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(l.Dir, name)
	}
	path, err := proc.LookPath(name, l.Env)
	if errors.Is(err, fs.ErrPermission) {
		return p, l.broken(rep, "make it executable, or correct the command", "%v", err)
	} else if err != nil {
		return p, l.broken(rep, "install it, or correct the command", "%v", err)
	}
	p = program{path: path}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return p, l.broken(rep, "correct the command", "%s: %v", path, err)
	}
	if real != path {
		p.Target = real
	}
	p.Kind = "unknown"
	text, _, err := door.Ends(real, headSize, 0)
	if err != nil {
		return p, true // a file may be executable but not readable; then its kind stays unknown
	}
	p.head = []byte(text[:min(len(text), headSize)])
	switch {
	case len(p.head) == 0:
		p.Kind = "empty"
		return p, l.broken(rep, "install it anew", "%s is an empty file", real)
	case bytes.HasPrefix(p.head, []byte("#!")):
		p.Kind = "script"
		return p, p.script(l, rep)
	case bytes.HasPrefix(p.head, []byte(elf.ELFMAG)):
		p.Kind = "elf"
		return p, p.elf(real, l, rep)
	case slices.Contains(machO, string(p.head[:min(4, len(p.head))])):
		p.Kind = "mach-o"
		if runtime.GOOS == "linux" {
			return p, l.broken(rep, "install the one for linux", "%s is a program for macOS", real)
		}
	case !bytes.ContainsRune(p.head, 0):
		p.Kind = "text"
		return p, l.broken(rep, "write #!/bin/sh, or what it is written for, into its first line", "%s is text without a #! line, which the system cannot start", real)
	default:
		rep.add(Warn, l.at+".command", "try it by hand: "+path+" --version", real+" is no program of a kind that is known here")
	}
	return p, true
}

// script checks that the interpreter in the #! line exists.
func (p *program) script(l line, rep *Report) bool {
	first, _, _ := bytes.Cut(p.head[2:], []byte("\n"))
	words := strings.Fields(string(first))
	if len(words) == 0 {
		return l.broken(rep, "name its interpreter there", "%s has an empty #! line", p.path)
	}
	p.Interpreter = words[0]
	_, err := proc.LookPath(p.Interpreter, l.Env)
	if err == nil && filepath.Base(p.Interpreter) == "env" {
		real := func(w string) bool { return !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") }
		if i := slices.IndexFunc(words[1:], real); i >= 0 {
			p.Interpreter = words[1+i]
			_, err = proc.LookPath(p.Interpreter, l.Env)
		}
	}
	switch {
	case bytes.HasSuffix(first, []byte("\r")):
		return l.broken(rep, "give it Unix line ends: sed -i 's/\\r$//' "+p.path, "%s has Windows line ends, so its interpreter is not found", p.path)
	case err != nil:
		return l.broken(rep, "install "+filepath.Base(p.Interpreter)+", or correct the PATH of the runner", "%s is a script for %s: %v", p.path, p.Interpreter, err)
	}
	return true
}

// machines maps GOARCH to the machine in an ELF file.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "386": elf.EM_386, "arm": elf.EM_ARM, "riscv64": elf.EM_RISCV}

// elf checks that the file is for this kind of machine and that the loader that it names exists.
func (p *program) elf(real string, l line, rep *Report) bool {
	f, err := elf.Open(real)
	if err != nil {
		return l.broken(rep, "install it anew", "%s is a broken program: %v", real, err)
	}
	defer func() { _ = f.Close() }()
	if machine, known := machines[runtime.GOARCH]; known && f.Machine != machine {
		// An emulator may run the program, so this is only a warning.
		rep.add(Warn, l.at+".command", "install the one for "+runtime.GOARCH, fmt.Sprintf("%s is for another machine (%s)", real, f.Machine))
	}
	i := slices.IndexFunc(f.Progs, func(part *elf.Prog) bool { return part.Type == elf.PT_INTERP })
	if i < 0 {
		return true
	}
	loader, err := io.ReadAll(io.LimitReader(f.Progs[i].Open(), 4096))
	if err != nil {
		return true
	}
	p.Interpreter = strings.TrimRight(string(loader), "\x00")
	if _, err := os.Stat(p.Interpreter); err != nil {
		return l.broken(rep, "install the build for this system (musl or glibc), or that loader",
			"%s needs the loader %s, which is not there", real, p.Interpreter)
	}
	return true
}

// wrapped reports whether the program is a handwritten script around another program, and whether it is deaf: it
// ignores its arguments.
func (p program) wrapped() (wrapped, deaf bool) {
	if p.Kind != "script" || slices.Contains([]string{"node", "bun", "deno"}, filepath.Base(p.Interpreter)) {
		return false, false
	}
	passes := slices.ContainsFunc([]string{"$@", "${@", "$*", "${*", "$1", "${1", "argv", "ARGV", "ARGS"}, func(s string) bool {
		return bytes.Contains(p.head, []byte(s))
	})
	return true, !passes && len(p.head) < headSize
}

// Question is a program that superloop does not know. Examiner.Verify finds out whether it works.
type Question struct {
	Path  string        // absolute path of the program
	Dir   string        // the directory in which Verify starts the program
	Env   []string      // the whole environment of the program
	Bound time.Duration // the time bound of each command; every command gets an empty standard input
}

// Check says whether a program works. If neither Works nor Broken is true, nothing is known.
type Check struct {
	Works    bool `json:"works"`
	Broken   bool `json:"broken"`
	TimedOut bool `json:"timed_out,omitempty"` // at its time bound, which on a busy machine proves nothing
	// Original is the first command that was tried. Repaired is the expectation or the other command that proved that
	// the program works. Method is output_detection, fallback_help or fallback_h. Repaired and Method are "" if
	// Original proved it.
	Original string `json:"original"`
	Repaired string `json:"repaired"`
	Method   string `json:"method"`
	// ExitCode is the exit code of the command that decided; -1 if the command did not end by itself or was not
	// started.
	ExitCode    int    `json:"exit_code"`
	TimeSavedMS int64  `json:"time_saved_ms,omitempty"` // the least time that an agent would have needed to find out
	Why         string `json:"why"`                     // a sentence with the line of output that decided
	Said        string `json:"-"`                       // what the program printed when asked for its version
}

// Decided returns the command that decided whether the program works.
func (c Check) Decided() string {
	if c.Works && c.Repaired != "" {
		return c.Repaired
	}
	return c.Original
}

func (e *Examiner) verify(ctx context.Context, s *subject, l line) (Check, error) {
	key := strings.Join([]string{l.env("PATH"), l.Dir, s.path}, "\x00")
	if c, ok := e.checks[key]; ok {
		return c, nil
	}
	c, err := e.Verify(ctx, Question{Path: s.path, Dir: l.Dir, Env: l.Env, Bound: e.patience(s.adapter)})
	if err != nil || ctx.Err() != nil {
		return c, err
	}
	c.Why = plain(c.Why)
	e.checks[key] = c
	return c, nil
}

// unknown examines a program that superloop does not know. Verify can only find out whether it works, not which flags
// it has.
func (e *Examiner) unknown(ctx context.Context, l line, s *subject, rep *Report) {
	base, name := filepath.Base(s.path), s.adapter.Name()
	s.unchecked = fmt.Sprintf("nothing is known of %s (adapter %s), so it is not asked", base, name)
	switch {
	case e.Verify == nil:
		return
	case !s.heeds():
		s.unchecked += "; the script has no answer to --version or --help in it, and might begin to work"
		return
	}
	s.unchecked = fmt.Sprintf("nothing is known of the flags of %s (adapter %s)", base, name)
	at := l.at + ".command"
	c, err := e.verify(ctx, s, l)
	if err != nil {
		rep.add(Warn, at, "try it by hand: "+s.path+" --version", fmt.Sprintf("%s could not be asked whether it works: %v", s.path, err))
		return
	}
	s.check = &c
	byHand := "try it by hand: " + c.Original
	switch {
	case c.Works && c.Method == "":
		if s.version = firstLine(c.Said); s.version == "" {
			rep.add(Note, at, "", c.Original+" prints nothing, which shows little")
		}
	case c.Works:
	case c.TimedOut:
		rep.add(Warn, at, byHand, fmt.Sprintf("%s does not tell its version: no answer within %s", s.path, e.patience(s.adapter)))
	case c.Broken:
		rep.add(Error, at, "install what it lacks, or install it anew; "+byHand, fmt.Sprintf("%s is broken: %s", s.path, c.Why))
	default:
		rep.add(Note, at, byHand, fmt.Sprintf("nothing shows that %s works: %s", s.path, c.Why))
	}
}

var (
	// parsers match the code of a script that parses arguments. answers match words of a script that answers --version
	// or --help, or that passes all its arguments on to a program.
	parsers = pattern.Lazy(`(?i)\bgetopts?\b|\b(?:argparse|optparse|docopt|click|typer|optionparser)\b|\bimport \w*main\b|activate_bin_path|load_entry_point`)
	answers = pattern.Lazy(`(?i)\$@|\$\{@|--version|--help|\busage:`)
	// allPrompt matches a script that passes all its arguments on after "--", so that they are a prompt and not flags.
	comments  = pattern.Lazy(`(?m)^\s*#.*$`)
	allPrompt = pattern.Lazy(`\s--\s+"?\$[{]?@`)
)

// heeds reports whether superloop can ask a program for its version without making it begin to work. It can if the
// program is no script around another program, or if the script parses its arguments, answers --version or --help, or
// passes its arguments on.
func (p program) heeds() bool {
	wrapped, deaf := p.wrapped()
	if !wrapped || len(p.head) >= headSize {
		return true
	}
	code := comments().ReplaceAllString(string(p.head), "")
	return parsers().MatchString(code) || !deaf && answers().MatchString(code) && !allPrompt().MatchString(code)
}

// Package script is the built-in scripted agent. It plays a scenario file as a real child process in the place of an
// agent CLI. `superloop demo` and the tests use it. An operator can use it to see how a loop works before paying for a
// model. docs/scenarios.md describes the scenario files; schemas/scenario.schema.json is their schema.
//
// The scripted agent stands in for a foreign program and behaves like one. This package is the one named exception from
// the rule that only internal/durable writes files. The scripted agent may also ignore signals and leave processes
// behind. Within superloop only the hidden verb that runs the scripted agent may import this package.
//
// Exit codes: the code of an "exit" step; 0 at the end of the steps; 2 when the scenario or a step is invalid. Then
// standard error names the turn and the step.
package script

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/roles"
)

// Main plays the scenario file that args names and returns the exit code. The paths in the scenario lie below the
// process's working directory. Main is for a process of its own: it resets SIGINT, SIGTERM and SIGHUP, so that they end
// the process as they end any other program.
func Main(args []string) int {
	code, err := playFile(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "script: %v\n", err)
		return 2
	}
	return code
}

func playFile(args []string) (code int, err error) {
	if len(args) != 1 {
		return 0, errors.New("exactly one scenario file is expected")
	}
	sc, err := readScenario(args[0])
	if err != nil {
		return 0, err
	}
	// An agent reads its prompt to the end. The scripted agent does not read a terminal, because nobody would know that
	// it waits for input.
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice == 0 {
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			return 0, fmt.Errorf("reading the prompt: %w", err)
		}
	}
	signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	p := &player{role: os.Getenv("SUPERLOOP_ROLE"), iteration: os.Getenv("SUPERLOOP_ITERATION"), attempt: os.Getenv("SUPERLOOP_ATTEMPT")}
	p.fill = strings.NewReplacer("{iteration}", p.iteration, "{role}", p.role, "{loop}", os.Getenv("SUPERLOOP_LOOP"),
		"{run}", os.Getenv("SUPERLOOP_RUN_ID"))
	steps, where := sc.choose(p)
	if steps == nil {
		return 0, p.unforeseen(args[0])
	}
	for i, s := range steps {
		if s.Exit != nil {
			return *s.Exit, nil
		}
		if err := p.play(s); err != nil {
			return 0, fmt.Errorf("scenario %s: %s, step %d (%s): %w", args[0], where, i+1, s.action(), err)
		}
	}
	return 0, nil
}

// choose returns the steps to play and the name of their turn. The steps are nil if the scenario has none for p.
func (sc scenario) choose(p *player) (steps []step, where string) {
	equal := func(want *int, have string) bool { return want == nil || strconv.Itoa(*want) == have }
	for i, t := range sc.Turns {
		if (t.Role == nil || *t.Role == p.role) && equal(t.Iteration, p.iteration) && equal(t.Attempt, p.attempt) {
			return t.Steps, fmt.Sprintf("turn %d", i+1)
		}
	}
	return sc.Default, "default"
}

type player struct {
	role, iteration, attempt string
	fill                     *strings.Replacer
}

// unforeseen prints that the scenario has no steps for this role, iteration and attempt. A role that must leave a
// report gets this text as its report.
func (p *player) unforeseen(path string) error {
	text := fmt.Sprintf("%s has no turn for role %q, iteration %q, attempt %q, and no default steps.", path, p.role, p.iteration, p.attempt)
	if err := say(os.Stdout, text); err != nil {
		return err
	}
	if _, ok := roles.Deliverable(p.role); !ok || os.Getenv("SUPERLOOP_LOOP_DIR") == "" {
		return nil
	}
	return p.report(text + "\n")
}

// play carries out one step, which is not exit.
func (p *player) play(s step) error {
	switch {
	case s.Say != nil:
		return say(os.Stdout, p.fill.Replace(*s.Say))
	case s.Stderr != nil:
		return say(os.Stderr, p.fill.Replace(*s.Stderr))
	case s.Write != nil:
		return p.write(*s.Write, os.O_TRUNC)
	case s.Append != nil:
		return p.write(*s.Append, os.O_APPEND)
	case s.Delete != nil:
		return p.delete(s.Delete.Path)
	case s.Report != nil:
		return p.report(p.fill.Replace(*s.Report))
	case s.LastMessage != nil:
		return lastMessage(p.fill.Replace(*s.LastMessage))
	case s.Run != nil:
		return run(s.Run)
	case s.Spawn != nil:
		return spawn(s.Spawn, s.Detach)
	case s.SleepMS != nil:
		<-time.After(time.Duration(*s.SleepMS) * time.Millisecond)
	case s.FloodBytes != nil:
		return flood(*s.FloodBytes)
	case *s.IgnoreTerm:
		signal.Ignore(syscall.SIGTERM)
	default:
		signal.Reset(syscall.SIGTERM)
	}
	return nil
}

func say(w io.Writer, text string) error {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

func flood(n int64) error {
	block := strings.Repeat(strings.Repeat("flood ", 13)+".\n", 800)
	for ; n > 0; n -= int64(len(block)) {
		if _, err := io.WriteString(os.Stdout, block[:min(n, int64(len(block)))]); err != nil {
			return err
		}
	}
	return nil
}

// within opens the working directory as an os.Root, which neither ".." nor symbolic links leave, and calls do with it
// and the path relative to it.
func (p *player) within(path string, do func(root *os.Root, path string) error) error {
	path = filepath.Clean(p.fill.Replace(path))
	dir, err := os.Getwd()
	if err == nil && filepath.IsAbs(path) {
		path, err = filepath.Rel(dir, path)
	}
	if err == nil && !filepath.IsLocal(path) {
		err = fmt.Errorf("the path %q leaves the working directory", path)
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return do(root, path)
}

func (p *player) write(f fileText, mode int) error {
	return p.within(f.Path, func(root *os.Root, path string) error {
		if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		file, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|mode, 0o644)
		if err != nil {
			return err
		}
		_, err = io.WriteString(file, p.fill.Replace(f.Content))
		return errors.Join(err, file.Close())
	})
}

func (p *player) delete(path string) error {
	return p.within(path, func(root *os.Root, path string) error {
		if path == "." {
			return errors.New("the working directory itself stays")
		}
		return root.RemoveAll(path)
	})
}

func (p *player) report(text string) error {
	file, ok := roles.Deliverable(p.role)
	dir := os.Getenv("SUPERLOOP_LOOP_DIR")
	if !ok || dir == "" {
		return fmt.Errorf("a report needs SUPERLOOP_ROLE (here %q) and SUPERLOOP_LOOP_DIR (here %q): play the scenario as a runner of superloop", p.role, dir)
	}
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)
}

func lastMessage(text string) error {
	path := os.Getenv("SUPERLOOP_LAST_MESSAGE_FILE")
	if path == "" {
		return errors.New("a last message needs SUPERLOOP_LAST_MESSAGE_FILE: play the scenario as a runner of superloop")
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// run starts a command and waits for its end. If the command fails, run says so on standard error and the play goes on,
// as an agent goes on when a tool fails.
func run(argv []string) error {
	child, err := start(argv, false)
	if err != nil {
		return err
	}
	state, err := child.Wait()
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", argv[0], err)
	}
	switch ws, _ := state.Sys().(syscall.WaitStatus); {
	case ws.Signaled():
		return say(os.Stderr, fmt.Sprintf("script: %s was ended by signal %d", argv[0], ws.Signal()))
	case !state.Success():
		return say(os.Stderr, fmt.Sprintf("script: %s ended with exit code %d", argv[0], state.ExitCode()))
	}
	return nil
}

// spawn starts a command and leaves it running, as a careless agent does: `command &`, or `setsid command &` when
// detach is true. The command can hold standard output and standard error open after the agent has ended.
func spawn(argv []string, detach bool) error {
	child, err := start(argv, detach)
	if err != nil {
		return err
	}
	return child.Release()
}

// start starts a child with the standard output, standard error, environment and directory of this process. ownSession
// gives the child a session of its own.
//
// start uses os.StartProcess because internal/proc leaves nothing behind. The tools of an agent write straight to the
// agent's output and may outlive the agent.
func start(argv []string, ownSession bool) (*os.Process, error) {
	path, err := proc.LookPath(argv[0], []string{"PATH=" + os.Getenv("PATH")})
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	child, err := os.StartProcess(path, argv, &os.ProcAttr{Files: []*os.File{null, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: ownSession}})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	return child, nil
}

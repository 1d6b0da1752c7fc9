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

	"github.com/superloop/superloop/roles"
)

// Exit codes of Main besides those that a scenario gives.
const (
	exitDone  = 0
	exitWrong = 2
)

// Main plays the scenario file that args names and returns the exit code. env
// looks a variable up, as os.Getenv does; files are below the process's
// working directory. It is for a process of its own: SIGINT, SIGTERM and SIGHUP end
// that process as they end any program, whatever it had arranged before.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "script: exactly one scenario file is expected")
		return exitWrong
	}
	sc, err := readScenario(args[0])
	if err != nil {
		fmt.Fprintf(stderr, "script: %v\n", err)
		return exitWrong
	}
	if err := drain(stdin); err != nil {
		fmt.Fprintf(stderr, "script: reading the prompt: %v\n", err)
		return exitWrong
	}
	signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	p := newPlayer(stdout, stderr, env)
	steps, where := sc.choose(p)
	if steps == nil {
		err = p.unforeseen(args[0])
		if err != nil {
			fmt.Fprintf(stderr, "script: %v\n", err)
			return exitWrong
		}
		return exitDone
	}
	for i, s := range steps {
		code, end, err := p.play(s)
		if err != nil {
			fmt.Fprintf(stderr, "script: scenario %s: %s, step %d (%s): %v\n", args[0], where, i+1, s.actions()[0], err)
			return exitWrong
		}
		if end {
			return code
		}
	}
	return exitDone
}

// drain reads the prompt to its end, as an agent does; not from a terminal,
// where nobody would know that it waits.
func drain(stdin io.Reader) error {
	if f, ok := stdin.(*os.File); ok {
		info, err := f.Stat()
		if err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return nil
		}
	}
	if stdin == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, stdin)
	return err
}

// choose returns the steps to play and their name; nil steps for none.
func (sc scenario) choose(p *player) (steps []step, where string) {
	equal := func(want *int, have string) bool { return want == nil || strconv.Itoa(*want) == have }
	for i, t := range sc.turns {
		if (t.role == nil || *t.role == p.role) && equal(t.iteration, p.iteration) && equal(t.attempt, p.attempt) {
			return t.steps, fmt.Sprintf("turn %d", i+1)
		}
	}
	return sc.fallback, "default"
}

type player struct {
	stdout, stderr           io.Writer
	env                      func(string) string
	role, iteration, attempt string
	fill                     *strings.Replacer
}

func newPlayer(stdout, stderr io.Writer, env func(string) string) *player {
	p := &player{
		stdout: stdout, stderr: stderr, env: env,
		role: env("SUPERLOOP_ROLE"), iteration: env("SUPERLOOP_ITERATION"), attempt: env("SUPERLOOP_ATTEMPT"),
	}
	p.fill = strings.NewReplacer("{iteration}", p.iteration, "{role}", p.role, "{loop}", env("SUPERLOOP_LOOP"))
	return p
}

// unforeseen is what the agent does when the scenario has nothing for it.
func (p *player) unforeseen(path string) error {
	text := fmt.Sprintf("%s has no turn for role %q, iteration %q, attempt %q, and no default steps.", path, p.role, p.iteration, p.attempt)
	if err := p.say(p.stdout, text); err != nil {
		return err
	}
	if _, ok := roles.Deliverable(p.role); !ok || p.env("SUPERLOOP_LOOP_DIR") == "" {
		return nil
	}
	return p.report(text + "\n")
}

// play carries out one step; end is true when the process is to end with code.
func (p *player) play(s step) (code int, end bool, err error) {
	switch {
	case s.Exit != nil:
		return *s.Exit, true, nil
	case s.Say != nil:
		err = p.say(p.stdout, p.fill.Replace(*s.Say))
	case s.Stderr != nil:
		err = p.say(p.stderr, p.fill.Replace(*s.Stderr))
	case s.Write != nil:
		err = p.write(*s.Write, os.O_TRUNC)
	case s.Append != nil:
		err = p.write(*s.Append, os.O_APPEND)
	case s.Delete != nil:
		err = p.delete(*s.Delete.Path)
	case s.Report != nil:
		err = p.report(p.fill.Replace(*s.Report))
	case s.LastMessage != nil:
		err = p.lastMessage(p.fill.Replace(*s.LastMessage))
	case s.Run != nil:
		err = p.run(*s.Run)
	case s.Spawn != nil:
		err = p.spawn(*s.Spawn, s.Detach != nil && *s.Detach)
	case s.SleepMS != nil:
		<-time.After(time.Duration(*s.SleepMS) * time.Millisecond)
	case s.FloodBytes != nil:
		err = p.flood(*s.FloodBytes)
	case s.IgnoreTerm != nil && *s.IgnoreTerm:
		signal.Ignore(syscall.SIGTERM)
	case s.IgnoreTerm != nil:
		signal.Reset(syscall.SIGTERM)
	}
	return 0, false, err
}

func (p *player) say(w io.Writer, text string) error {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

func (p *player) flood(n int64) error {
	line := []byte(strings.Repeat("flood ", 13) + ".\n")
	block := make([]byte, 0, 64<<10)
	for len(block)+len(line) <= cap(block) {
		block = append(block, line...)
	}
	for n > 0 {
		wrote, err := p.stdout.Write(block[:min(n, int64(len(block)))])
		if err != nil {
			return err
		}
		n -= int64(wrote)
	}
	return nil
}

// within opens the working directory as a root that cannot be left, neither by
// ".." nor by symbolic links, and gives path relative to it.
func (p *player) within(path string) (*os.Root, string, error) {
	path = filepath.Clean(p.fill.Replace(path))
	dir, err := os.Getwd()
	if err != nil {
		return nil, "", err
	}
	if filepath.IsAbs(path) {
		if path, err = filepath.Rel(dir, path); err != nil {
			return nil, "", err
		}
	}
	if !filepath.IsLocal(path) {
		return nil, "", fmt.Errorf("the path %q leaves the working directory", path)
	}
	root, err := os.OpenRoot(dir)
	return root, path, err
}

func (p *player) write(f fileText, mode int) error {
	root, path, err := p.within(*f.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	if dir := filepath.Dir(path); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	file, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|mode, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, p.fill.Replace(*f.Content))
	return errors.Join(err, file.Close())
}

func (p *player) delete(path string) error {
	root, path, err := p.within(path)
	if err != nil {
		return err
	}
	defer root.Close()
	if path == "." {
		return errors.New("the working directory itself stays")
	}
	return root.RemoveAll(path)
}

func (p *player) report(text string) error {
	file, ok := roles.Deliverable(p.role)
	dir := p.env("SUPERLOOP_LOOP_DIR")
	if !ok || dir == "" {
		return fmt.Errorf("a report needs SUPERLOOP_ROLE (here %q) and SUPERLOOP_LOOP_DIR (here %q): play the scenario as a runner of superloop", p.role, dir)
	}
	return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644)
}

func (p *player) lastMessage(text string) error {
	path := p.env("SUPERLOOP_LAST_MESSAGE_FILE")
	if path == "" {
		return errors.New("a last message needs SUPERLOOP_LAST_MESSAGE_FILE: play the scenario as a runner of superloop")
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

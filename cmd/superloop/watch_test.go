package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/roles/agent"
)

// panes drives one tmux server: real terminals of a known size.
type panes struct {
	t   *testing.T
	dir string
	env []string
}

func newPanes(t *testing.T) *panes {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed, so there is no terminal to watch in; apt-get install tmux")
	}
	p := &panes{t: t, dir: t.TempDir()}
	p.env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(p.dir, "state"), "HOME="+p.dir, "TZ=UTC", "LC_ALL=C.UTF-8", "NO_COLOR=", "TMUX=", "CI=")
	t.Cleanup(func() { _ = p.tmux("kill-server").Run() }) // there may be none
	return p
}

// tmux returns a command for the server, whose socket has a short path however long that of the directory is.
func (p *panes) tmux(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-S", "s", "-f", "/dev/null"}, args...)...)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

func (p *panes) must(args ...string) string {
	p.t.Helper()
	out, err := p.tmux(args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// open starts a command in a terminal of w x h. The shell goes on behind it.
func (p *panes) open(name string, w, h int, command string) {
	p.t.Helper()
	p.must("new-session", "-d", "-s", name, "-x", fmt.Sprint(w), "-y", fmt.Sprint(h), command+"; echo left with $?; exec cat")
}

func (p *panes) keys(name string, keys ...string) {
	p.t.Helper()
	p.must(append([]string{"send-keys", "-t", name}, keys...)...)
}

// see waits until a terminal shows all of the texts, and returns what it shows then. Blanks and line breaks count as one
// blank, since a narrow terminal wraps.
func (p *panes) see(name string, texts ...string) string {
	p.t.Helper()
	tick, late := time.NewTicker(50*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for {
		shown := p.must("capture-pane", "-p", "-t", name)
		plain, missing := strings.Join(strings.Fields(shown), " "), ""
		for _, text := range texts {
			if !strings.Contains(plain, text) {
				missing = text
			}
		}
		if missing == "" {
			return shown
		}
		select {
		case <-late:
			p.t.Fatalf("%s does not show %q:\n%s", name, missing, shown)
		case <-tick.C:
		}
	}
}

// TestWatchInATerminal drives the program with a real loop in terminals of both sizes: what is seen, a resize, a question
// that is shown and answered by keys, an agent that is refused, and the way out.
func TestWatchInATerminal(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("who descends from an agent is known on Linux only")
	}
	p := newPanes(t)
	repo := filepath.Join(p.dir, "repo")
	loop := exec.CommandContext(t.Context(), "superloop", "demo", "--escalate", "--dir", repo)
	loop.Env = p.env
	var said bytes.Buffer
	loop.Stdout, loop.Stderr = &said, &said
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- loop.Wait() }()
	if err := awaitDemo(p, repo); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}

	open := []string{"greeting: awaiting_human, iteration 1 of 5", "gates tests=failed", "next: superloop approve-recovery --repo", "a approve r reject k kick c cancel d diff ? help q quit"}
	sizes := [][2]int{{80, 24}, {200, 50}}
	for _, size := range sizes {
		name := fmt.Sprintf("w%d", size[0])
		p.open(name, size[0], size[1], "superloop watch --repo repo")
		p.see(name, open...)
		p.keys(name, "a")
		p.see(name, "approve the question of greeting", "May this command run?", "rm -rf deps && sh scripts/install.sh")
		p.keys(name, "End")
		p.see(name, "Let this run? y: yes, n: no")
		p.keys(name, "n")
		p.see(name, "nothing was done", "greeting: awaiting_human")
	}
	p.must("resize-window", "-t", "w80", "-x", "200", "-y", "50")
	p.must("resize-window", "-t", "w200", "-x", "80", "-y", "24")
	p.keys("w80", "?")
	p.see("w80", "Ctrl-C leave; the loops go on")
	p.keys("w80", "q")
	for _, name := range []string{"w80", "w200"} {
		p.keys(name, "Up") // any key takes the note away
		p.see(name, open...)
	}

	p.open("agent", 80, 24, "env "+agent.MarkVariable+"=x superloop watch --repo repo")
	p.see("agent", open[0])
	for _, key := range []string{"a", "r", "k"} {
		p.keys("agent", key)
		p.see("agent", "an operator has to answer this")
		p.keys("agent", "Up")
	}

	p.keys("w200", "a")
	p.see("w200", "May this command run?")
	p.keys("w200", "End")
	p.see("w200", "Let this run? y: yes, n: no")
	p.keys("w200", "y")
	for _, name := range []string{"w80", "w200"} {
		p.see(name, "greeting: completed, iteration 1 of 5")
		p.keys(name, "q")
		p.see(name, "left with 0")
	}
	if err := <-ended; err != nil {
		t.Fatalf("the loop went on by itself and ended with %v:\n%s", err, said.String())
	}
}

// awaitDemo waits until the loop of the demo asks its question.
func awaitDemo(p *panes, repo string) error {
	config := filepath.Join(repo, ".superloop", "config.json")
	tick, late := time.NewTicker(50*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for {
		if _, err := os.Stat(config); err == nil {
			status := exec.Command("superloop", "status", "--repo", repo)
			status.Env = p.env
			out, err := status.CombinedOutput()
			if err == nil && strings.Contains(string(out), "awaiting_human") && strings.Contains(string(out), "supervisor  pid") {
				return nil
			}
		}
		select {
		case <-late:
			return errors.New("the loop asks nothing")
		case <-tick.C:
		}
	}
}

// TestWatchIsEarly watches what internal/watch/early relies on: it is initialised before Bubble Tea, which would ask the
// terminal in every verb. If this fails, every verb may hang for seconds on some terminals: see what early has come to
// import.
func TestWatchIsEarly(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("superloop", "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	before := strings.Index(trace.String(), "init github.com/superloop/superloop/cmd/superloop/internal/watch/early ")
	asks := strings.Index(trace.String(), "init github.com/charmbracelet/bubbletea ")
	after := strings.Index(trace.String(), "init github.com/superloop/superloop/cmd/superloop/internal/watch ")
	if before < 0 || asks < before || after < asks {
		t.Errorf("early at %d, Bubble Tea at %d, watch at %d of\n%s", before, asks, after, trace.String())
	}
}

package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/testkit"
)

// commitsForEver is an agent whose implementer makes commits by itself, and leaves another file to superloop. It
// flushes a file of its own now and then, as a database does: the disk then has the names of objects that are empty.
const commitsForEver = `{
  "version": 1,
  "turns": [
    {"role": "implementer", "steps": [
      {"write": {"path": "agent/number", "content": "committed by the agent in {iteration}\n"}},
      {"run": ["sh", "-c", "for i in 1 2 3 4 5 6; do cp agent/number agent/$(git rev-list --count HEAD).txt; git add agent; git commit -q -m agent; sync agent/number; sleep 0.05; done"]},
      {"write": {"path": "work/{iteration}.txt", "content": "left to superloop in {iteration}\n"}},
      {"report": "# Done\n\nIteration {iteration} of {run}\n"}, {"last_message": "done"}]}
  ],
  "default": [{"report": "# {role} {iteration}\n\nfine\n"}, {"last_message": "{role} says nothing"}]
}`

// powerCuts is how many cuts each file system gets: a sample in go test and in .ci/run, 20 with SUPERLOOP_SLOW_TESTS=all.
func powerCuts() int {
	return testkit.Sample(1, 5, 20)
}

// TestPowerCut takes the power from a file system at moments that chance chooses, while a loop runs whose agent and
// superloop both commit. After each cut `run` goes on by itself; every commit that superloop had told is in HEAD, with
// its files; no iteration has two commits of superloop; and what HEAD reaches is whole. It needs root and loop devices.
func TestPowerCut(t *testing.T) {
	for _, system := range []string{"ext4", "xfs"} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			if os.Getenv(inNamespace) == "" {
				cutInNamespace(t)
				return
			}
			disk := newCutDisk(t, system)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			chance := rand.New(rand.NewPCG(seed, 0))
			n := newTestEnvAt(t, disk.mount, false)
			n.write("scenario.json", commitsForEver)
			n.write("repo/.superloop/config.json", fmt.Sprintf(`{
  "runners": {"scripted": {"command": [%q, "__agent", %q], "args": []}},
  "loops": [{"id": "l", "spec_file": ".superloop/specs/l.md", "max_iterations": 100000, "completion_promise": "ALL DONE",
    "tests": {"mode": "every", "commands": ["true"]}, "git": {"commit_strategy": "per_iteration"}, "roles": ["implementer", "reviewer"]}]
}`, n.path("bin/superloop"), n.path("scenario.json")))
			if out, err := exec.Command("sync", "-f", disk.mount).CombinedOutput(); err != nil {
				t.Fatalf("sync: %v %s", err, out)
			}
			told := map[string]bool{}
			healed := 0
			for round := range powerCuts() {
				run := n.startToCut()
				what := fmt.Sprintf("round %d", round+1)
				run.wait(t, what, 1) // it goes on by itself
				n.holds(what, told)
				after := time.Duration(chance.Int64N(int64(1500 * time.Millisecond)))
				<-time.After(after)
				disk.cut(t)
				for _, sha := range run.end() {
					told[sha] = true
				}
				if run.said("the repository was damaged") {
					healed++
				}
				disk.again(t)
			}
			run := n.startToCut()
			run.wait(t, "at the end", 2)
			_ = run.cmd.Process.Signal(syscall.SIGINT)
			for _, sha := range run.end() {
				told[sha] = true
			}
			if run.said("the repository was damaged") {
				healed++
			}
			n.holds("at the end", told)
			n.git("fsck", "--full")
			t.Logf("%d cuts, healed %d times, %d commits told", powerCuts(), healed, len(told))
		})
	}
}

const inNamespace = "SUPERLOOP_TEST_CUT"

// cutInNamespace runs the test in a mount namespace of its own. Otherwise the sandboxes of other tests would have copies
// of the mount, and the file system could not be unmounted while they run.
func cutInNamespace(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a power cut needs root: it mounts an image. Run .ci/run as root to include it")
	}
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("no mount namespace can be made here, so no power is cut: %v %s", err, out)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(t.Name(), "/")
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", exe, "-test.v", "-test.run", "^"+parts[0]+"$/^"+parts[1]+"$")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	}
	t.Logf("%s", out)
}

// holds asserts that HEAD has what superloop told, once, and that all of HEAD is whole.
func (n *testEnv) holds(what string, told map[string]bool) {
	n.t.Helper()
	all := n.git("log", "--format=%H")
	for sha := range told {
		if !strings.Contains("\n"+all, "\n"+sha) {
			n.t.Fatalf("%s: commit %s was told and is not in HEAD\n%s", what, sha, n.git("log", "--oneline", "--stat", "-8"))
		}
	}
	n.git("rev-list", "--objects", "--quiet", "HEAD")
	once := map[string]bool{}
	for line := range strings.Lines(n.git("log", "--format=%(trailers:key=Superloop-Iteration,valueonly,separator=%x2C)")) {
		if line = strings.TrimSpace(line); line != "" && once[line] {
			n.t.Fatalf("%s: iteration %s has two commits\n%s", what, line, n.git("log", "--oneline"))
		}
		once[line] = true
	}
	for line := range strings.Lines(n.git("ls-tree", "-r", "--name-only", "HEAD", "work")) {
		name := strings.TrimSpace(line)
		if text := n.git("show", "HEAD:"+name); !strings.Contains(text, " in ") {
			n.t.Fatalf("%s: %s holds %q", what, name, text)
		}
	}
}

// cutDisk is a file system on a loop device.
type cutDisk struct{ image, mount, system string }

func newCutDisk(t *testing.T, system string) *cutDisk {
	t.Helper()
	mkfs, err := exec.LookPath("mkfs." + system)
	if err != nil {
		t.Skipf("mkfs.%s is missing, so no power is cut on %s; install e2fsprogs and xfsprogs", system, system)
	}
	dir := t.TempDir()
	d := &cutDisk{image: filepath.Join(dir, "image"), mount: filepath.Join(dir, "mount"), system: system}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, 512<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.mount, 0o755); err != nil {
		t.Fatal(err)
	}
	force := map[string]string{"ext4": "-F", "xfs": "-f"}[system]
	if out, err := exec.Command(mkfs, "-q", force, d.image).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", mkfs, err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.mount).CombinedOutput(); err != nil {
		t.Skipf("no loop device can be mounted here, so no power is cut: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", d.mount).Run() })
	return d
}

// cut stops the file system at once. What it had not written by then is lost.
func (d *cutDisk) cut(t *testing.T) {
	t.Helper()
	f, err := os.Open(d.mount)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const shutdown, noLogFlush = 0x8004587d, 2 // FS_IOC_SHUTDOWN
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, noLogFlush); err != nil {
		t.Skipf("%s cannot be shut down here: %v", d.system, err)
	}
}

// again mounts the file system anew, as the next boot does. Processes that still end keep it busy for a moment.
func (d *cutDisk) again(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		// The device stays as long as a process has the file system in its own mount namespace.
		out, err := exec.Command("umount", d.mount).CombinedOutput()
		if devices, _ := exec.Command("losetup", "--noheadings", "--associated", d.image).Output(); len(devices) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("unmounting: %v %s", err, out)
		}
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.mount).CombinedOutput(); err != nil {
		t.Fatalf("mounting again: %s", out)
	}
}

// cutRun is a run whose power will be cut.
type cutRun struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	out  strings.Builder
	more chan struct{}
}

// startToCut starts a run in the repository. Nothing but the disk is taken from it before end.
func (n *testEnv) startToCut() *cutRun {
	n.t.Helper()
	r := &cutRun{cmd: exec.Command(n.path("bin/superloop"), "run", "--unprotected"), done: make(chan struct{}), more: make(chan struct{}, 1)}
	r.cmd.Dir, r.cmd.Env = n.path("repo"), n.env
	in, out := io.Pipe()
	r.cmd.Stdout, r.cmd.Stderr = out, out
	r.cmd.WaitDelay = time.Second
	if err := r.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			r.mu.Lock()
			fmt.Fprintln(&r.out, lines.Text())
			r.mu.Unlock()
			select {
			case r.more <- struct{}{}:
			default:
			}
		}
	}()
	go func() {
		_ = r.cmd.Wait()
		out.Close()
	}()
	return r
}

var committed = regexp.MustCompile(`(?m)committed ([0-9a-f]{9}) `)

func (r *cutRun) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

func (r *cutRun) said(what string) bool { return strings.Contains(r.text(), what) }

// wait returns when superloop has told so many commits.
func (r *cutRun) wait(t *testing.T, what string, commits int) {
	t.Helper()
	for limit := time.After(2 * time.Minute); len(committed.FindAllString(r.text(), -1)) < commits; {
		select {
		case <-r.more:
		case <-r.done:
			t.Fatalf("%s: the run ended\n%s", what, r.text())
		case <-limit:
			t.Fatalf("%s: no commit\n%s", what, r.text())
		}
	}
}

// end ends what is left of the run, and returns the commits that it told.
func (r *cutRun) end() (told []string) {
	select {
	case <-r.done:
	case <-time.After(5 * time.Second):
		_ = r.cmd.Process.Kill()
		<-r.done
	}
	for _, m := range committed.FindAllStringSubmatch(r.text(), -1) {
		told = append(told, m[1])
	}
	return told
}

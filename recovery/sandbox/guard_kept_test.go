//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

// prepared runs a script, which does no harm, and says for which preparation it ran.
func prepared(t *testing.T, s *shielded, g Spawner, script string) *FileID {
	t.Helper()
	before := s.look(t)
	res, err := g.Run(context.Background(), s.agent("{ "+script+"; } >/dev/null 2>&1; true").spec())
	if err != nil || res.Err != nil || res.Code != 0 {
		t.Fatal(res, err)
	}
	if after := s.look(t); before != after {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	return &g.(*guarded).seen[0]
}

// harm is every escape that does harm without protection.
func harm() string {
	var all []string
	for _, e := range escapes {
		if e.alone {
			all = append(all, "(\n"+e.script+"\n)")
		}
	}
	return strings.Join(all, "; ")
}

// What is made for one agent serves the next one, until other files are at the
// places. Each step is a change from outside between two runs.
func TestMountsServeUntilThePlacesChange(t *testing.T) {
	t.Parallel()
	s, g := guardedHere(t)
	sh := func(script string) func() {
		return func() {
			t.Helper()
			cmd := exec.Command("bash", "-ec", script)
			cmd.Dir, cmd.Env = s.repo, append(os.Environ(), "LOOP="+s.loop, "PRIVATE="+s.private)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v %s", script, err, out)
			}
		}
	}
	last := prepared(t, s, g, harm())
	for _, c := range []struct {
		change string
		anew   bool
	}{
		{`:`, false},
		{`echo x >> "$LOOP"/events.jsonl; echo y > "$LOOP"/state.json; mkdir -p "$LOOP"/logs/iter-9; echo z > .superloop/config.new; mv .superloop/config.new .superloop/config.json`, false},
		{`echo x > "$LOOP"/proposals/new; mkdir "$PRIVATE"/more; mkdir .superloop/loops/other; touch sub/file`, false},
		{`echo x > "$LOOP"/missing`, true},
		{`rm "$LOOP"/missing`, true},
		{`mkdir "$LOOP"/missing`, true},
		{`cp "$LOOP"/events.jsonl "$LOOP"/e; mv "$LOOP"/e "$LOOP"/events.jsonl`, true},
		{`for i in 1 2 3 4 5 6; do cp "$LOOP"/escalation.json "$LOOP"/e; mv "$LOOP"/e "$LOOP"/escalation.json; done`, true},
		{`ln "$LOOP"/events.jsonl "$LOOP"/keep; rm "$LOOP"/events.jsonl; ln "$LOOP"/keep "$LOOP"/events.jsonl; rm "$LOOP"/keep`, true},
		{`rm -rf "$LOOP"/proposals; mkdir "$LOOP"/proposals; echo 1 > "$LOOP"/proposals/1.json`, true},
		{`cp -r "$LOOP" ../copy; rm -rf "$LOOP"; mv ../copy "$LOOP"`, true},
		{`cp -r .superloop copy; mv .superloop ../old; mv copy .superloop`, true},
		{`cp -r "$PRIVATE" ../private; rm -rf "$PRIVATE"; mv ../private "$PRIVATE"`, true},
		{`mkdir ../other; mv "$PWD/.superloop" ../other; mv "$PWD" ../gone; mv ../other "$PWD"; cp -r ../gone/* "$PWD"`, true},
	} {
		sh(c.change)()
		now := prepared(t, s, g, harm())
		if (now != last) != c.anew {
			t.Errorf("%s: prepared anew: %v, want %v", c.change, now != last, c.anew)
		}
		last = now
	}
}

// A file that is replaced again and again may get the number of one that is gone.
func TestReplacedFilesStayProtected(t *testing.T) {
	t.Parallel()
	s, g := guardedHere(t)
	for i := range 30 {
		s.write(t, s.loop+"/e", fmt.Sprint("event ", i))
		if err := os.Rename(s.loop+"/e", s.loop+"/events.jsonl"); err != nil {
			t.Fatal(err)
		}
		prepared(t, s, g, "echo x > $LOOP/events.jsonl")
	}
}

// A place that is to be hidden may come to be later.
func TestHiddenPlaceAppears(t *testing.T) {
	t.Parallel()
	s := shieldedWorld(t, os.Getuid(), "")
	p := s.protection()
	p.Hidden = append(p.Hidden, s.outside+"/later")
	g, rep := Protect(context.Background(), s.spawner, p)
	if rep.Level != ProtectMount {
		t.Skipf("no protection is to be had here: %q", rep.Notes)
	}
	prepared(t, s, g, ":")
	s.write(t, s.outside+"/later/secret", "private")
	res, err := g.Run(context.Background(), s.agent("cat "+s.outside+"/later/secret; true").spec())
	if err != nil || res.Err != nil || res.Stdout.Text() != "" {
		t.Error(res, err)
	}
}

// Where an agent makes temporary files says which mounts may mislead it.
func TestAnotherTmp(t *testing.T) {
	t.Parallel()
	s, g := guardedHere(t)
	s.withTool(t)
	for _, tmp := range []string{s.tmp, s.home, s.tmp} {
		a := s.agent(`"$TOOL" trickster aliases '` + tmp + `' x`)
		a.Env = append(a.Env, "TMPDIR="+tmp)
		if res, err := g.Run(context.Background(), a.spec()); err != nil || res.Code != 0 {
			t.Error(tmp, res, err)
		}
	}
}

// No agent has what the mounts could be undone with, nor gets it by executing.
func TestAgentsHaveNoPowers(t *testing.T) {
	t.Parallel()
	eachShielded(t, func(t *testing.T, s *shielded) {
		o := s.runAgent(t, s.agent(`grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status`))
		for line := range strings.Lines(o.Result.Stdout.Text()) {
			var name string
			var set uint64
			if _, err := fmt.Sscanf(line, "%s %x", &name, &set); err != nil {
				t.Fatal(line, err)
			}
			switch {
			case name == "NoNewPrivs:":
				if set != 1 && s.uid != 0 {
					t.Error(line)
				}
			case name == "CapBnd:" && s.uid != 0: // no_new_privs sees to that
			case set&takenCapabilities != 0, set != 0 && s.uid != 0:
				t.Error(line)
			}
		}
	})
}

// The agents' processes go with the supervisor, and so does what starts them.
func TestSupervisorOfAgentsIsKilled(t *testing.T) {
	t.Parallel()
	for _, l := range trees() {
		t.Run(string(l), func(t *testing.T) {
			t.Parallel()
			s := shieldedWorld(t, os.Getuid(), l) // skips
			a := s.agent("setsid sleep 1000 & echo > \"$LOOP/u\"; mv \"$LOOP/u\" \"$LOOP/up\"; sleep 1000")
			mark := newMark()
			a.Env = append(a.Env, mark)
			cmd := s.command(t, job{Agent: a, Tree: l})
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, s.loop+"/up")
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			for until := time.Now().Add(20 * time.Second); len(withMark(mark)) > 0 && time.Now().Before(until); {
				time.Sleep(5 * time.Millisecond)
			}
			nothingLeft(t, mark)
		})
	}
}

// Protected agents and recoveries do not wait for each other, and one tree at a
// time is still all that a protected Spawner runs.
func TestAgentsAndRecoveriesAtTheSameTime(t *testing.T) {
	t.Parallel()
	s, g := guardedHere(t)
	got := meanwhile(t, s, g, "echo on", func() {
		if res, err := g.Run(context.Background(), s.agent("echo ran").spec()); err != proc.ErrBusy || res.Ended != proc.NotStarted {
			t.Error(res, err)
		}
		if o := s.mustRun(t, s.job(t, "echo recovery")); o.Result.Stdout.Text() != "recovery\n" {
			t.Error(o)
		}
	})
	if !strings.HasPrefix(got, "on\n") {
		t.Error(got)
	}
}

// BenchmarkProtectedStart is a protected start against one through the Spawner
// below it, taken in turns: wall, and CPU of this process, of the two that start
// commands, and of the commands.
func BenchmarkProtectedStart(b *testing.B) {
	s, g := guardedHere(b)
	spec := proc.Spec{Argv: []string{"/bin/true"}, Env: []string{"PATH=/bin"}, Dir: s.repo}
	const turn = 10
	var wall, cpu [2]time.Duration
	for b.Loop() {
		for i, with := range []Spawner{s.spawner, g} {
			began, used := time.Now(), cpuTime(b)
			for range turn {
				res, err := with.Run(context.Background(), spec)
				if err != nil || res.Code != 0 {
					b.Fatal(res, err)
				}
				cpu[i] += res.UserTime + res.SystemTime
			}
			wall[i] += time.Since(began)
			cpu[i] += cpuTime(b) - used
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"plain", "protected"} {
		b.ReportMetric(float64(wall[i].Microseconds())/float64(b.N*turn), name+"-us")
		b.ReportMetric(float64(cpu[i].Microseconds())/float64(b.N*turn), name+"-cpu-us")
	}
	b.ReportMetric(float64(wall[1])/float64(wall[0]), "wall-ratio")
	b.ReportMetric(float64(cpu[1])/float64(cpu[0]), "cpu-ratio")
}

// cpuTime is what this process and its children have used that still live.
func cpuTime(b *testing.B) (sum time.Duration) {
	b.Helper()
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	pids := []string{fmt.Sprint(os.Getpid())}
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		pids = append(pids, strings.Fields(string(text))...)
	}
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		var at unix.Timespec
		if unix.ClockGettime(int32(^pid<<3|2), &at) == nil { // CPUCLOCK_SCHED of that process
			sum += time.Duration(at.Nano())
		}
	}
	return sum
}

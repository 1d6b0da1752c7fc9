package fleetdrill

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/testkit"
)

// cable leads to a port of this machine's loopback. While it is cut, nothing comes through, and no end hears of that.
type cable struct {
	net.Listener
	cut sync.RWMutex // locked while it is cut
}

func newCable(t *testing.T, port int) (*cable, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &cable{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
			if err != nil {
				_ = near.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					_, _ = io.Copy(through{way[1], &c.cut}, way[0])
					_ = near.Close()
					_ = far.Close()
				}()
			}
		}
	}()
	return c, nil
}

type through struct {
	net.Conn
	cut *sync.RWMutex
}

func (w through) Write(p []byte) (int, error) {
	w.cut.RLock()
	defer w.cut.RUnlock()
	return w.Conn.Write(p)
}

// ReadFrom is hidden: it would pass by Write.
func (w through) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, r)
}

// cutTime is how long machines are cut off here, where they may be silent for 5 s.
func cutTime() time.Duration { return time.Duration(testkit.Sample(0, 15, 600)) * time.Second }

// cutBound cuts a machine off from the server while its loop is in a role.
func cutBound(t *testing.T, w *world) (string, error) {
	line, err := newCable(t, w.port())
	if err != nil {
		return "", err
	}
	m, err := w.join("cut-bound")
	if err != nil {
		return "", err
	}
	m.env, m.procs = with(m.env, "TEMPORAL_ADDRESS="+line.Addr().String()), map[string]*exec.Cmd{}
	if err := m.begin("worker", 0); err != nil {
		return "", err
	}
	t.Cleanup(m.end)
	d, err := m.loop(1, 7, "")
	if err != nil {
		return "", err
	}
	if err := await(time.Minute, "the first role", func() bool { return d.count("role_start") == 1 }); err != nil {
		return "", err
	}
	line.cut.Lock()
	<-time.After(cutTime())
	ended, begun := d.count("role_end"), d.count("role_start")
	line.cut.Unlock()
	began := time.Now()
	if ended != 1 || begun != 1 {
		return "", fmt.Errorf("while the machine was cut off %d roles ended and %d had begun", ended, begun)
	}
	if err := await(3*time.Minute, "the next role", func() bool { return d.count("role_start") > 1 }); err != nil {
		return "", err
	}
	back := time.Since(began)
	if err := finished([]*drilled{d}, 1, 3*time.Minute); err != nil {
		return "", err
	}
	if n := d.count("role_start"); n != 4 {
		return "", fmt.Errorf("%d roles began", n)
	}
	return fmt.Sprintf("cut off for %s: the role ended there, nothing else began, and its outcome counted; the next role began %.1f s after the machine was back, each role once", cutTime(), back.Seconds()), nil
}

// cutUnbound cuts the machine off that has an unbound loop in a role.
func cutUnbound(t *testing.T, w *world) (string, error) {
	line, err := newCable(t, w.port())
	if err != nil {
		return "", err
	}
	a, err := w.member(t, "cut-a", "cut", nil, []string{"TEMPORAL_ADDRESS=" + line.Addr().String()})
	if err != nil {
		return "", err
	}
	d, err := w.moves("cut", "", 1, 1)
	if err != nil {
		return "", err
	}
	agent := filepath.Join(d.repo, "agent.sh")
	text, err := os.ReadFile(agent)
	if err != nil {
		return "", err
	}
	slow := strings.Replace(string(text), "sleep 1\n", "case $HOME in */cut-a) sleep 30 ;; esac\n", 1) // it outlasts the time after which another machine takes the loop
	if err := os.WriteFile(agent, []byte(slow), 0o644); err != nil {
		return "", err
	}
	if out, err := w.cmd("git", "-C", d.repo, "commit", "-q", "-a", "-m", "slow").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	if err := d.start("cut"); err != nil {
		return "", err
	}
	if err := await(time.Minute, "the first role", func() bool { return len(d.began()) == 1 }); err != nil {
		return "", err
	}
	b, err := w.member(t, "cut-b", "cut", nil, nil)
	if err != nil {
		return "", err
	}
	line.cut.Lock()
	began := time.Now()
	err = await(time.Minute, "the next attempt elsewhere", func() bool { return len(d.began()) == 2 })
	took := time.Since(began)
	if err == nil {
		<-time.After(max(0, cutTime()-took))
	}
	line.cut.Unlock()
	if err != nil {
		return "", err
	}
	if role, next := d.began()[0], d.began()[1]; role[3] != a.top || next[3] != b.top || next[1] != role[1] || next[2] != "2" {
		return "", fmt.Errorf("after %v began %v", role, next)
	}
	if err := d.whole(1); err != nil {
		return "", err
	}
	var kept []string
	if err := await(time.Minute, "the ref under which the work is kept", func() bool {
		trees, _ := filepath.Glob(filepath.Join(a.top, "state/superloop-fleet/*-"+d.name))
		if len(trees) == 1 {
			out, _ := w.cmd("git", "-C", trees[0], "for-each-ref", "--format=%(refname)", "refs/superloop-lost").Output()
			kept = strings.Fields(string(out))
		}
		return len(kept) > 0
	}); err != nil {
		return "", err
	}
	log, _ := os.ReadFile(filepath.Join(a.top, "worker.log"))
	for _, ref := range kept {
		if !strings.Contains(string(log), ref) {
			return "", fmt.Errorf("the log does not name %s of %s:\n%s", ref, kept, log)
		}
	}
	return fmt.Sprintf("cut off for %s: the next attempt began elsewhere after %.1f s; what the role did on the machine that was cut off is kept under %s, and committed once", cutTime(), took.Seconds(), kept), nil
}

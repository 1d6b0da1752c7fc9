package webtest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// fleet is a gateway, and machines whose daemons run their loops. There is no Temporal server.
type fleet struct {
	t         *testing.T
	root, bin string
	env       []string
	page, at  string
	procs     map[string]*exec.Cmd
	log       bytes.Buffer
}

func newFleet(t *testing.T, w *world) *fleet {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "fleet") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, root: root, bin: filepath.Join(root, "superloop-fleet"), env: append([]string{"TEMPORAL_ADDRESS=127.0.0.1:1"}, w.env...), procs: map[string]*exec.Cmd{}}
	t.Cleanup(func() {
		for _, c := range f.procs {
			_ = c.Process.Signal(os.Interrupt)
			_ = c.Wait()
		}
		_ = os.RemoveAll(root) // what is left is a temporary directory
	})
	build := exec.Command("go", "build", "-o", f.bin, "./cmd/superloop-fleet")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building superloop-fleet: %v\n%s", err, out)
	}
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "127.0.0.1:" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	f.page, f.at = free(), free()
	f.run("g", "init", "--fleet", "web")
	if err := os.WriteFile(filepath.Join(root, "invitation"), []byte(f.run("g", "invite")), 0o600); err != nil {
		t.Fatal(err)
	}
	f.begin("gateway", "g", f.bin, "gateway", "--listen", "localhost:"+f.page[strings.LastIndex(f.page, ":")+1:], "--machines", f.at)
	return f
}

func (f *fleet) cmd(machine, program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Env, c.Dir = append(append([]string{}, f.env...), "XDG_STATE_HOME="+filepath.Join(f.root, machine)), f.root
	return c
}

func (f *fleet) run(machine string, args ...string) string {
	f.t.Helper()
	out, err := f.cmd(machine, f.bin, args...).Output()
	if err != nil {
		f.t.Fatalf("superloop-fleet %v: %v", args, err)
	}
	return string(out)
}

func (f *fleet) begin(name, machine, program string, args ...string) {
	f.t.Helper()
	c := f.cmd(machine, program, args...)
	if err := c.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.procs[name] = c
}

func (f *fleet) kill(name string) {
	f.t.Helper()
	_ = f.procs[name].Process.Kill()
	_ = f.procs[name].Wait()
	delete(f.procs, name)
}

// machine begins a machine, and returns it as a world of its own, with its id.
func (f *fleet) machine(w *world, name string) (*world, string) {
	f.t.Helper()
	m := &world{root: filepath.Join(f.root, name+"-home"), bin: w.bin, env: append(append([]string{}, f.env...), "XDG_STATE_HOME="+filepath.Join(f.root, name))}
	if err := os.MkdirAll(m.root, 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(m.root+"/agent.sh", []byte(agent), 0o600); err != nil {
		f.t.Fatal(err)
	}
	id := strings.Fields(f.run(name, "init", "--join", filepath.Join(f.root, "invitation")))[3]
	f.begin(name+"-daemon", name, w.bin, "serve")
	f.worker(w, name)
	return m, id
}

func (f *fleet) worker(w *world, name string) {
	f.t.Helper()
	f.begin(name+"-worker", name, f.bin, "worker", "--superloop", w.bin, "--gateway", f.at)
}

// The page of a gateway shows the loops of two machines, and where each is; a click answers one of them; the page goes on where
// it was after the gateway was killed, and says so when a machine is away.
func TestTwoMachines(t *testing.T) {
	w := begin(t)
	f := newFleet(t, w)
	one, first := f.machine(w, "one")
	two, second := f.machine(w, "two")
	repo := one.loop(t, spec{repo: "shop", id: "shop", proposal: proposes("touch ok")})
	q := asks(t, repo, "shop")
	bank := two.loop(t, spec{repo: "bank", id: "bank", proposal: proposes("touch ok")})
	asks(t, bank, "bank")

	b := open(t).expect("ERR_").expect("503")
	var link string
	until(t, "the gateway gives a link", func() bool {
		out, err := f.cmd("g", f.bin, "ui").Output()
		link = strings.TrimSpace(string(out))
		return err == nil
	})
	b.do(chromedp.Navigate(link))
	b.until("the page is live", `document.querySelector('.state.live')`)
	row := `[...document.querySelectorAll('.loops tbody tr')].find((r) => r.querySelector('.name')?.innerText === %s && r.querySelector('.where')?.innerText.includes(%s))`
	for name, id := range map[string]string{"shop": first, "bank": second} {
		b.until(name+" is shown with its machine", row, name, id[:8])
	}
	eval[bool](b, `(() => { const n = document.querySelector('input[type=search]'); n.value = %s; n.dispatchEvent(new Event('input')); return true; })()`, second[:8])
	b.until("only the loops of a machine", `document.querySelectorAll('.loops tbody tr').length === 1 && `+row, "bank", second[:8])

	b.show(q)
	b.click(".confirm", "Run once")
	b.until("the answer is shown", `/by/i.test(document.querySelector('.answer.over')?.innerText)`)
	until(t, "it completes", func() bool { return state(repo, "shop") == "completed" })
	if n := strings.Count(journal(t, repo, "shop"), `"event":"recovery_executing"`); n != 1 {
		t.Errorf("it ran %d times", n)
	}

	// The gateway is killed, and another one takes its place: the tab keeps its session, and hears what has happened.
	f.kill("gateway")
	b.until("the page says so", `!document.querySelector('.state.live')`)
	two.verb(t, "cancel", "--repo", bank, "--loop", "bank")
	f.begin("gateway", "g", f.bin, "gateway", "--listen", "localhost:"+f.page[strings.LastIndex(f.page, ":")+1:], "--machines", f.at)
	b.visit("/")
	b.until("the page is live again", `document.querySelector('.state.live')`)
	b.until("it has heard of the end", `[...document.querySelectorAll('.loops tbody tr')].some((r) => r.innerText.includes('bank') && r.innerText.includes('cancelled'))`)

	f.kill("one-worker")
	b.until("a machine is away", `[...document.querySelectorAll('.loops tbody tr')].some((r) => r.innerText.includes('shop') && r.innerText.includes('away'))`)
	b.visit("/settings")
	b.until("the settings say so", `document.querySelector('main').innerText.includes('away since') && document.querySelector('main').innerText.includes(%s)`, first)
	f.worker(w, "one")
	b.visit("/")
	b.until("it is back", `[...document.querySelectorAll('.loops tbody tr')].some((r) => r.innerText.includes('shop') && r.innerText.includes('completed'))`)
}

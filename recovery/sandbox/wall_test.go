//go:build linux

package sandbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

// needsWall skips a test where the kernel has no wall.
func needsWall(t *testing.T) {
	t.Helper()
	if err := Wall(); err != nil {
		if abi, _ := landlockABI(); abi >= abiNet && len(abis[runtime.GOARCH]) > 0 && !strings.Contains(err.Error(), "seccomp") {
			t.Error(err)
		}
		t.Skip(err)
	}
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.close)
	return g
}

func TestNothingGetsThroughTheWall(t *testing.T) {
	t.Parallel()
	needsWall(t)
	eachShielded(t, func(t *testing.T, s *shielded) {
		a := s.agent("")
		a.Siege, a.Ports = true, []uint16{7717}
		if o := s.runAgent(t, a); !o.Siege.Holds() || !slices.Equal(o.Report.Walled, a.Ports) || strings.Count(strings.Join(o.Report.Notes, " "), "can become that") > strings.Count(strings.Join(o.Report.Notes, " "), "port 7717 of") {
			t.Errorf("%+v %+v", o.Siege, o.Report)
		}
	})
}

// The control: without the wall each way gets through that the kernel has.
func TestWithoutTheWallAllGetThrough(t *testing.T) {
	t.Parallel()
	w := shieldedWorld(t, os.Getuid(), "")
	got := besiege(context.Background(), w.spawner, newGate(t), []string{w.private})
	if got.Err != "" || got.Holds() || len(got.Got()) < 6 {
		t.Errorf("%+v", got)
	}
	for _, a := range got.Attempts {
		lacks := slices.ContainsFunc([]unix.Errno{unix.ENOSYS, unix.EPERM, unix.EPROTONOSUPPORT, unix.ENOPROTOOPT, unix.EAFNOSUPPORT, unix.EOPNOTSUPP, unix.EADDRNOTAVAIL, unix.ENETUNREACH},
			func(no unix.Errno) bool { return strings.Contains(a.Said, no.Error()) })
		if !a.Through && !lacks {
			t.Errorf("%+v", a)
		}
	}
	// Agents that are protected, in front of whom no port was named, are not walled.
	_, siege := TryWall(context.Background(), w.spawner, Protection{Hidden: []string{w.repo + "/missing"}})
	if siege.Holds() {
		t.Error("a wall without a protection is said to hold")
	}
}

// Programs work under the wall as without: servers, neighbouring ports, UDP, sandboxes, git, node, commands of 32 bits.
func TestAgentsWorkInFrontOfTheWall(t *testing.T) {
	t.Parallel()
	needsWall(t)
	eachShielded(t, func(t *testing.T, s *shielded) {
		s.withTool(t)
		port := newGate(t).port
		try := func(plain bool, script ...string) outcome {
			a := s.agent("rm -rf new newer; " + strings.Join(script, "; ") + "; echo end")
			a.Plain, a.Ports = plain, []uint16{port}
			return s.runAgent(t, a)
		}
		works := func(o outcome, n int) bool { return o.Result.Stdout.Text() == strings.Repeat("1\n", n)+"end\n" }
		at := strconv.Itoa(int(port))
		var held []string
		script := []string{`"$TOOL" trickster neighbours ` + at + ` | grep -c 'gave <nil>'`,
			`git init -q new && git -C new -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m x && git clone -q new newer && echo 1`,
			`unshare -Urn echo 1`}
		if path, err := proc.LookPath("bwrap", []string{"PATH=" + os.Getenv("PATH")}); err == nil {
			script = append(script, path+` --unshare-user --unshare-pid --unshare-net --die-with-parent --ro-bind / / --dev /dev --proc /proc --bind "$PWD" "$PWD" echo 1`)
			held = append(held, path+` --unshare-user --ro-bind / / --dev /dev bash -c '! echo x > /dev/tcp/127.0.0.1/`+at+`' 2>&1 | grep -m1 -c denied`)
		}
		if path, err := proc.LookPath("node", []string{"PATH=" + os.Getenv("PATH")}); err == nil {
			script = append(script, path+` -e 'const s = require("net").createServer(c => { console.log(1); c.destroy(); s.close(); }).listen(0, "localhost", () => require("net").connect(s.address().port, s.address().address).on("error", () => {}))'`)
			held = append(held, path+` -e 'require("net").connect(`+at+`, "127.0.0.1").on("error", e => console.log(e.code == "EACCES" ? 1 : e.code))'`)
		}
		if o := try(false, held...); !works(o, len(held)) {
			t.Errorf("%q: %v", held, o)
		}
		if works(try(false, script...), len(script)) {
			return
		}
		for _, line := range script { // which was it?
			if o := try(false, line); works(o, 1) {
				continue
			} else if c := try(true, line); works(c, 1) {
				t.Errorf("%s: %v; it said: %s", line, o, o.Result.Stderr.Text())
			} else {
				t.Logf("%s does not work without a wall either: %v", line, c)
			}
		}
	})
}

// elf32 is a program of 32 bits that asks for an MPTCP socket, and ends with the negative result.
func elf32() []byte {
	code := []byte{
		0xb8, 0x67, 0x01, 0, 0, // mov eax, 359 (socket)
		0xbb, 2, 0, 0, 0, // mov ebx, AF_INET
		0xb9, 1, 0, 0, 0, // mov ecx, SOCK_STREAM
		0xba, 0x06, 0x01, 0, 0, // mov edx, IPPROTO_MPTCP
		0xcd, 0x80, // int 0x80
		0x89, 0xc3, 0xf7, 0xdb, // mov ebx, eax; neg ebx
		0xb8, 1, 0, 0, 0, // mov eax, 1 (exit)
		0xcd, 0x80,
	}
	const base, head = 0x08048000, 52 + 32
	le := binary.LittleEndian
	b := append([]byte{0x7f, 'E', 'L', 'F', 1, 1, 1}, make([]byte, 9)...)
	for _, v := range []uint16{2, 3} { // an executable for i386
		b = le.AppendUint16(b, v)
	}
	for _, v := range []uint32{1, base + head, 52, 0, 0} {
		b = le.AppendUint32(b, v)
	}
	for _, v := range []uint16{52, 32, 1, 40, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	size := uint32(head + len(code))
	for _, v := range []uint32{1, 0, base, base, size, size, 5, 0x1000} { // load all of it
		b = le.AppendUint32(b, v)
	}
	return append(b, code...)
}

func TestOtherABIsDoNotGetAround(t *testing.T) {
	t.Parallel()
	needsWall(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is for amd64")
	}
	eachShielded(t, func(t *testing.T, s *shielded) {
		if err := os.WriteFile(s.tool, elf32(), 0o755); err != nil {
			t.Fatal(err)
		}
		a := s.agent(`"$TOOL"; echo $?`)
		a.Plain = true
		code := func(no unix.Errno) string { return fmt.Sprintln(int(no)) }
		if o := s.runAgent(t, a); o.Result.Stdout.Text() == code(unix.EPROTONOSUPPORT) || o.Result.Stdout.Text() == code(126) {
			t.Skipf("this kernel has no programs of 32 bits, or no MPTCP: %v", o)
		}
		a.Plain, a.Ports = false, []uint16{7717}
		if o := s.runAgent(t, a); o.Result.Stdout.Text() != code(unix.EPROTONOSUPPORT) {
			t.Error(o)
		}
	})
}

// Root could redirect packets to the port, read them and make them.
func TestRootHasNoPackets(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root has them")
	}
	s := shieldedWorld(t, 0, "")
	const script = `grep CapBnd /proc/self/status | cut -f2`
	a := s.agent(script)
	packets := uint64(1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_NET_RAW)
	for _, plain := range []bool{true, false} {
		a.Plain = plain
		caps, err := strconv.ParseUint(strings.TrimSpace(s.runAgent(t, a).Result.Stdout.Text()), 16, 64)
		switch {
		case err != nil || !plain && caps&packets != 0:
			t.Errorf("plain %v: %#x %v", plain, caps, err)
		case plain && caps&packets == 0:
			t.Skip("this root has none of them in any case")
		}
	}
}

// A recovery command has no more rights than an agent.
func TestCommandsDoNotGetThroughTheWall(t *testing.T) {
	t.Parallel()
	needsWall(t)
	port := newGate(t).port
	for _, level := range []Level{LandlockMount, Mount, None} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			eachUser(t, func(t *testing.T, w *world) {
				j := w.at(t, level, w.job(t, fmt.Sprintf("export LC_ALL=C; echo x > /dev/tcp/127.0.0.1/%d", port)))
				if o := w.mustRun(t, j); o.Result.Code != 0 || o.Sandbox.Walled != nil {
					t.Errorf("without a wall: %v", o)
				}
				j.Ports = []uint16{port}
				if o := w.mustRun(t, j); o.Result.Code == 0 || !strings.Contains(o.Result.Stderr.Text(), "Permission denied") || !slices.Equal(o.Sandbox.Walled, j.Ports) {
					t.Error(o)
				}
			})
		})
	}
}

// Landlock forbids moving files between directories with each further rule set that does not allow it. mv would copy
// instead; ln and bun say that it is another file system.
func TestCommandsMoveFilesUnderTheWall(t *testing.T) {
	t.Parallel()
	needsWall(t)
	for _, level := range []Level{LandlockMount, Landlock, Mount} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			eachUser(t, func(t *testing.T, w *world) {
				script := "mkdir one two && : > one/f && ln one/f two/g"
				if level != Mount { // TMPDIR is a mount of its own there
					script += " && ln one/f \"$TMPDIR/h\""
				}
				j := w.at(t, level, w.job(t, script))
				j.Ports = []uint16{7717}
				if o := w.mustRun(t, j); o.Result.Code != 0 || !slices.Equal(o.Sandbox.Walled, j.Ports) {
					t.Error(o)
				}
			})
		})
	}
}

// The ports are looked up at each start.
func TestTheWallFollowsThePorts(t *testing.T) {
	t.Parallel()
	needsWall(t)
	s := shieldedWorld(t, os.Getuid(), "")
	first, second := newGate(t), newGate(t)
	var now atomic.Pointer[[]uint16]
	p := s.protection()
	p.Ports = func() []uint16 { return *now.Load() }
	ports := []uint16{first.port}
	now.Store(&ports)
	with, rep := Protect(context.Background(), s.spawner, p)
	if rep.Level != ProtectMount {
		t.Skip(rep.Notes)
	}
	reaches := func(g *gate) bool {
		t.Helper()
		spec := s.agent(fmt.Sprintf("echo x > /dev/tcp/127.0.0.1/%d", g.port)).spec()
		res, err := with.Run(context.Background(), spec)
		if err != nil || res.Err != nil {
			t.Fatal(err, res.Err)
		}
		return res.Code == 0
	}
	if notes := strings.Join(rep.Notes, "\n"); !strings.Contains(notes, fmt.Sprintf("port %d of superloop's daemon can become that of an agent", first.port)) {
		t.Errorf("a port that the kernel has chosen for this test: %s", notes)
	}
	if reaches(first) || !reaches(second) {
		t.Error("the wall is not in front of the first port")
	}
	both := []uint16{first.port, second.port}
	now.Store(&both)
	if reaches(first) || reaches(second) {
		t.Error("the wall is not in front of both")
	}
}

// The socket of the daemon lies in the private state.
func TestAgentsDoNotReachASocketOfThePrivateState(t *testing.T) {
	t.Parallel()
	eachShielded(t, func(t *testing.T, s *shielded) {
		s.withTool(t)
		dir := s.private + "/daemon"
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		// The address of a socket has at most 107 bytes, and the path may be longer.
		at, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer at.Close()
		l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/sock", at.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := os.Chmod(dir+"/sock", 0o666); err != nil {
			t.Fatal(err)
		}
		for _, way := range []string{"", "/proc/self/root", "/proc/$SUPERVISOR/root", "/proc/$PPID/root", "/proc/1/root", "/proc/thread-self/root"} {
			a := s.agent(`cd "` + way + `$PRIVATE/daemon" && "$TOOL" trickster dial unix sock; "$TOOL" trickster dial unix @"$PRIVATE/daemon/sock"`)
			if o := s.runAgent(t, a); strings.Contains(o.Result.Stdout.Text(), "<nil>") {
				t.Errorf("%s: %v", way, o)
			}
		}
		a := s.agent(`cd "$PRIVATE/daemon" && "$TOOL" trickster dial unix sock`)
		a.Plain = true
		if o := s.runAgent(t, a); !strings.Contains(o.Result.Stdout.Text(), "<nil>") {
			t.Errorf("this shows nothing: %v", o)
		}
	})
}

// What is missing is said, and does not keep agents from starting.
func TestNoWallIsSaid(t *testing.T) {
	t.Parallel()
	needsWall(t)
	eachShielded(t, func(t *testing.T, s *shielded) {
		a := s.agent("")
		a.Siege, a.Ports, a.NoLandlock = true, []uint16{7717}, true
		o := s.apart().runAgent(t, a)
		said := strings.Join(o.Report.Notes, "\n")
		if o.Report.Walled != nil || !strings.Contains(said, "no wall: an agent can reach superloop's daemon over TCP, with a token that it finds: no Landlock: ") {
			t.Errorf("%+v", o.Report)
		}
		if o.Siege.Holds() || !strings.Contains(o.Siege.Err, "no Landlock") || !slices.Contains(o.Siege.Got(), "127.0.0.1") || slices.Contains(o.Siege.Got(), privateState) {
			t.Errorf("%+v", o.Siege)
		}
	})
	if code := KnockMain(nil); code != 2 {
		t.Errorf("by hand: %d", code)
	}
}

func BenchmarkWall(b *testing.B) {
	for name, ports := range map[string][]uint16{"none": nil, "wall": {7717}} {
		b.Run(name, func(b *testing.B) {
			s := shieldedWorld(b, os.Getuid(), "")
			p := s.protection()
			p.Ports = func() []uint16 { return ports }
			for b.Loop() {
				if _, rep := Protect(b.Context(), s.spawner, p); len(rep.Walled) != len(ports) {
					b.Fatal(rep)
				}
			}
		})
	}
}

package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// abiNet is the Landlock version that can refuse TCP ports.
const abiNet = 4

// What package unix has not.
const ruleNetPort = 2 // LANDLOCK_RULE_NET_PORT

// netPort is struct landlock_net_port_attr.
type netPort struct{ access, port uint64 }

const accessNet = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP | unix.LANDLOCK_ACCESS_NET_BIND_TCP

// canWall returns why this kernel has no wall, without restricting anything.
func canWall() error {
	if len(abis[runtime.GOARCH]) == 0 {
		return fmt.Errorf("superloop has no filter of system calls for %s", runtime.GOARCH)
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	if _, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); no != 0 {
		return fmt.Errorf("this kernel has no seccomp filters, or a container forbids them: %w", no)
	}
	set, err := netRules(0)
	if err == nil {
		unix.Close(set)
	}
	return err
}

// netRules makes a Landlock rule set that handles TCP ports and the given rights on files. Without any of these the
// sandboxes of agents can still mount.
func netRules(files uint64) (set int, err error) {
	abi, err := landlockABI()
	if err != nil {
		return -1, fmt.Errorf("no Landlock: %w", err)
	}
	if abi < abiNet {
		return -1, fmt.Errorf("this Landlock (version %d) does not know TCP ports (version %d, Linux 6.7, does)", abi, abiNet)
	}
	rules := unix.LandlockRulesetAttr{Handled_access_fs: files, Handled_access_net: accessNet}
	fd, _, no := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), unsafe.Sizeof(rules), 0)
	if no != 0 {
		return -1, fmt.Errorf("landlock: making a rule set for TCP ports: %w", no)
	}
	return int(fd), nil
}

// wall keeps this thread, and all programs that it executes or starts, from connecting to the TCP ports and from
// listening on them, on any address. It has tried both when it returns nil. The thread needs no_new_privs or
// CAP_SYS_ADMIN.
//
// Landlock can only list what is allowed, so the rule set has one rule for each other port. That takes some 60 ms, and
// 30 ms and 4 MiB of the kernel's memory again for each sandbox by Landlock that an agent makes inside.
//
// files says that this thread is under Landlock's rules for files already. Each further rule set then forbids to move
// files between directories unless it allows that; this one does.
//
// gifts are ports that the kernel can nevertheless give to a socket that asks for any port, so that it listens there if
// nobody else does.
func wall(ports []uint16, files bool) (gifts []uint16, err error) {
	for _, port := range ports {
		if with(func(fd int) error { return given(fd, int(port)) }) == nil {
			gifts = append(gifts, port)
		}
	}
	move := uint64(0)
	if files {
		move = unix.LANDLOCK_ACCESS_FS_REFER
	}
	set, err := netRules(move)
	if err != nil {
		return nil, err
	}
	defer unix.Close(set)
	if files {
		root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("opening /: %w", err)
		}
		err = allow(set, root, 0, move)
		unix.Close(root)
		if err != nil {
			return nil, err
		}
	}
	for port := range 1 << 16 {
		if slices.Contains(ports, uint16(port)) {
			continue
		}
		// Port 0 stands for a free port that the kernel chooses at a bind.
		rule := netPort{access: accessNet, port: uint64(port)}
		if _, _, no := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), ruleNetPort, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); no != 0 {
			return nil, fmt.Errorf("landlock: adding a rule for port %d: %w", port, no)
		}
	}
	if _, _, no := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set), 0, 0); no != 0 {
		return nil, fmt.Errorf("landlock: entering: %w", no)
	}
	if err := install(); err != nil {
		return nil, err
	}
	return gifts, stands(ports)
}

// stands tries what the wall refuses.
func stands(ports []uint16) error {
	for _, port := range ports {
		at := &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}
		for _, try := range []func(fd int) error{
			func(fd int) error { return unix.Connect(fd, at) },
			func(fd int) error { return unix.Bind(fd, at) },
		} {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("trying the wall: %w", err)
			}
			err = try(fd)
			unix.Close(fd)
			if !errors.Is(err, unix.EACCES) {
				return fmt.Errorf("landlock: port %d is said to be closed, and is not (%v)", port, err)
			}
		}
	}
	// Without the filter the kernel would look at the descriptor first.
	if err := unix.Sendto(-1, nil, unix.MSG_FASTOPEN, &unix.SockaddrInet4{}); !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("seccomp: the filter is said to be in force, and is not (%v)", err)
	}
	return nil
}

// closePorts builds the wall of an order. Without one it notes why. files is that of wall.
func (o *order) closePorts(rep *report, who string, files bool) {
	if len(o.Ports) == 0 {
		return
	}
	gifts, err := wall(o.Ports, files)
	if err != nil {
		noWall(rep, who, err)
		return
	}
	rep.Walled = o.Ports
	if o.Agent == nil {
		return // it is said of agents once
	}
	for _, port := range gifts {
		rep.note(gift+", while the daemon does not: sudo sysctl -w net.ipv4.ip_local_reserved_ports=%d", port, port)
	}
}

func noWall(rep *report, who string, err error) {
	rep.note("no wall: %s can reach superloop's daemon over TCP, with a token that it finds: %v", who, err)
}

// listen opens a gate on a port that is free on 127.0.0.1. On other addresses it is left out where the port is taken.
func listen() (*gate, error) {
	g := &gate{}
	if err := g.open(unix.AF_INET, at4(v4, 0)); err != nil {
		return nil, fmt.Errorf("listening on a port to try the wall: %w", err)
	}
	at, err := unix.Getsockname(g.sockets[0])
	inet, ok := at.(*unix.SockaddrInet4)
	if err != nil || !ok {
		g.close()
		return nil, fmt.Errorf("listening on a port to try the wall: it has no port (%v)", err)
	}
	g.port = uint16(inet.Port)
	_ = g.open(unix.AF_INET, at4([4]byte{127, 0, 0, 2}, inet.Port))
	_ = g.open(unix.AF_INET6, &unix.SockaddrInet6{Port: inet.Port, Addr: [16]byte{15: 1}})
	return g, nil
}

func (g *gate) open(family int, at unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err = unix.Bind(fd, at); err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	g.sockets = append(g.sockets, fd)
	return nil
}

func (g *gate) close() {
	for _, fd := range g.sockets {
		unix.Close(fd)
	}
}

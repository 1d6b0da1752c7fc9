package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

var (
	v4     = [4]byte{127, 0, 0, 1}
	v6     = [16]byte{15: 1}
	mapped = [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1} // ::ffff:127.0.0.1
)

// knock tries each way to the port CLOSED and prints a line for each, with tabs between its fields. The arguments are
// OPEN CLOSED HIDDEN..., or "orphan" CLOSED.
func knock(args []string) int {
	if len(args) < 2 {
		fmt.Fprintf(os.Stderr, "%s is started by superloop itself, not by hand\n", KnockArg)
		return 2
	}
	closed, err := strconv.ParseUint(args[1], 10, 16)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	port := int(closed)
	say := func(way string, err error) {
		// Where nobody listens, the kernel says so only to those who may connect. A connection in progress is one.
		outcome, said := refusedWord, ""
		if err == nil || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EINPROGRESS) {
			outcome = throughWord
		}
		if err != nil {
			said = err.Error()
		}
		fmt.Printf("%s\t%s\t%s\n", way, outcome, said)
	}
	if args[0] == "orphan" {
		if _, err := unix.Setsid(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		say(orphan, tcp4(v4, port))
		return 0
	}
	open, err := strconv.ParseUint(args[0], 10, 16)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	say(control, tcp4(v4, int(open)))
	say("127.0.0.1", tcp4(v4, port))
	say("127.0.0.2", tcp4([4]byte{127, 0, 0, 2}, port))
	say("::1", tcp6(v6, port))
	say("::ffff:127.0.0.1", tcp6(mapped, port))
	say("MPTCP", mptcp(port))
	say("fast open (sendto)", with(func(fd int) error { return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, at4(v4, port)) }))
	say("fast open (sendmsg)", with(func(fd int) error {
		_, err := unix.SendmsgN(fd, []byte("x"), nil, at4(v4, port), unix.MSG_FASTOPEN)
		return err
	}))
	say("fast open (sendmmsg)", with(func(fd int) error { return sendmmsg(fd, port) }))
	say("io_uring (connect)", with(func(fd int) error { return uring(opConnect, fd, port) }))
	say("io_uring (fast open)", with(func(fd int) error { return uring(opSendmsg, fd, port) }))
	say("listening in its place", with(func(fd int) error {
		// The port is taken, which the kernel says only to those who may have it.
		if err := unix.Bind(fd, at4(v4, port)); !errors.Is(err, unix.EADDRINUSE) {
			return err
		}
		return nil
	}))
	say("being given its port", with(func(fd int) error { return given(fd, port) }))
	if hidden := args[2:]; len(hidden) > 0 {
		say(privateState, seen(hidden))
	}
	return 0
}

func at4(addr [4]byte, port int) unix.Sockaddr { return &unix.SockaddrInet4{Port: port, Addr: addr} }

// with calls f with a new TCP socket.
func with(f func(fd int) error) error { return socket(unix.AF_INET, 0, f) }

func socket(family, protocol int, f func(fd int) error) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	return f(fd)
}

func tcp4(addr [4]byte, port int) error {
	return with(func(fd int) error { return unix.Connect(fd, at4(addr, port)) })
}

func tcp6(addr [16]byte, port int) error {
	return socket(unix.AF_INET6, 0, func(fd int) error { return unix.Connect(fd, &unix.SockaddrInet6{Port: port, Addr: addr}) })
}

func mptcp(port int) error {
	return socket(unix.AF_INET, unix.IPPROTO_MPTCP, func(fd int) error { return unix.Connect(fd, at4(v4, port)) })
}

// given returns nil if the kernel can choose this port for a socket that asks for no port.
func given(fd, port int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_LOCAL_PORT_RANGE, port<<16|port); err != nil {
		return fmt.Errorf("setsockopt: %w", err)
	}
	err := unix.Bind(fd, at4(v4, 0))
	if errors.Is(err, unix.EADDRINUSE) {
		return nil // it is the only one, and somebody has it
	}
	if err != nil {
		return err
	}
	at, err := unix.Getsockname(fd)
	if in, ok := at.(*unix.SockaddrInet4); ok && in.Port != port {
		return fmt.Errorf("the kernel chose port %d", in.Port)
	}
	return err
}

// packet is a message with the address of a port, as the kernel reads it. It is kept alive by who uses it.
type packet struct {
	addr unix.RawSockaddrInet4
	text byte
	part unix.Iovec
	head unix.Msghdr
	_    [2]uint32 // struct mmsghdr is head and the number of bytes that were sent
}

func newPacket(port int) *packet {
	p := &packet{addr: unix.RawSockaddrInet4{Family: unix.AF_INET, Port: uint16(port)<<8 | uint16(port)>>8, Addr: v4}, text: 'x'}
	p.part = unix.Iovec{Base: &p.text, Len: 1}
	p.head = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&p.addr)), Namelen: unix.SizeofSockaddrInet4, Iov: &p.part, Iovlen: 1}
	return p
}

func sendmmsg(fd, port int) error {
	p := newPacket(port)
	_, _, no := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&p.head)), 1, unix.MSG_FASTOPEN, 0, 0)
	if no != 0 {
		return no
	}
	return nil
}

// The operations of io_uring.
const (
	opSendmsg = 9
	opConnect = 16
)

// request is struct io_uring_sqe, parameters and offsets the structs of io_uring_setup.
type (
	request struct {
		op, flags byte
		_         uint16
		fd        int32
		off, addr uint64
		len, bits uint32
		_         [4]uint64
	}
	offsets struct {
		head, tail, mask, entries, a, b, c, d uint32
		user                                  uint64
	}
	parameters struct {
		sq, cq uint32
		_      [8]uint32
		sqOff  offsets // a flags, b dropped, c array
		cqOff  offsets // a overflow, b cqes
	}
)

// uring makes one request by a ring of its own, and returns what came of it.
func uring(op byte, fd, port int) error {
	var p parameters
	ring, _, no := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p)), 0)
	if no != 0 {
		return fmt.Errorf("io_uring_setup: %w", no)
	}
	defer unix.Close(int(ring))
	var maps [3][]byte
	for i, m := range []struct {
		at   int64
		size uint32
	}{{0, p.sqOff.c + 4*p.sq}, {0x8000000, p.cqOff.b + 16*p.cq}, {0x10000000, uint32(unsafe.Sizeof(request{})) * p.sq}} {
		var err error
		if maps[i], err = unix.Mmap(int(ring), m.at, int(m.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			return fmt.Errorf("io_uring: %w", err)
		}
		defer func() { _ = unix.Munmap(maps[i]) }() // the process ends soon
	}
	word := func(m []byte, at uint32) *uint32 { return (*uint32)(unsafe.Pointer(&m[at])) }
	msg := newPacket(port)
	r := (*request)(unsafe.Pointer(&maps[2][0]))
	*r = request{op: op, fd: int32(fd), addr: uint64(uintptr(unsafe.Pointer(&msg.addr))), off: unix.SizeofSockaddrInet4}
	if op == opSendmsg {
		*r = request{op: op, fd: int32(fd), addr: uint64(uintptr(unsafe.Pointer(&msg.head))), len: 1, bits: unix.MSG_FASTOPEN}
	}
	*word(maps[0], p.sqOff.c) = 0
	*word(maps[0], p.sqOff.tail)++ // enter makes it visible to the kernel
	const wait = 1                 // IORING_ENTER_GETEVENTS
	_, _, no = unix.Syscall6(unix.SYS_IO_URING_ENTER, ring, 1, 1, wait, 0, 0)
	runtime.KeepAlive(msg)
	if no != 0 {
		return fmt.Errorf("io_uring_enter: %w", no)
	}
	// struct io_uring_cqe: 8 bytes of user data, the result.
	if got := int32(*word(maps[1], p.cqOff.b+8)); got < 0 {
		return unix.Errno(-got)
	}
	return nil
}

// seen returns nil if one of the directories has something in it, and else an error.
func seen(hidden []string) error {
	var there []string
	for _, dir := range hidden {
		if list, err := os.ReadDir(dir); err == nil && len(list) > 0 {
			there = append(there, dir)
		}
	}
	if len(there) == 0 {
		return fmt.Errorf("%s is empty", strings.Join(hidden, ", "))
	}
	return nil
}

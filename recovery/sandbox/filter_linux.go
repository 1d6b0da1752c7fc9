package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has the part of the wall that Landlock lacks. Landlock looks at connect and bind of TCP sockets only. The
// kernel also makes TCP connections for sockets of other protocols, and for the first bytes that are sent with an
// address. The filter refuses these as a kernel would that cannot do them, so that programs fall back to plain TCP.

// abi has the numbers that the filter needs of one way to call the kernel.
type abi struct {
	arch uint32
	// x32 says that the numbers of another ABI are told apart by a bit only.
	x32                                                bool
	socket, setsockopt, sendto, sendmsg, sendmmsg, mux uint32 // mux is socketcall, 0 if there is none
}

// ioUringSetup has the same number everywhere.
const ioUringSetup = 425

// abis has the ABIs of each architecture that has a wall: of its own programs, and of 32-bit programs.
var abis = map[string][]abi{
	"amd64": {
		{arch: unix.AUDIT_ARCH_X86_64, x32: true, socket: 41, setsockopt: 54, sendto: 44, sendmsg: 46, sendmmsg: 307},
		{arch: unix.AUDIT_ARCH_I386, socket: 359, setsockopt: 366, sendto: 369, sendmsg: 370, sendmmsg: 345, mux: 102},
	},
	"arm64": {
		{arch: unix.AUDIT_ARCH_AARCH64, socket: 198, setsockopt: 208, sendto: 206, sendmsg: 211, sendmmsg: 269},
		{arch: unix.AUDIT_ARCH_ARM, socket: 281, setsockopt: 294, sendto: 290, sendmsg: 296, sendmmsg: 374, mux: 102},
	},
}

const (
	x32Bit = 0x40000000

	// The offsets in struct seccomp_data.
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const (
	bpfLoad    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfEqual   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfAtLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	bpfBits    = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
)

func load(offset uint32) unix.SockFilter { return unix.SockFilter{Code: bpfLoad, K: offset} }

// unless skips the next n instructions if the comparison with k is not true.
func unless(code uint16, k uint32, n int) unix.SockFilter {
	return unix.SockFilter{Code: code, Jf: uint8(n), K: k}
}

func end(with uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with}
}

func allowed() unix.SockFilter { return end(unix.SECCOMP_RET_ALLOW) }

func refused(no unix.Errno) unix.SockFilter { return end(unix.SECCOMP_RET_ERRNO | uint32(no)) }

// argument refuses the call if the comparison of an argument with k is true. All these arguments are int or unsigned
// int: the kernel takes their lower half and ignores the upper one, and so does this. All architectures of abis are
// little-endian.
func argument(n uint32, code uint16, k uint32, no unix.Errno) []unix.SockFilter {
	return []unix.SockFilter{load(offsetArgs + 8*n), unless(code, k, 1), refused(no)}
}

// filter returns the program for an architecture.
func filter(list []abi) []unix.SockFilter {
	code := []unix.SockFilter{load(offsetArch)}
	for _, a := range list {
		block := a.filter()
		code = append(code, unless(bpfEqual, a.arch, len(block)))
		code = append(code, block...)
	}
	return append(code, refused(unix.ENOSYS))
}

// filter returns the instructions for one ABI. They end in any case.
func (a abi) filter() []unix.SockFilter {
	code := []unix.SockFilter{load(offsetNumber)}
	when := func(number uint32, parts ...[]unix.SockFilter) {
		var body []unix.SockFilter
		for _, p := range parts {
			body = append(body, p...)
		}
		body = append(body, allowed())
		code = append(code, unless(bpfEqual, number, len(body)))
		code = append(code, body...)
	}
	if a.x32 {
		code = append(code, unless(bpfAtLeast, x32Bit, 1), refused(unix.ENOSYS))
	}
	never := []unix.SockFilter{refused(unix.ENOSYS)}
	when(ioUringSetup, never) // its requests are no system calls
	if a.mux != 0 {
		when(a.mux, never) // its arguments are in memory, which a filter does not see
	}
	when(a.socket, argument(0, bpfEqual, unix.AF_SMC, unix.EAFNOSUPPORT),
		argument(2, bpfEqual, unix.IPPROTO_MPTCP, unix.EPROTONOSUPPORT),
		argument(2, bpfEqual, unix.IPPROTO_SCTP, unix.EPROTONOSUPPORT),
		argument(2, bpfEqual, unix.IPPROTO_SMC, unix.EPROTONOSUPPORT))
	when(a.sendto, argument(3, bpfBits, unix.MSG_FASTOPEN, unix.EOPNOTSUPP))
	when(a.sendmmsg, argument(3, bpfBits, unix.MSG_FASTOPEN, unix.EOPNOTSUPP)) // the flags of each message are output
	when(a.sendmsg, argument(2, bpfBits, unix.MSG_FASTOPEN, unix.EOPNOTSUPP))
	when(a.setsockopt, []unix.SockFilter{load(offsetArgs + 8), unless(bpfEqual, unix.IPPROTO_TCP, 7)},
		argument(2, bpfEqual, unix.TCP_FASTOPEN_CONNECT, unix.EOPNOTSUPP),
		argument(2, bpfEqual, unix.TCP_ULP, unix.ENOENT), // "smc" makes a socket of another protocol of it
		[]unix.SockFilter{allowed(), unless(bpfEqual, unix.IPPROTO_IP, 3)},
		argument(2, bpfEqual, unix.IP_LOCAL_PORT_RANGE, unix.ENOPROTOOPT)) // chooses what the kernel chooses at a bind to port 0
	return append(code, allowed())
}

// install makes the filter hold for this thread, and for all programs that it executes or starts.
func install() error {
	list := abis[runtime.GOARCH]
	if len(list) == 0 {
		return fmt.Errorf("superloop has no filter of system calls for %s", runtime.GOARCH)
	}
	code := filter(list)
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); no != 0 {
		return fmt.Errorf("seccomp: making a filter: %w", no)
	}
	return nil
}

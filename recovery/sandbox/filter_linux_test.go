package sandbox

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// call is a system call as the filter sees it.
type call struct {
	arch, number uint32
	args         [6]uint64
}

// data is struct seccomp_data. The interpreter reads big-endian words, the kernel those of the machine: here each word
// is big-endian, and the lower half of an argument comes first, as on all architectures of abis.
func (c call) data() []byte {
	d := binary.BigEndian.AppendUint32(nil, c.number)
	d = binary.BigEndian.AppendUint32(d, c.arch)
	d = append(d, make([]byte, 8)...)
	for _, a := range c.args {
		d = binary.BigEndian.AppendUint32(d, uint32(a))
		d = binary.BigEndian.AppendUint32(d, uint32(a>>32))
	}
	return d
}

func TestFilter(t *testing.T) {
	t.Parallel()
	const junk = 0xdeadbeef << 32 // the kernel ignores the upper half of an int
	fastOpen := uint64(unix.MSG_FASTOPEN)
	for arch, list := range abis {
		var raw []bpf.Instruction
		for _, i := range filter(list) {
			raw = append(raw, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K}.Disassemble())
		}
		vm, err := bpf.NewVM(raw)
		if err != nil {
			t.Fatal(err)
		}
		check := func(name string, c call, want unix.Errno) {
			t.Helper()
			got, err := vm.Run(c.data())
			exp := uint32(unix.SECCOMP_RET_ALLOW)
			if want != 0 {
				exp = unix.SECCOMP_RET_ERRNO | uint32(want)
			}
			if err != nil || uint32(got) != exp {
				t.Errorf("%s %#x %s: %#x %v, want %#x", arch, c.arch, name, got, err, exp)
			}
		}
		for _, a := range list {
			make6 := func(number uint32, args ...uint64) call {
				c := call{arch: a.arch, number: number}
				copy(c.args[:], args)
				return c
			}
			const stream = unix.SOCK_STREAM
			for family, want := range map[uint64]unix.Errno{unix.AF_INET: 0, unix.AF_INET6: 0, unix.AF_UNIX: 0, unix.AF_NETLINK: 0, unix.AF_SMC: unix.EAFNOSUPPORT} {
				check(fmt.Sprint("family ", family), make6(a.socket, family, stream, 0), want)
				check(fmt.Sprint("family with junk ", family), make6(a.socket, family|junk, stream, 0), want)
			}
			for protocol := range uint64(300) {
				want := unix.Errno(0)
				if protocol == unix.IPPROTO_MPTCP || protocol == unix.IPPROTO_SCTP || protocol == unix.IPPROTO_SMC {
					want = unix.EPROTONOSUPPORT
				}
				check(fmt.Sprint("protocol ", protocol), make6(a.socket, unix.AF_INET, stream|unix.SOCK_CLOEXEC, protocol), want)
				check(fmt.Sprint("protocol with junk ", protocol), make6(a.socket, unix.AF_INET6, stream, protocol|junk), want)
			}
			for name, c := range map[string]struct {
				number uint32
				flags  int
			}{"sendto": {a.sendto, 3}, "sendmsg": {a.sendmsg, 2}, "sendmmsg": {a.sendmmsg, 3}} {
				for bit := range 64 {
					var args [6]uint64
					for i := range args {
						args[i] = fastOpen // an address or a length may look like it
					}
					args[c.flags] = 1 << bit
					want := unix.Errno(0)
					if args[c.flags] == fastOpen {
						want = unix.EOPNOTSUPP
					}
					check(fmt.Sprint(name, " bit ", bit), call{a.arch, c.number, args}, want)
				}
				var all [6]uint64
				all[c.flags] = ^uint64(0)
				check(name+" with all flags", call{a.arch, c.number, all}, unix.EOPNOTSUPP)
			}
			for level := range uint64(50) {
				for option := range uint64(60) {
					want := unix.Errno(0)
					switch {
					case level == unix.IPPROTO_TCP && option == unix.TCP_FASTOPEN_CONNECT:
						want = unix.EOPNOTSUPP
					case level == unix.IPPROTO_TCP && option == unix.TCP_ULP:
						want = unix.ENOENT
					case level == unix.IPPROTO_IP && option == 51: // IP_LOCAL_PORT_RANGE
						want = unix.ENOPROTOOPT
					}
					check(fmt.Sprint("option ", level, option), make6(a.setsockopt, 3, level, option), want)
					check(fmt.Sprint("option with junk ", level, option), make6(a.setsockopt, 3, level|junk, option|junk), want)
				}
			}
			own := map[uint32]bool{a.socket: true, a.sendto: true, a.sendmsg: true, a.sendmmsg: true, a.setsockopt: true}
			for number := range uint32(600) {
				want := unix.Errno(0)
				if number == 425 || a.arch&0x80000000 == 0 && number == 102 { // io_uring_setup, socketcall of 32 bits
					want = unix.ENOSYS
				}
				if !own[number] {
					check(fmt.Sprint("number ", number), make6(number, fastOpen, 43, 262, fastOpen), want)
				}
			}
			want := unix.Errno(0)
			if a.x32 {
				want = unix.ENOSYS
			}
			check("x32", make6(0x40000000|1), want)
			check("socket of x32", make6(0x40000000|a.socket, unix.AF_INET, stream, 0), want)
		}
		for _, foreign := range []uint32{0, unix.AUDIT_ARCH_PPC64LE, unix.AUDIT_ARCH_S390X, list[0].arch ^ 1} {
			check("a foreign architecture", call{arch: foreign, number: 1}, unix.ENOSYS)
		}
	}
	own := abi{socket: unix.SYS_SOCKET, setsockopt: unix.SYS_SETSOCKOPT, sendto: unix.SYS_SENDTO, sendmsg: unix.SYS_SENDMSG, sendmmsg: unix.SYS_SENDMMSG}
	if list := abis[runtime.GOARCH]; len(list) > 0 {
		if own.arch, own.x32 = list[0].arch, list[0].x32; own != list[0] || ioUringSetup != unix.SYS_IO_URING_SETUP {
			t.Errorf("%+v, want %+v", list[0], own)
		}
	}
}

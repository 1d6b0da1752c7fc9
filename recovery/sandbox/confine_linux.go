package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

// victim is the oom_score_adj of the command. When memory runs out, the kernel kills the command rather than superloop.
const victim = "500"

// errOff is the reason in a note about a mechanism that was switched off.
var errOff = errors.New("switched off")

// ways returns the sets of namespaces to try, the best first. The last set is empty, except for the network namespace
// of a command with NoNetwork and the user namespace that it needs. notes say which namespaces are left out.
func (s *Spec) ways() (ways []proc.Namespaces, notes []string) {
	// A process with CAP_SYS_ADMIN needs no user namespace, in which the files of others would seem to belong to
	// nobody.
	user := proc.NeedsUser()
	alone := s.Network == NoNetwork
	if slices.Contains(s.Without, UseMount) {
		notes = append(notes, fmt.Sprintf("no mount namespace: %v", errOff))
	} else {
		ways = append(ways, proc.Namespaces{User: user, Mount: true, Network: alone})
	}
	return append(ways, proc.Namespaces{User: user && alone, Network: alone}), notes
}

// keepOpen marks every descriptor above last to be closed at exec.
func keepOpen(last int) {
	unix.CloseOnExec(orderFD)
	unix.CloseOnExec(reportFD)
	// The spawner process has already handled all other descriptors.
	_ = unix.CloseRange(uint(last+1), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
}

// confine is the Linux part of prepare.
func (o *order) confine(rep *report) (kind string, err error) {
	// When memory runs out, the kernel kills this process first. If the setting is refused, the command still runs.
	_ = proc.SetKernel("/proc/self/oom_score_adj", victim)
	rep.LandlockABI, err = landlockABI()
	use := err == nil && o.Landlock
	switch {
	case err != nil:
		rep.note("no Landlock: %v", err)
	case !o.Landlock:
		rep.note("no Landlock: %v", errOff)
	default:
		gaps(rep)
	}
	if o.Mount {
		if err := furnish(o, !use); err != nil {
			return noMount, err
		}
	} else {
		o.bare(rep)
	}
	writable := []int{}
	if !o.Probe {
		fds, err := o.enter()
		if err != nil {
			return badPlace, err
		}
		defer fds.close()
		writable = append(writable, int(fds.repo.Fd()))
	}
	rep.Level = map[[2]bool]Level{{}: None, {true, false}: Landlock, {false, true}: Mount, {true, true}: LandlockMount}[[2]bool{use, o.Mount}]
	if !rep.Level.Meets(o.Required) {
		return tooWeak, fmt.Errorf("the sandbox level %q is required, and only %q can be had", o.Required, rep.Level)
	}
	if err := dropCapabilities(); err != nil {
		return broken, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return broken, fmt.Errorf("setting no_new_privs: %w", err)
	}
	if use {
		if err := o.restrict(rep, writable); err != nil {
			return broken, err
		}
	}
	o.closePorts(rep, "a command", use)
	return "", nil
}

// bare notes which protections are missing without a mount namespace.
func (o *order) bare(rep *report) {
	for what, places := range map[string][]bytesOf{"can be written": o.Protected, "can be read": o.Hidden} {
		there := slices.DeleteFunc(convert[string](places), func(p string) bool { return !exists(p) })
		if len(there) > 0 {
			rep.note("%s: %s", what, strings.Join(there, ", "))
		}
	}
}

// keptCapabilities are the capabilities that root keeps. They are those of root in a usual container, without the rights
// to make device nodes and packets: own, read and write files of any mode, become other users, listen on low ports. None
// of them can undo the confinement.
const keptCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE |
	1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_AUDIT_WRITE | 1<<unix.CAP_SETFCAP

func has(capability int) bool {
	all, err := proc.Capabilities()
	return err == nil && all&(1<<capability) != 0
}

// dropCapabilities drops all capabilities except keptCapabilities for root, and all for other users.
func dropCapabilities() error {
	keep := uint64(keptCapabilities)
	if os.Geteuid() != 0 {
		keep = 0
	}
	return keepCapabilities(keep)
}

// keepCapabilities drops all capabilities of this thread that are not in keep, irrevocably. It reduces the bounding set
// only if the thread has CAP_SETPCAP. It does nothing if the thread has no capabilities.
func keepCapabilities(keep uint64) error {
	now, err := proc.Capabilities()
	if err != nil {
		return fmt.Errorf("reading our capabilities: %w", err)
	}
	if now == 0 {
		return nil
	}
	keep &= now
	if now&(1<<unix.CAP_SETPCAP) != 0 {
		for c := 0; c < 64; c++ {
			if keep&(1<<c) != 0 {
				continue
			}
			err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
			if errors.Is(err, unix.EINVAL) {
				break // no further capabilities exist
			}
			if err != nil {
				return fmt.Errorf("dropping capability %d: %w", c, err)
			}
		}
	}
	// Kernels before Linux 4.3 have no ambient capabilities.
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	var data [2]unix.CapUserData
	data[0].Permitted, data[1].Permitted = uint32(keep), uint32(keep>>32)
	data[0].Effective, data[1].Effective = data[0].Permitted, data[1].Permitted
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return nil
}

// The access rights that Landlock can restrict, and the Landlock versions that introduced some of them.
const (
	// The rights that write to files. Reading and executing stay unrestricted and are not in the rule set.
	accessFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	accessDir  = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	accessDevice = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK // granted nowhere

	abiMove     = 2 // moving a file to another directory
	abiTruncate = 3
	abiIoctl    = 5
	abiScope    = 6 // signals and abstract sockets
)

// devices lists the devices that a command may write.
var devices = [...]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// landlockABI returns the Landlock version of the kernel. The error says why Landlock is not available.
func landlockABI() (int, error) {
	abi, _, no := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch no {
	case 0:
		return int(abi), nil
	case unix.ENOSYS:
		return 0, errors.New("this kernel has none (Linux 5.13 and CONFIG_SECURITY_LANDLOCK)")
	case unix.EOPNOTSUPP:
		return 0, errors.New("it is switched off in this kernel (boot parameter lsm=)")
	}
	return 0, fmt.Errorf("asking for its version: %w", no)
}

// gaps notes the restrictions that this Landlock version does not have.
func gaps(rep *report) {
	for _, g := range []struct {
		abi  int
		what string
	}{
		{abiMove, "nothing can be moved from one directory to another"},
		{abiTruncate, "files outside can be truncated"},
		{abiScope, "processes outside can be signalled, and reached by abstract sockets"},
	} {
		if rep.LandlockABI < g.abi {
			rep.note("Landlock version %d: %s", rep.LandlockABI, g.what)
		}
	}
}

// restrict keeps this thread, and all programs that it executes or starts, from writing anywhere except below the
// writable descriptors, below o.Writable and to devices.
func (o *order) restrict(rep *report, writable []int) error {
	abi := rep.LandlockABI
	file, dir := uint64(accessFile), uint64(accessDir)
	if abi >= abiMove {
		dir |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= abiTruncate {
		file |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	rules := unix.LandlockRulesetAttr{Handled_access_fs: file | dir | accessDevice}
	if abi >= abiIoctl {
		file |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
		rules.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= abiScope {
		rules.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	set, _, no := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), unsafe.Sizeof(rules), 0)
	if no != 0 {
		return fmt.Errorf("landlock: making a rule set: %w", no)
	}
	defer unix.Close(int(set))
	for _, fd := range writable {
		if err := allow(int(set), fd, file, dir); err != nil {
			return err
		}
	}
	places := convert[string](o.Writable)
	if !o.Probe {
		places = append(places, devices[:]...)
		if o.Mount && exists(shm) {
			places = append(places, shm)
		}
	}
	for _, p := range places {
		fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			rep.note("not writable: %s: %v", p, err)
			continue
		}
		err = allow(int(set), fd, file, dir)
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if _, _, no := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0); no != 0 {
		return fmt.Errorf("landlock: entering: %w", no)
	}
	if o.Probe {
		return denied()
	}
	return nil
}

// allow adds a rule for a descriptor. A directory gets the rights file and dir, anything else only the rights file.
func allow(set, fd int, file, dir uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("landlock: looking at what is writable: %w", err)
	}
	access := file
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		access |= dir
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	_, _, no := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if no != 0 {
		return fmt.Errorf("landlock: adding a rule: %w", no)
	}
	return nil
}

// denied checks that Landlock works: under a rule set without rules not even /dev/null may be opened for writing.
func denied() error {
	if fd, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		unix.Close(fd)
		return errors.New("landlock: it is said to be in force, and forbids nothing")
	}
	return nil
}

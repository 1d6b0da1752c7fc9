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

// victim is how much likelier than others the command is to be ended when memory runs out (of 1000): it, and not the
// supervisor.
const victim = "500"

// errOff is why something that was switched off is not used.
var errOff = errors.New("switched off")

// ways are the namespaces to try, the best first; the last one has none that may fail, unless there is to be no
// network. The notes say what is left out.
func (s *Spec) ways() (ways []proc.Namespaces, notes []string) {
	// With the capability there is no need for a user namespace, in which the files of others seem to belong to nobody.
	user := !has(unix.CAP_SYS_ADMIN)
	alone := s.Network == NoNetwork
	if slices.Contains(s.Without, UseMount) {
		notes = append(notes, fmt.Sprintf("no mount namespace: %v", errOff))
	} else {
		ways = append(ways, proc.Namespaces{User: user, Mount: true, Network: alone})
	}
	return append(ways, proc.Namespaces{User: user && alone, Network: alone}), notes
}

// keepOpen lets an exec close every descriptor above last.
func keepOpen(last int) {
	unix.CloseOnExec(orderFD)
	unix.CloseOnExec(reportFD)
	// The spawner process has already seen to all the others.
	_ = unix.CloseRange(uint(last+1), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
}

// confine is the part of prepare that only Linux has.
func (o *order) confine(rep *report) (kind string, err error) {
	// The kernel ends this process first when memory runs out. Where that may not be said nothing is lost.
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
	if !use {
		return "", nil
	}
	if err := o.restrict(rep, writable); err != nil {
		return broken, err
	}
	return "", nil
}

// bare notes what is not done without a mount namespace.
func (o *order) bare(rep *report) {
	for what, places := range map[string][]bytesOf{"can be written": o.Protected, "can be read": o.Hidden} {
		there := slices.DeleteFunc(convert[string](places), func(p string) bool { return !exists(p) })
		if len(there) > 0 {
			rep.note("%s: %s", what, strings.Join(there, ", "))
		}
	}
}

// keptCapabilities are what root has in a container, less the making of device nodes: to own, read and write files
// whatever their mode, to become other users, to listen on low ports. What could undo the confinement is not among
// them.
const keptCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_NET_RAW |
	1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_AUDIT_WRITE | 1<<unix.CAP_SETFCAP

// capabilities of this thread, as far as they are permitted.
func capabilities() (permitted uint64, err error) {
	var data [2]unix.CapUserData
	err = unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	return uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32, err
}

func has(capability int) bool {
	all, err := capabilities()
	return err == nil && all&(1<<capability) != 0
}

// dropCapabilities leaves root what is in keptCapabilities, and others nothing.
func dropCapabilities() error {
	keep := uint64(keptCapabilities)
	if os.Geteuid() != 0 {
		keep = 0
	}
	return keepCapabilities(keep)
}

// keepCapabilities drops all others for good, where there are any; the bounding set is only reduced with CAP_SETPCAP.
func keepCapabilities(keep uint64) error {
	now, err := capabilities()
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
				break // no more exist
			}
			if err != nil {
				return fmt.Errorf("dropping capability %d: %w", c, err)
			}
		}
	}
	// Before Linux 4.3 there are no ambient ones.
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	var data [2]unix.CapUserData
	data[0].Permitted, data[1].Permitted = uint32(keep), uint32(keep>>32)
	data[0].Effective, data[1].Effective = data[0].Permitted, data[1].Permitted
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return nil
}

// What Landlock can forbid, by the version that brought it.
const (
	// Of files: what writes. Reading and executing stay free, and are not mentioned at all.
	accessFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	accessDir  = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	accessDevice = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK // granted nowhere

	abiMove     = 2 // to another directory
	abiTruncate = 3
	abiIoctl    = 5
	abiScope    = 6 // signals, abstract sockets
)

// devices may be written wherever they lie.
var devices = [...]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// landlockABI is the version that the kernel has; an error says why it has none.
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

// gaps notes what an old version does not forbid.
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

// restrict forbids this thread, and what it becomes and starts, to write anywhere but below the given directories,
// o.Writable and devices.
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

// allow adds a rule: what is allowed for a file is all that is allowed for a descriptor that is no directory.
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

// denied tries it: with no rule at all not even this may be opened to be written.
func denied() error {
	if fd, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		unix.Close(fd)
		return errors.New("landlock: it is said to be in force, and forbids nothing")
	}
	return nil
}

package sandbox

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

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

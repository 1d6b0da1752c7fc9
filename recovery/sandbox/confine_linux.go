package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

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
	noUser := user && slices.Contains(s.Without, UseUserNS)
	switch {
	case slices.Contains(s.Without, UseMount):
		notes = append(notes, fmt.Sprintf("no mount namespace: %v", errOff))
	case noUser:
		notes = append(notes, fmt.Sprintf("no mount namespace: it needs a user namespace: %v", errOff))
	default:
		ways = append(ways, proc.Namespaces{User: user, Mount: true, Network: alone})
	}
	switch {
	case !alone:
		ways = append(ways, proc.Namespaces{})
	case noUser:
		notes = append(notes, fmt.Sprintf("no network namespace: it needs a user namespace: %v", errOff))
	default:
		ways = append(ways, proc.Namespaces{User: user, Network: true})
	}
	return ways, notes
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
	volunteer()
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
	rep.Level = levelOf(use, o.Mount)
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

// volunteer makes this process the one that the kernel ends when memory runs out. Where that may not be said nothing is
// lost.
func volunteer() {
	fd, err := unix.Open("/proc/self/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, []byte(victim))
	unix.Close(fd)
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

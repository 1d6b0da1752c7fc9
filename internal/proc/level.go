package proc

// Level names what keeps a tree of processes together, from the surest down. Each level includes the
// walk over the descendants of the one below it, except that PIDNamespace needs none.
type Level string

const (
	// PIDNamespace (Linux, needs CAP_SYS_ADMIN): the spawner process is PID 1 of a PID namespace with its own
	// /proc. One kill(-1) ends all at once, no fork chain escapes, and the kernel does it by itself when the
	// spawner process dies, whatever killed it. Mounts made inside stay inside.
	PIDNamespace Level = "pid_namespace"
	// Cgroup (Linux, needs a cgroup v2 that we may write): each tree gets a fresh cgroup, ended by
	// cgroup.kill. Atomic as well, but nothing acts by itself when supervisor and spawner process are killed at the
	// same moment; the next Start on that machine then ends the cgroup that was left.
	Cgroup Level = "cgroup"
	// Subreaper (Linux, always there): orphans are adopted by the spawner process; descendants are found in /proc
	// and killed again and again until none is left.
	Subreaper Level = "subreaper"
	// ProcessGroup (any Unix): only the process group of the command is killed. A process that made its
	// own session escapes.
	ProcessGroup Level = "process_group"
)

// Levels are all levels, the surest first.
func Levels() []Level { return []Level{PIDNamespace, Cgroup, Subreaper, ProcessGroup} }

// from returns the levels to try on this system, best first, none above l. An unknown or empty l means all.
func (l Level) from() []Level {
	all := ladder()
	for i, have := range all {
		if have == l {
			return all[i:]
		}
	}
	return all
}

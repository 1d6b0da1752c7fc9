// Package sandbox runs one approved command so that it can do its work in the repository and little else.
//
//	Run --> proc.Spawner --> superloop __exec (ShimMain) --> bash -c COMMAND
//	  |       forks it, holds      reads the order on          the same bytes
//	  |       and ends the tree    descriptor 3, confines      that were approved
//	  |                            itself, reports on 4
//	  +-- caps, redacts and keeps the output; Result says what really held
//
// The tree of processes is internal/proc's: one kill sequence for everything that superloop starts. The shim runs
// between fork and bash, in the process that bash will be. It only takes away. The order comes through a pipe and never
// stands on a command line or in an environment, where other users could read it.
//
// # What the command always gets
//
//   - exactly the environment in Spec.Env (see Environment): nothing inherited;
//   - /dev/null as standard input, no terminal, a session of its own;
//   - umask 077, and the resource limits in limits.go;
//   - no_new_privs: sudo and other setuid programs gain nothing;
//   - no capabilities for an ordinary user, and for root only those that a
//     container has (see keptCapabilities);
//   - no open descriptor but 0, 1 and 2;
//   - a working directory that is proven to be the one that was decided on,
//     inside the repository, by device and inode, after everything else that
//     could move it has been set up.
//
// # Levels
//
// What keeps it from writing elsewhere depends on the system. As to files, every
// level promises what the ones above it in this table do:
//
//	none            nothing keeps it from writing what its user may write
//	landlock        nothing is created, written, truncated (Linux 6.2), linked,
//	                renamed or removed outside of Spec.Writable and a few
//	                devices, by the command or by anything that it starts; no
//	                process outside can be signalled (Linux 6.12), traced, or
//	                asked for its memory or environment
//	mount           as to files the same, by read-only mounts; and Spec.Protected
//	                is read-only, also where it lies inside of something
//	                writable, and cannot be renamed away; and Spec.Hidden is
//	                empty
//	landlock+mount  what landlock promises, and Spec.Protected and Spec.Hidden as
//	                in mount
//
// No level promises that modes, owners and times outside stay what they are. They do at mount. At landlock+mount they
// do not: what is writable stays one mount with the rest, because package managers link from their caches into the
// repository.
//
// Reading is not restricted, except for Spec.Hidden. With a mount namespace disks and other devices cannot be opened,
// and /dev/shm is a private one. The level is not what the system should be capable of, it is what the shim did before
// it executed bash. What could not be had stands in Sandbox.Notes. Whoever needs a level says so in Spec.Required; then
// nothing runs below it. NoNetwork is never degraded.
//
// The tree's own level (Sandbox.Tree) is another matter, see proc.Level.
//
// # Agents
//
// Protect is for agents, which are trusted with more: they bring sandboxes of their own, and must not notice ours. It
// keeps them from the configuration and from what superloop knows, and from nothing else. There is no Landlock, under
// which bubblewrap does not start, and nothing else of what commands always get:
//
//	superloop --> superloop __exec, in a mount namespace of its own: makes some
//	    |         places read-only or empty, gives up its capabilities, and becomes
//	    |
//	    +--> superloop __spawn, which lives in there --> the agent's own argv
//
// The mounts are made once and serve every start of an agent or a test, which costs a fork and an exec as it does
// without protection. Before each start it is looked whether they still are what they would be if they were made now:
// by device and inode, whether the same files are at the places and at the directories above them; and by the kernel's
// own notice, whether any mount has come or gone. If not, all of it is made anew, with a new process. An inode that is
// mounted cannot be freed, so its number means the same file; and a mount goes only when its file is removed or
// replaced, which is noticed. The process that starts agents has no capability that they have not, so they cannot gain
// one from it; it is undumpable, so they cannot trace it either.
//
// An ordinary user needs a user namespace for that, in which the agent has no capability, and so cannot undo the
// mounts: sudo, su and containers without root do not work there, and the files of others seem to belong to nobody. For
// root no user namespace is made, because in one it could not listen on low ports; it goes without the capabilities by
// which the mounts could be undone, without disks, and with /sys read-only. In namespaces that an agent makes for
// itself the mounts are locked. As to root one way around is left: settings in /proc/sys. A mount on these would keep
// every sandbox from mounting a /proc of its own.
//
// What the places lie in can be neither renamed nor removed. Programs can link and
// rename between the places around; between something writable in a read-only
// place and the rest they cannot (EXDEV), which most take as a reason to copy.
//
// # What commands notice
//
// Temporary files go to TMPDIR, not to /tmp. sudo does not work. With .git/config protected, git config and what uses
// it (submodule init, push -u) fail. bwrap and rootless containers do not start under Landlock. In a user namespace,
// which an ordinary user needs for mounts, the files of others seem to belong to nobody; ssh refuses included
// configuration files for that reason. Spec.Protected and Spec.Without are there for an operator who needs one of
// these.
//
// # What it is not
//
// No wall for modes, owners and times outside, as said above. What is in a writable cache is read by other projects. A
// service that listens on a socket in the file system does what it is asked, unless it is in Spec.Hidden. The kernel's
// own holes.
//
// # Why no Landlock library
//
// The shim executes bash from the thread that it restricts, so the three system calls are enough; a library for
// programs that go on running has to reach all threads of the process and brings a dependency for that. It would also
// degrade by itself, and here each degradation has to be reported.
package sandbox

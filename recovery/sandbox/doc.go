// Package sandbox runs one approved command so that it can do its work in the repository and little else.
//
//	Run --> proc.Spawner --> superloop __exec (ShimMain) --> bash -c COMMAND
//	  |       forks it, holds      reads the order on          the same bytes
//	  |       and ends the tree    descriptor 3, confines      that were approved
//	  |                            itself, reports on 4
//	  +-- caps, redacts and keeps the output; Result says what really held
//
// The shim runs between fork and bash, in the process that becomes bash. It only takes away. Its order comes through a
// pipe: other users could read a command line or an environment.
//
// # What the command always gets
//
//   - exactly the environment in Spec.Env (see Environment), /dev/null as standard input, no terminal, its own session;
//   - umask 077, resource limits (see limit), no open descriptor but 0, 1 and 2;
//   - no_new_privs: sudo and other setuid programs gain nothing;
//   - no capabilities for an ordinary user, and for root only keptCapabilities;
//   - the working directory that was decided on, proven by device and inode after all else is set up.
//
// # Levels
//
// Each level promises for files what the ones above it in this table do:
//
//	none            nothing keeps it from writing what its user may write
//	landlock        nothing is created, written, truncated (Linux 6.2), linked, renamed or removed outside of
//	                Spec.Writable and a few devices, by the command or what it starts; no process outside can be
//	                signalled (Linux 6.12), traced, or asked for its memory or environment
//	mount           the same for files, by read-only mounts; Spec.Protected is read-only, also inside of something
//	                writable, and cannot be renamed away; Spec.Hidden is empty
//	landlock+mount  what landlock promises, and Spec.Protected and Spec.Hidden as in mount
//
// Modes, owners and times outside are only protected at mount. Reading is only restricted for Spec.Hidden. With a mount
// namespace, devices cannot be opened, and /dev/shm is private. The level is what the shim did before it executed bash;
// Sandbox.Notes says what was not available. Below Spec.Required nothing runs. NoNetwork is never degraded.
//
// # Agents
//
// Protect is for agents, which bring sandboxes of their own. It keeps them from the configuration and from superloop's
// private state, and from nothing else: no Landlock, under which bubblewrap does not start.
//
//	superloop --> superloop __exec, in its own mount namespace: makes places read-only or empty, drops capabilities,
//	    |         and becomes
//	    +--> superloop __spawn, which lives in there --> the agent's own argv
//
// The mounts are made once and serve every start. Before each start superloop compares the device and inode of the
// places, and of the directories above them, with those of before, and asks the kernel whether any mount has come or
// gone. If something differs, everything is made anew. The process that starts agents has no capability that they lack,
// and it is undumpable, so they cannot trace it.
//
// An ordinary user needs a user namespace for that. In it sudo, su and rootless containers do not work, and the files
// of others seem to belong to nobody. Root gets none, because it could not listen on low ports in one; instead it loses
// the capabilities that undo mounts, cannot open disks, and sees /sys read-only. For root /proc/sys stays writable: a
// mount there would keep every sandbox from mounting its own /proc.
//
// The directories above a place can be neither renamed nor removed. Linking and renaming between a writable place
// inside a read-only one and the rest fails with EXDEV.
//
// # What commands notice
//
// Temporary files go to TMPDIR. sudo does not work. With .git/config protected, git config, submodule init and push -u
// fail. bwrap and rootless containers do not start under Landlock. In a user namespace ssh refuses included
// configuration files, because their owner is nobody. Spec.Without leaves a mechanism out.
//
// # What it does not stop
//
// Other projects read what is in a writable cache. A service that listens on a socket in the file system does what it
// is asked, unless the socket is in Spec.Hidden. Holes in the kernel.
//
// There is no Landlock library because the shim restricts one thread with three system calls, and must report each
// degradation; a library would restrict all threads and degrade silently.
package sandbox

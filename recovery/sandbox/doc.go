// Package sandbox runs one approved command such that the command can work in the repository, and can change little
// else.
//
//	Run --> proc.Spawner --> superloop __exec (ShimMain) --> bash -c COMMAND
//	  |       forks it, holds      reads the order on          the same bytes
//	  |       and ends the tree    descriptor 3, confines      that were approved
//	  |                            itself, reports on 4
//	  +-- caps, redacts and keeps the output; Result says what confined it
//
// The shim runs between fork and exec, in the process that becomes bash. It only takes rights away. Its order comes
// through a pipe, because other users could read a command line or an environment.
//
// # What the command always gets
//
//   - exactly the environment in Spec.Env (see Environment), /dev/null as standard input, no terminal, its own session;
//   - umask 077, resource limits (see limit), no open descriptor but 0, 1 and 2;
//   - no_new_privs: sudo and other setuid programs gain nothing;
//   - no capabilities for an ordinary user, and for root only keptCapabilities;
//   - the working directory that was approved; the shim compares its device and inode after all else is set up.
//
// # Levels
//
// Each level keeps the promises of the levels above it in this table, as far as they concern files:
//
//	none            the command can write whatever its user may write
//	landlock        nothing is created, written, truncated (Linux 6.2), linked, renamed or removed outside of
//	                Spec.Writable and a few devices, by the command or what it starts; no process outside can be
//	                signalled (Linux 6.12), traced, or asked for its memory or environment
//	mount           the same for files, by read-only mounts; Spec.Protected is read-only, also inside of something
//	                writable, and cannot be renamed away; Spec.Hidden is empty
//	landlock+mount  what landlock promises, and Spec.Protected and Spec.Hidden as in mount
//
// Only mount protects modes, owners and times of files outside of Spec.Writable. Reading is restricted only for
// Spec.Hidden. In a mount namespace, devices cannot be opened and /dev/shm is private. The level states the mechanisms
// that the shim had applied when it executed bash. Sandbox.Notes says which mechanisms were not available. If the level
// is below Spec.Required, nothing runs. A command with NoNetwork never runs with a network instead.
//
// # Agents
//
// Protect is for agents, which bring sandboxes of their own. It keeps agents from changing the configuration and from
// superloop's private state, and from what Protection.Around adds: what steers other programs of the user, and the
// sockets of services (package steering), and from the ports of the wall. It restricts nothing else. It uses Landlock for
// TCP ports only, because bubblewrap does not start where Landlock handles files.
//
//	superloop --> superloop __exec, in its own mount namespace: makes places read-only or empty, drops capabilities,
//	    |         and becomes
//	    +--> superloop __spawn, in the same namespace --> the agent's own argv
//
// The mounts are made once and serve every start. Before each start superloop compares device and inode of the
// protected places, and of the directories above them, with those at the time of the mounts. It also asks the kernel
// whether any mount was added or removed. If anything differs, superloop makes all mounts anew. The process that starts
// agents has no capability that agents lack. It is undumpable, so agents cannot trace it.
//
// An ordinary user needs a user namespace for these mounts. In a user namespace sudo, su and rootless containers do not
// work, and the files of other users seem to belong to nobody. For root superloop makes no user namespace, because root
// could not listen on low ports in it. Instead root loses the capabilities that could undo the mounts, cannot open
// disks, and sees /sys read-only. /proc/sys stays writable for root: a mount there would prevent every sandbox from
// mounting its own /proc.
//
// A symbolic link becomes a mount of itself, so it can be neither renamed nor removed. What it leads to is covered by
// itself. A link that leads nowhere keeps a missing name free: no file can be made through it, nor in its place.
//
// The directories above a protected place can be neither renamed nor removed. Linking and renaming files between a
// writable place inside of a read-only one and other directories fails with EXDEV.
//
// # The wall
//
// Protection.Ports and Spec.Ports are TCP ports that agents and commands can neither connect to nor listen on, on any
// address, while all other ports are as before. See wall and filter_linux.go:
//
//   - Landlock handles connect and bind of TCP sockets, with a rule for each other port (and for port 0, so the kernel
//     can still choose one of the daemon's ports if they lie in its range; a note says so);
//   - a seccomp filter refuses what Landlock does not look at: sockets of protocols over which the kernel reaches a TCP
//     port (MPTCP, SMC; SCTP with them), TCP_ULP (which can make an SMC socket of a TCP socket), data that is sent with
//     the connect (MSG_FASTOPEN, TCP_FASTOPEN_CONNECT), io_uring, socketcall of 32 bits, and ABIs that it does not know;
//   - root loses CAP_NET_ADMIN and CAP_NET_RAW, with which packets are redirected, read and forged.
//
// The wall stands around the process that starts agents, so it is built once for all starts. A process in a network
// namespace of its own has another loopback device. Whatever the agents start is inside, also what bubblewrap starts.
// Without Landlock version 4, seccomp, or a filter for the architecture there is no wall: a note says so, and agents
// start all the same. If it stood once, agents do not start without it. TryWall measures whether it holds.
//
// # What commands notice
//
// Temporary files go to TMPDIR. sudo does not work. With .git/config protected, git config, submodule init and push -u
// fail. bwrap and rootless containers do not start under Landlock. In a user namespace ssh refuses included
// configuration files, because their owner is nobody. Spec.Without leaves a mechanism out.
//
// # What it does not stop
//
// A command can write into a cache, and other projects read this cache. A service with a socket in the file system does
// what the command asks, unless the socket is in Spec.Hidden. A service that forwards connections reaches the ports of the
// wall. The sandbox does not stop attacks on the kernel.
//
// The package uses no Landlock library, because the shim restricts one thread with three system calls and must report
// each missing mechanism. A library would restrict all threads and hide what is missing.
package sandbox

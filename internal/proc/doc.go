// Package proc runs one tree of processes to its end: every process that a command starts, directly or through forks,
// new sessions and background jobs, is gone when Run returns, and gone too when the supervisor itself is killed.
//
// # Who starts what
//
// A Spawner keeps one long-lived child, the spawner process (our own binary, started again with SpawnerArg). It forks
// each command, is its parent, adopts every orphan of the tree, and reaps them all:
//
//	supervisor ---- control socket (requests with file descriptors, events) ---- spawner process
//	    |                                                                             | fork, wait4(-1)
//	    +---- reads the pipes of stdout and stderr <---- command and its tree <-------+
//
// The supervisor never calls wait4(-1), so os/exec stays safe to use there. The spawner process never uses os/exec, so
// it may reap whatever it finds. As everything in the tree descends from it, "wait4 says ECHILD" proves that nothing is
// left.
//
// A second Spawner can live in mounts that another program has prepared: see Inside.
//
// # The supervisor dies, everything dies
//
// When the supervisor goes, for any reason, the spawner process reads end of file on the control socket, kills the tree
// and exits. PR_SET_PDEATHSIG is not used: it fires when the parent's thread ends, and the Go runtime ends threads as
// it likes. When the spawner process goes, Run returns ErrSpawnerLost, after ending what can still be found of the tree
// (see Spec.Marker), and the next Run starts a new one.
//
// # What holds a tree together
//
// See Level. A user namespace would give an ordinary user a PID namespace as well. It is not used: inside one, sudo,
// su, ping, rootless podman, fuse mounts and file ownership no longer work as the user knows them.
package proc

// Package preflight looks at the machine and the repository before a role is given work, and keeps what package
// failures decides with.
//
// Check makes the checks of failures.Preventions: paths, rights, free space, ports, tools, logins, limits, and whether
// what is installed is what a lock file says. Collect takes a snapshot of the environment; failures.Compare says what
// has changed since an earlier one. Looking only reads, starts no process, and is bounded.
//
// Store keeps a value of package failures in a private file. Decisions are made in package failures, which does no I/O,
// so that a machine that only decides does not need this package.
package preflight

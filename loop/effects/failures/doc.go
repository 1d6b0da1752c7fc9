// Package failures performs what the machine asks for when something has failed: it finds out what, why, and whether
// what was installed against it works. It also makes the environment checks before a role.
package failures

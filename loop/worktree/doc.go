// Package worktree tells facts about a git work tree, and commits in it.
//
// It calls git (2.30 or newer) for what only git knows and reads files itself
// for the rest. Everything under a directory named .superloop is left out of
// every answer: superloop writes there while the loop runs.
//
// A Snapshot says what is in the tree, whatever of it is committed, staged or
// untracked: the same files give the same snapshot before and after a commit,
// so that a loop can tell an agent that works from one that only commits.
//
// Commit commits the work of one iteration and nothing else. It uses git's own
// partial commit, so that what a person had staged or changed stays as it was,
// hooks run as they always do, and the index and HEAD are never out of step,
// wherever the machine stops.
package worktree

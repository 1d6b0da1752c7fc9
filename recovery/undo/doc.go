// Package undo keeps what a recovery is going to delete or overwrite inside the repository, and puts it back.
//
//	Plan ----> Store.Keep ----> (the command runs) ----> Store.Seal ----> Store.Restore
//	words      a whole set,                              what it left     only what it changed,
//	-> paths   or nothing                                behind           nothing that changed since
//
// # What is kept
//
//   - Tracked files: a commit of the work tree as it is, under refs/superloop/undo/<id>. Neither the operator's index nor the
//     work tree is touched; the commit is made from the files' bytes, without filters or hooks. If none differs from HEAD
//     it is HEAD's commit. What git was told to take for unchanged (assume-unchanged, skip-worktree) is not seen, unless
//     the command names it.
//   - Single files that the command names or overwrites (a lock file): by copy.
//   - Trees that it deletes or rebuilds (node_modules, dist, .venv), and big files: below the private directory, by reflink
//     where the file system can, so that no room is needed. Where it cannot, by hard link, but only a tree that the command
//     deletes: a hard link is the same file, so a program that writes into it would write into what was kept. Else by copy,
//     if it is small.
//   - Of a command that nobody here knows: besides tracked files those that are untracked and not ignored, by copy.
//
// What is over a cap, cannot be read, lies behind a link or on another file system is not kept, and is named in
// Kept.NotKept: an operator sees before the command runs what could not be taken back.
//
// # What is put back
//
// Seal records what the command left behind. Restore then changes only what the command changed, and only where it
// still is as the command left it. What has changed since then is a conflict: it is reported and stays, or with Force
// is moved beside, to a name ending in .superloop-undo-conflict, and what was kept takes its place. Nothing is ever
// thrown away but what the command made itself. What the command created where nothing was stays, and is reported. The
// index, HEAD and branches are not restored.
//
// # Crashes
//
// A set begins with a mark and is one once its manifest is renamed into its place. Killed before that there is none,
// and the next Keep or Prune sweeps what is left of it; killed after it, it is whole. Restore is judged from what is
// there, so calling it again goes on where it was killed: trees are copied beside their place and renamed into it. A
// set survives a kill. A power cut may take one that was made just before, or the content of a tree, which Restore then
// finds damaged and refuses; what is written into git is flushed.
//
// # Programs
//
// Trees are copied by cp, removed by rm, links are made by ln; the rest is git and durable.Disk. Paths are opened
// directory by directory without following links, and the programs are started in the directory that was opened, so no
// link that is planted meanwhile leads out of the repository.
package undo

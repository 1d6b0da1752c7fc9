// Package inputs says whether the files that a listed command reads are what they were when its listing was trusted.
// "npm install" is a name; what it does stands in package.json, .npmrc and the lock file, which an agent may write.
//
//	Take ---> Baseline (a private file)          Open ---> the work tree, now
//	              |                                            |
//	              +---- Inputs(tree, query) ----+---- Inputs(tree, query)
//	                                            |
//	                                  Compare: []Change -> an operator
//
// Inputs is one function over both: from the words of a command it finds the files that count, and of each file the
// part that counts. A new dependency in package.json is no input, a new postinstall script is one. Check does the two
// calls and the comparison in one.
//
// # What counts
//
// The table is in table.go. For every program it names the files, the directories where they are looked for (the
// working directory, those above it up to the repository, the members of a workspace) and how a file is read. A program
// or script of the repository that the command names is an input, whole; so are the scripts that a shell script, a
// makefile or a script of package.json names in turn, as far as their words are written out.
//
// In doubt a thing is an input: a file that cannot be parsed counts whole, what is not in the baseline counts as new,
// and what exceeds a bound is a change by itself. Nothing here executes anything of the repository, and no file outside
// of it is opened: a link that leads out counts as its target's name.
//
// # Bounds
//
// Of one query: 50,000 directory entries, 64 MiB of content, 2,000 members, 4,000 inputs, 5,000 commands in scripts,
// 500 of one, 4 scripts deep; a file of more than 16 MiB counts whole by its digest, one of more than 256 MiB cannot be
// watched and is a change. Directories named node_modules, .git and .superloop are not searched.
//
// # What it does not see
//
// Source code. A compiler, a test runner or a script in JavaScript or Python reads more files than can be named
// beforehand: only the named script is an input, not what it imports. Installed code (node_modules, what npx finds
// there) is not watched either, unless the command itself names the file. What bounds the damage is the sandbox that
// the command runs in, not this package.
package inputs

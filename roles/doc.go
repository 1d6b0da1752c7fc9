// Package roles knows the four roles of an iteration: what each is told, what each must leave behind, and how its last
// word is read.
//
// Render makes the prompt of one role as a pure function of its Input; Load finds the role's own part (embedded, or the
// owner's file) and Gather looks up the files that a prompt may point to. StampOf and Check tell whether a role wrote
// its report in its turn. ChooseLastMessage and ParseCommit read what it said at the end.
//
// The package reads files and never writes one. Everything that it reads may have been written by an agent, so it
// follows no symbolic link of an agent's making, reads no more than a stated bound, and fences what it quotes.
package roles

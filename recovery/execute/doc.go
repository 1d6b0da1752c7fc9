// Package execute is the one way from an action to a process and its outcome.
//
//	Judge ---> (a question, a wait, a crash) ---> Execute
//	verdict                                      keep for undo
//	and what it                                  judge again: is all as it was approved?
//	stands on                                    intent, on the disk
//	                                             run in the sandbox
//	                                             seal the undo set, learn
//
// Three rules hold it together:
//
//   - The strictest of the policies in force decides, and the tightest of their
//     bounds holds: tightening a policy counts at once.
//   - An approval is for what was judged. Execute judges again right before the start and begins nothing if the working
//     directory, the policy or what the command reads is another one.
//   - Nothing is begun before Order.Intend has put the intent on the disk, so
//     after a crash the caller knows what may have run.
//
// The package decides nothing about what follows: the caller turns an Outcome into an event, a question or the next
// option.
package execute

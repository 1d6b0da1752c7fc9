// Package escalation is one question to an operator, and its one answer.
//
// A loop that may not go on by itself opens a question (Store.Open). It is a record in a private directory of the loop,
// where an agent has no business; escalation.json in the repository (View), what a terminal shows (Describe) and what a
// notifier sends are views of it and are never read back. Whoever answers (Store.Answer), through whatever channel and
// in whatever process, answers the record, once:
//
//	          approve          Begin            Finish
//	pending ----------> approved -----> executing -----> done, failed
//	 |   |                 |                |
//	 |   | reject          | Open,          | Interrupt: the supervisor died;
//	 |   | resolve         | Expire,        | it is never run again, a new
//	 |   v                 | Withdraw       v question is asked
//	 |  rejected,          v            interrupted
//	 |  resolved      superseded, expired
//	 +---------------> superseded, expired
//
// Every change reads the record, compares and replaces it under a lock that all processes respect, and is on the disk
// (file and directory flushed) before it counts. After a kill at any step the record is the old one or the new one. So
// of any number of answers one wins, and an approval is begun once.
//
// A question has a digest over everything that an answer is bound to: the exact bytes of the command, where and for how
// long it runs, the policy and the inputs it was judged by, the question's random id. An answer may name the id, the
// digest or both, and then never counts for another question. A newer question supersedes the older one; at most one is
// pending in a loop.
//
// An approved command is what Record.Run gives: the proposed bytes, or those that the operator put in their place.
package escalation

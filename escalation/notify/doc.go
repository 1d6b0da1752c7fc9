// Package notify sends messages, through channels that people chose, that a loop waits for them, and what became of it.
//
//	Enqueue --> one file for each message and channel --> a lane for each channel --> Notifier.Send
//	  (returns when the files are on the disk)             (retries, backs off, records)
//
// An Outbox delivers at least once, and never again after a success was recorded: the file of a delivered message
// stays, without its text, so that a supervisor that was killed and enqueues the same message once more does not send
// it twice. Only a kill between the other side's "ok" and our record of it makes a second message, and that one carries
// the same id.
//
// Nothing here decides anything. All strings of a Message may be written by an agent that wants to deceive its reader,
// so every channel shows them through Visible, and escapes them for where they go. Webhook URLs, signing secrets and
// command lines are secrets: no error, reason or event holds any part of them but the host.
package notify

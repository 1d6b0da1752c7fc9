// Package agent runs one agent CLI headless, for one turn of one role, and says what it learned: the last message and
// where it came from, the session, usage and cost where the CLI tells them, how the process ended, and the line that
// the agent said last, for whoever is watching.
//
// An Adapter is what superloop knows about one CLI: its command line and its output. Adapters lists them; a new one is
// one file and one entry there. "generic" takes any command at all and adds nothing to it.
//
// An exit code is not a verdict, and neither is a last message: several CLIs end with 0 after a failure, and an agent
// may claim what is not so. Run reports; whoever calls it judges, and the gates have the last word.
package agent

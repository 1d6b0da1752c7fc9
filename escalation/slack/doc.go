// Package slack shows escalations in Slack, and takes answers from there.
//
// The first level needs an incoming webhook and nothing else: Build makes the blocks, Webhook posts them. The message
// has the command, the reason and the lines to paste into a terminal. A webhook cannot change a message later, and a
// click never comes back through it.
//
// The second level needs an app of the workspace: buttons, whose clicks arrive through Socket Mode (Socket) or at a
// public address (NewHandler). Both hand them to one Clicks, which asks whether the user may answer, calls the
// Resolver, and tells the user what came of it. A click says yes to a digest, not to what stands in the message: an old
// message cannot approve a new command.
//
// All text of a Message may be hostile. It stands in code blocks only, with & < > escaped and everything hidden made
// visible, and Slack is told not to look for links in it and not to fetch any. Webhook URLs, response URLs, tokens and
// signing secrets are in no error and no event.
package slack

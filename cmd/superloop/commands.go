package main

import "github.com/urfave/cli/v2"

// commands are the verbs, in the order in which help lists them: one file each.
func (a *app) commands() []*cli.Command {
	return append([]*cli.Command{
		a.initCommand(),
		a.demoCommand(),
		a.runCommand(),
		a.statusCommand(),
		a.listCommand(),
		a.eventsCommand(),
		a.logsCommand(),
		a.statsCommand(),
		a.runnersCommand(),
		a.validateCommand(),
		a.policyCommand(),
		a.classifyCommand(),
		a.fixCommand(),
		a.chainCommand(),
		a.verifyCommand(),
		a.configCommand(),
		a.doctorCommand(),
		a.approveRecoveryCommand(),
		a.rejectRecoveryCommand(),
		a.resolveRecoveryCommand(),
		a.inboxCommand(),
		a.notifyCommand(),
		a.undoCommand(),
		a.approveCommand(),
		a.kickCommand(),
		a.cancelCommand(),
		a.completionCommand(),
		a.versionCommand(),
		a.agentCommand(),
		a.completeCommand(),
	}, a.doctorAliases()...)
}

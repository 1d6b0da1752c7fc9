package loop

import (
	"fmt"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// Move is what an operator can do about a loop now.
type Move string

// The moves. Check accepts the decision of each that is a decision.
const (
	MoveNone     Move = ""          // nothing: the loop goes on by itself
	MoveTake     Move = "take"      // the loop is completed: look at the work and take it
	MoveRun      Move = "run"       // start a supervisor
	MoveWait     Move = "wait"      // nothing: the wait ends by itself; DecideRetryNow ends it now
	MoveCommand  Move = "command"   // answer the question about the command of a recovery
	MoveQuestion Move = "question"  // answer a question that has no command
	MoveApprove  Move = "approve"   // answer the question whether the loop is completed
	MoveRetryNow Move = "retry_now" // repair the runner as HumanState.Fix says, then DecideRetryNow
)

// Circumstances are what a View does not hold and Next has to know.
type Circumstances struct {
	Supervised bool // a supervisor runs the loop
	Open       bool // the question that the View names is on the disk and has no answer yet
	Decided    bool // a decision of an operator is on the disk and has not been taken up yet
}

// Next returns what an operator can do now, so that the loop goes on. The result is never a move that the loop refuses.
// A question that is not open cannot be answered: the supervisor that was to open it has ended, or opens it at this
// moment.
func (v View) Next(c Circumstances) Move {
	switch {
	case v.Status == Completed:
		return MoveTake
	case c.Decided || v.Human != nil && !c.Open:
		return unsupervised(c)
	case v.Human == nil && v.Status == RateLimited && c.Supervised:
		return MoveWait
	case v.Human == nil:
		return unsupervised(c)
	case v.Human.About == AboutCompletion:
		return MoveApprove
	case v.Human.About == AboutRecovery:
		return MoveCommand
	case v.Human.Type != EscalationRunner:
		return MoveQuestion
	case c.Supervised:
		return MoveRetryNow
	}
	return MoveRun // the next supervisor tries the runner again
}

func unsupervised(c Circumstances) Move {
	if c.Supervised {
		return MoveNone
	}
	return MoveRun
}

// Typing is where the command of a move is typed.
type Typing struct {
	Repo   string // the root of the repository as whoever types can name it, or "" for their directory
	Config string // the path of the configuration
	By     string // whose decision or answer the next run takes up, or ""
	Branch string // the branch of a loop with a work tree of its own, or ""
}

// Command says a move as the command to type now, with what else there is to know in brackets behind it. It is "" if
// there is nothing to type.
func (m Move) Command(v View, where Typing) string {
	flags := " --loop " + v.LoopID
	if where.Repo != "" {
		flags = " --repo " + text.Paste(where.Repo) + flags
	}
	run, fix := "superloop run"+flags, ""
	if h := v.Human; h != nil && h.Fix != "" && h.Type == EscalationRunner {
		fix = text.Display(h.Fix) + ", then: "
	}
	switch m {
	case MoveNone:
		return ""
	case MoveTake:
		if where.Branch != "" {
			return fmt.Sprintf("superloop merge%[1]s   (takes the branch %[2]s; or superloop pr%[1]s, superloop diff%[1]s)", flags, where.Branch)
		}
		return fmt.Sprintf("superloop diff%[1]s   (superloop run --fresh%[1]s starts it anew)", flags)
	case MoveWait:
		return fmt.Sprintf("nothing, it goes on by itself   (superloop kick%s tries again now)", flags)
	case MoveCommand:
		return fmt.Sprintf("superloop approve-recovery%s   (or reject-recovery, or resolve-recovery when you have mended it)", flags)
	case MoveQuestion:
		return fmt.Sprintf("superloop resolve-recovery%s --note TEXT   (when you have mended it; superloop inbox shows what was tried and what is known)", flags)
	case MoveApprove:
		return fmt.Sprintf("superloop approve%s --note TEXT   (or --reject)", flags)
	case MoveRetryNow:
		return fix + "superloop kick" + flags
	}
	switch {
	case where.By != "":
		return run + "   (takes up " + where.By + ")"
	case v.Status == LimitReached:
		return limit(v, run, flags, where.Config)
	case v.Status == StuckEnd:
		report := ".superloop/loops/" + v.LoopID + "/stuck-report.md"
		if where.Repo != "" {
			report = text.Paste(where.Repo + "/" + report)
		}
		return fmt.Sprintf("read %s, then: %s", report, run)
	case v.Status == Failed && v.Reason == ReasonRefused:
		return run // an operator has ended it, and knows why
	case v.Status == Failed && (v.Reason == ReasonNotStarted || v.Reason == ReasonMisconfigured):
		doctor := "superloop doctor"
		if where.Repo != "" {
			doctor += " --repo " + text.Paste(where.Repo)
		}
		return fmt.Sprintf("%s, then: %s", doctor, run)
	case v.Status == Failed:
		role, ok := strings.CutPrefix(v.At, "role:")
		if !ok {
			role = "reviewer" // the reviewer's log explains a failure of any other step
		}
		return fmt.Sprintf("superloop logs%s --role %s, then: %s", flags, role, run)
	}
	return fix + run
}

// limit says how the run goes on that a limit has ended.
func limit(v View, run, flags, config string) string {
	switch v.Reason {
	case ReasonCostUnknown:
		return fmt.Sprintf("put the price into prices in %s, or take the bound away, and type: %s", config, run)
	case ReasonMaxCost, ReasonMaxTokens:
		return fmt.Sprintf("raise %s in %s and type: %s   (superloop stats%s tells where it went)", v.Reason, config, run, flags)
	}
	return fmt.Sprintf("raise %s in %s and type: %s", v.Reason, config, run)
}

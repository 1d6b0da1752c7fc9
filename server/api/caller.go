package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/access"
	"github.com/superloop/superloop/server/passkey"
	"github.com/superloop/superloop/server/signed"
)

// caller is who sends one request.
type caller struct {
	peer                         // over the socket
	tcp           bool           // over TCP; the peer is not known then
	local, remote netip.AddrPort // the two ends of a TCP connection
	pids          []int          // the processes that hold the connection, of a request that changes something
	cred          access.Credential
	unknown       string         // why it is not known which process sends it, "" if it is known
	request       access.Request // what a confirmation of it is bound to
	shown         string         // the request for people, as it came
	code          string         // of Superloop-Confirm; emptied when it is spent
	party         passkey.Party  // the page at which the request is sent; none has no ID
	confirmed     string         // what a person has confirmed of this request
	confirmedBy   string         // and with what
	challenged    bool           // a confirmation was asked for
	claim         *signed.Claim  // what a gateway has signed of it
	over          *api           // of a gateway
}

type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// The reasons for which the process that holds a connection is not known.
var (
	errNoOwner    = errors.New("no process that shows its files holds the connection")
	errCannotTell = errors.New("this system does not tell which process holds a connection")
)

// by describes the caller for the record of an answer.
func (c *caller) by() escalation.By {
	uid := c.UID
	if c.claim != nil {
		return escalation.By{Channel: escalation.CLI, User: c.claim.User, Method: "gateway"}
	}
	if !c.tcp {
		return escalation.By{Channel: escalation.CLI, UID: &uid, User: c.User, Method: "socket"}
	}
	by := escalation.By{Channel: escalation.CLI, User: c.cred.By, Method: "session"}
	if c.cred.Kind == access.Token {
		by.User, by.Method = fmt.Sprintf("%s by token %s", c.cred.By, c.cred.Name), "token"
	}
	return by
}

// operator returns who has asked for a change. The guard has refused agents before. A caller that no guard has seen is
// refused.
func (a *api) operator(ctx context.Context) (escalation.By, error) {
	if c := callerOf(ctx); c != nil {
		return c.by(), nil
	}
	return escalation.By{}, problem(http.StatusForbidden, "forbidden-agent", "nobody knows who asks")
}

// personal refuses what descends from an agent, and notes if that cannot be told.
func (c *caller) personal(procfs string) *Problem {
	if !c.tcp {
		c.pids = []int{c.PID}
		if _, err := escalation.CheckProcess(procfs, c.PID); err != nil {
			return problemOf(http.StatusForbidden, "forbidden-agent", err.Error())
		}
		return nil
	}
	pids, uid, err := client(procfs, c.local, c.remote)
	c.pids, c.UID = pids, uid
	if uid > 0 && uid != os.Getuid() {
		return problemOf(http.StatusForbidden, "other-user", fmt.Sprintf("the process belongs to the user with uid %d", uid))
	}
	if err != nil {
		c.unknown = err.Error()
		return nil
	}
	c.pids = nil
	for _, pid := range pids {
		_, err := escalation.CheckProcess(procfs, pid)
		if err != nil && c.dropped(procfs, pid) {
			continue
		}
		c.pids = append(c.pids, pid)
		switch {
		case errors.As(err, new(*escalation.AgentError)):
			return problemOf(http.StatusForbidden, "forbidden-agent", err.Error())
		case err != nil:
			c.unknown = err.Error()
		}
	}
	if len(c.pids) == 0 {
		c.unknown = errNoOwner.Error()
	}
	return nil
}

// dropped says whether others hold the TCP connection, and the process does not any more. A process that starts a program has
// a child that holds all its files until the program begins. The child can be found as a holder, and what is then read of it
// is the program's: an agent's, or that it has ended.
func (c *caller) dropped(procfs string, pid int) bool {
	pids, _, err := client(procfs, c.local, c.remote)
	return err == nil && !slices.Contains(pids, pid)
}

// Asker is the person or program for whom Options.Over answers a request, when it has passed every check.
type Asker struct {
	User string // for the records of a machine
	c    *caller
	a    *api
}

// AskerOf returns who has sent a request.
func AskerOf(r *http.Request) (Asker, bool) {
	c := callerOf(r.Context())
	if c == nil || c.over == nil {
		return Asker{}, false
	}
	return Asker{c.by().User, c, c.over}, true
}

// Touch says that a session is in use whose page is only looked at.
func (k Asker) Touch() {
	if k.c.cred.Name != "" {
		k.a.desk.Touch(k.c.cred.ID(), false)
	}
}

// Confirm is stepUp for Options.Over: what is what a machine wants a person to confirm. by says how they did.
func (k Asker) Confirm(what string) (by string, p *Problem) {
	if p := k.a.confirm(k.c, what, byAny); p != nil {
		return "", p
	}
	if !k.c.tcp {
		return "process", nil
	}
	return k.c.confirmedBy, nil
}

// stepUp asks for a person's confirmation, on a terminal or with a passkey, for a request that one stolen token must not be enough for: to
// remember a command, edit one, undo, or let run by itself what asked before. A route calls it when it knows what would be
// done and before it does anything:
//
//	if err := a.stepUp(ctx, "run this command from now on without asking: "+command); err != nil {
//		return nil, err
//	}
//
// what is shown to the person, as plain text behind the request; it says what is done and to what. It must be the same
// when the request is repeated. The error is a problem of type step-up-required with the id of a challenge; superloop
// confirm shows it and gives a code, with which the client repeats the request (Superloop-Confirm). A passkey that signs the
// challenge gives a code, too (POST /api/v1/confirmations/{id}/passkey). Over the socket the
// process was checked as that of a verb is, and stepUp allows.
func (a *api) stepUp(ctx context.Context, what string) error { return a.stepUpBy(ctx, what, byAny) }

// How exactly a confirmation has to be of what is done, and what it has to be given with.
type strictness int

const (
	bySome     strictness = iota // of anything that this same request does
	byAny                        // of this
	byTerminal                   // of this, and not with a passkey
)

func (a *api) stepUpBy(ctx context.Context, what string, need strictness) error {
	c := callerOf(ctx)
	if c == nil {
		return problem(http.StatusForbidden, "forbidden-agent", "nobody knows who asks")
	}
	if p := a.confirm(c, what, need); p != nil {
		return p
	}
	return nil
}

// confirm is stepUpBy for the guard.
func (a *api) confirm(c *caller, what string, need strictness) *Problem {
	what = text.Cut(what, 2000)
	if c.claim != nil && c.claim.Confirmed != what {
		p := problemOf(http.StatusForbidden, "step-up-required", "a person has to confirm this at the gateway of the fleet")
		p.What = what
		return p
	}
	if !c.tcp {
		return nil
	}
	verb := "superloop confirm"
	if a.o.Over != nil {
		verb = "XDG_STATE_HOME=" + text.Paste(filepath.Dir(a.o.State)) + " " + verb
	}
	detail := "a person has to confirm this on a terminal: " + verb + "; repeat the request with Superloop-Confirm: CODE"
	if c.code != "" {
		o, err := a.confirms.Redeem(c.request, c.code)
		c.code = ""
		if err != nil {
			detail = err.Error() + "; " + detail
		} else {
			c.confirmed, c.confirmedBy = o.What, o.ConfirmedBy()
			a.desk.Touch(c.cred.ID(), true)
		}
	}
	if c.confirmed != "" && (need == bySome || c.confirmed == what) && (need != byTerminal || c.confirmedBy == access.OnTerminal) {
		return nil
	}
	who := c.by().User
	if c.unknown != "" {
		who += ", from an unknown process of " + c.remote.String()
	}
	// What the route has asked for before says more than the guard can, and is enough for it.
	o, ok := access.Challenge{}, false
	if need == bySome {
		o, ok = a.confirms.Some(c.request)
	}
	if !ok {
		o = a.confirms.Ask(c.request, what, who, c.shown, need == byTerminal)
	}
	p := problemOf(http.StatusForbidden, "step-up-required", detail)
	p.Challenge, p.What, p.Next = o.ID, o.What, verb
	if sign := o.Sign(); sign != nil && c.party.ID != "" && c.cred.Kind == access.Session && a.passkeys != nil {
		p.Passkey = a.passkeys.Ask(c.party, sign, access.ConfirmLife)
	}
	c.challenged = true
	return p
}

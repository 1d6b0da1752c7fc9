package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/superloop/superloop/server/access"
	"github.com/superloop/superloop/server/passkey"
)

// Problem is an answer about what cannot be done, RFC 9457.
type Problem struct {
	huma.ErrorModel
	// ExitCode is that of the verb which does the same (docs/reference.md).
	ExitCode int `json:"exit_code" doc:"what the verb of superloop that does the same exits with"`
	// Next is the command to type next, if there is one.
	Next string `json:"next,omitempty" doc:"the command to type next"`
	// Challenge names what superloop confirm asks about, if the type is step-up-required, and What says it in words. With
	// Passkey a passkey may confirm it, too.
	Challenge string           `json:"challenge,omitempty" doc:"the id of what has to be confirmed on a terminal (superloop confirm)"`
	What      string           `json:"what,omitempty" doc:"what has to be confirmed"`
	Passkey   *passkey.Request `json:"passkey,omitempty" doc:"what to ask a browser for, so that a passkey confirms it"`
}

// typePrefix begins the types of problems.
const typePrefix = "urn:superloop:"

// problem is an answer about what cannot be done. kind is the last part of its type.
func problem(status int, kind, format string, args ...any) error {
	return problemOf(status, kind, fmt.Sprintf(format, args...))
}

func problemOf(status int, kind, detail string) *Problem {
	return &Problem{ErrorModel: huma.ErrorModel{Type: typePrefix + kind, Status: status, Title: http.StatusText(status), Detail: detail}, ExitCode: exitCode(status, kind)}
}

// exitCodes are the codes of kinds whose status does not say it.
var exitCodes = map[string]int{
	"not-waiting": 4, "already-decided": 4, "stale-digest": 4, "running": 4, "completed": 4, "not-running": 4, "not-run-yet": 4,
	"configuration": 3, "held": 7, "expired": 4, "not-found": 6, "no-such-loop": 6, "unusable": 1, "unreadable-journal": 1, "refused": 1,
	"idempotency-mismatch": 2, "idempotency-shown-once": 1, "idempotency-interrupted": 1,
}

// exitCode returns what the command line exits with in such a case.
func exitCode(status int, kind string) int {
	code, known := exitCodes[kind]
	switch {
	case known:
		return code
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return 5
	case status == http.StatusNotFound:
		return 6
	case status == http.StatusConflict:
		return 4
	case status < http.StatusInternalServerError:
		return 2
	}
	return 1
}

// kinds are the types of the problems that the library finds by itself.
var kinds = map[int]string{http.StatusBadRequest: "bad-request", http.StatusNotFound: "no-such-route", http.StatusMethodNotAllowed: "no-such-route",
	http.StatusRequestTimeout: "slow", http.StatusRequestEntityTooLarge: "too-large", http.StatusUnsupportedMediaType: "media-type",
	http.StatusUnprocessableEntity: "invalid", http.StatusNotAcceptable: "not-acceptable", http.StatusInternalServerError: "failed"}

// typed gives a problem that the library has found a type and an exit code.
func typed(_ huma.Context, _ string, v any) (any, error) {
	if e, ok := v.(*huma.ErrorModel); ok {
		p := problemOf(e.Status, cmp.Or(kinds[e.Status], "refused"), e.Detail)
		p.Errors = e.Errors
		return p, nil
	}
	return v, nil
}

// writeProblem answers a request with a problem.
func writeProblem(w http.ResponseWriter, p *Problem) {
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client has gone
}

// Refuse answers a request with a problem, for Options.Over. kind is the last part of its type.
func Refuse(w http.ResponseWriter, status int, kind, detail string) {
	writeProblem(w, problemOf(status, kind, detail))
}

// Answer answers a request with a problem, for Options.Over.
func (p *Problem) Answer(w http.ResponseWriter) { writeProblem(w, p) }

// Kind reports whether kind is the last part of its type.
func (p *Problem) Kind(kind string) bool { return p.Type == typePrefix+kind }

// ofAccess turns an error of the packages access and passkey into a problem.
func ofAccess(err error) error {
	_, value := errors.AsType[*access.ValueError](err)
	_, refusal := errors.AsType[*passkey.Refusal](err)
	for _, e := range []struct {
		is     bool
		status int
		kind   string
	}{
		{errors.Is(err, access.ErrUnknown), http.StatusUnauthorized, "unauthorized"},
		{errors.Is(err, access.ErrCode), http.StatusForbidden, "bad-code"},
		{errors.Is(err, access.ErrConfirm), http.StatusForbidden, "bad-confirmation"},
		{errors.Is(err, access.ErrTerminal), http.StatusForbidden, "only-terminal"},
		{refusal, http.StatusForbidden, "bad-passkey"},
		{errors.Is(err, passkey.ErrTaken), http.StatusConflict, "name-taken"},
		{errors.Is(err, passkey.ErrFull), http.StatusConflict, "too-many"},
		{errors.Is(err, passkey.ErrMissing), http.StatusNotFound, "no-such-name"},
		{errors.Is(err, access.ErrTaken), http.StatusConflict, "name-taken"},
		{errors.Is(err, access.ErrFull), http.StatusConflict, "too-many"},
		{errors.Is(err, access.ErrMissing), http.StatusNotFound, "no-such-name"},
		{errors.Is(err, access.ErrNoChallenge), http.StatusNotFound, "no-such-challenge"},
		{errors.Is(err, access.ErrOtherWish), http.StatusUnprocessableEntity, "idempotency-mismatch"},
		{errors.Is(err, access.ErrInterrupted), http.StatusConflict, "idempotency-interrupted"},
		{errors.Is(err, access.ErrKeyForm), http.StatusUnprocessableEntity, "idempotency-key"},
		{value, http.StatusUnprocessableEntity, "invalid"},
	} {
		if e.is {
			return problemOf(e.status, e.kind, err.Error())
		}
	}
	return problemOf(http.StatusInsufficientStorage, "not-kept", err.Error())
}

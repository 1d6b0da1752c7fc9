package api

import (
	"github.com/superloop/superloop/server/access"
)

// Routes that are no matter of scopes.
const (
	health = "GET /healthz"
	trade  = "POST /api/v1/sessions" // the code is what allows it
	// Of a passkey: what it signs is the confirmation, and what it needs to be made changes nothing.
	byPasskey   = "POST /api/v1/confirmations/{id}/passkey"
	makePasskey = "POST /api/v1/passkeys/options"
)

// unconfirmed are the routes for which the guard itself asks for no confirmation.
var unconfirmed = []string{trade, byPasskey, makePasskey}

// onlySocket are the routes of the verbs by which a person lets somebody in over TCP.
var onlySocket = []string{"POST /api/v1/codes", "GET /api/v1/confirmations", "POST /api/v1/confirmations/{id}"}

// secrets are the routes whose answers show a secret.
var secrets = []string{trade, "POST /api/v1/tokens", "POST /api/v1/codes", "POST /api/v1/confirmations/{id}", byPasskey}

// scopeOf returns the scope that a route needs, by its pattern ("POST /api/v1/loops/{id}/start"), as routes.txt has it. What
// is not listed needs the strongest scope of tokens.
func scopeOf(pattern string) access.Scope {
	if r, ok := routes()[pattern]; ok && r.scope != "none" {
		return access.Scope(r.scope)
	}
	return access.Approve
}

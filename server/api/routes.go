package api

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/superloop/superloop/server/access"
)

// routesText says how each route is named, what it is for, which scope a token needs for it, and which types of problems it answers with.
// The head of the file describes its syntax.
//
//go:embed routes.txt
var routesText string

// route is what the description of the interface says of a route, besides its parameters.
type route struct {
	name, scope, summary string
	problems             []string
}

// everywhere is the line of the types of problems with which every route may answer.
const everywhere = "*"

// routes returns the routes of routes.txt, by method and path.
var routes = sync.OnceValue(func() map[string]route {
	out := map[string]route{}
	_, text, _ := strings.Cut(routesText, "\n\n")
	for line := range strings.Lines(text) {
		part := strings.Split(strings.TrimSpace(line), " | ")
		if len(part) == 5 {
			out[part[0]] = route{part[1], part[2], part[4], strings.Fields(strings.TrimPrefix(part[3], "-"))}
		}
	}
	return out
})

// Routes that are no matter of scopes.
const (
	health = "GET /healthz"
	trade  = "POST /api/v1/sessions" // the code is what allows it
	// Of a passkey: what it signs is the confirmation, and what it needs to be made changes nothing.
	byPasskey   = "POST /api/v1/confirmations/{id}/passkey"
	makePasskey = "POST /api/v1/passkeys/options"
)

// atGateway reports whether a route is about who may ask, and about the answering process itself: a gateway answers it, and no
// machine behind one.
func atGateway(pattern string) bool {
	r, listed := routes()[pattern]
	return !listed || r.scope == string(access.Person) || r.scope == "none" || slices.Contains([]string{"GET /api/v1/audit", "GET /readyz"}, pattern)
}

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

package api

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/server/access"
)

// Routes that are no matter of scopes.
const (
	health = "GET /healthz"
	trade  = "POST /api/v1/sessions" // the code is what allows it
)

// onlySocket are the routes of the verbs by which a person lets somebody in over TCP.
var onlySocket = []string{"POST /api/v1/codes", "GET /api/v1/confirmations", "POST /api/v1/confirmations/{id}"}

// secrets are the routes whose answers show a secret.
var secrets = []string{trade, "POST /api/v1/tokens", "POST /api/v1/codes", "POST /api/v1/confirmations/{id}"}

// steering are the last words of the routes by which loops are steered.
var steering = []string{"start", "stop", "pause", "resume", "cancel", "retry-now", "note"}

// scopeOf returns the scope that a route needs, by its pattern ("POST /api/v1/loops/{id}/start"). What is not known to be
// harmless needs the strongest scope of tokens.
func scopeOf(pattern string) access.Scope {
	method, path, _ := strings.Cut(pattern, " ")
	parts := strings.Split(path, "/")
	switch {
	case under(path, "/api/v1/tokens") || under(path, "/api/v1/sessions") || slices.Contains(onlySocket, pattern):
		return access.Person
	case method == "GET", method == "POST" && under(path, "/api/v1/policy"): // policy judges and changes nothing
		return access.Read
	case pattern == "POST /api/v1/loops":
		return access.Control
	case method == "POST" && len(parts) == 6 && strings.HasPrefix(path, "/api/v1/loops/{id}/") && slices.Contains(steering, parts[5]):
		return access.Control
	}
	return access.Approve
}

func under(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

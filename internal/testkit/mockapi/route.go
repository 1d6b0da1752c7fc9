package mockapi

import (
	"net/http"
	"strings"
)

type routeKind int

const (
	kindUnknown routeKind = iota
	kindModel
	kindCount
	kindModels
	kindHello
)

// route is what a path asks for.
type route struct {
	kind routeKind
	api  API
	// model and stream are in the path only with Gemini.
	model  string
	stream bool
}

// routeOf reads a path. Repeated slashes do not matter: base URLs are given
// with and without one at the end.
func routeOf(method, path string) route {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	clean := strings.Join(parts, "/")
	get := method == http.MethodGet || method == http.MethodHead
	switch {
	case get && clean == "":
		return route{kind: kindHello}
	case get && len(parts) == 2 && parts[1] == "models":
		return route{kind: kindModels}
	case method != http.MethodPost:
		return route{}
	case clean == "v1/messages":
		return route{kind: kindModel, api: Anthropic}
	case clean == "v1/messages/count_tokens":
		return route{kind: kindCount, api: Anthropic}
	case clean == "v1/responses":
		return route{kind: kindModel, api: OpenAI}
	}
	if len(parts) != 3 || parts[1] != "models" || !strings.HasPrefix(parts[0], "v1") {
		return route{}
	}
	model, verb, _ := strings.Cut(parts[2], ":")
	r := route{kind: kindModel, api: Gemini, model: model}
	switch verb {
	case "streamGenerateContent":
		r.stream = true
	case "generateContent":
	case "countTokens":
		r.kind = kindCount
	default:
		return route{}
	}
	return r
}

// probe answers what is no model request.
func (s *Server) probe(w http.ResponseWriter, to route, c Call, err error) {
	rec := Record{API: to.api, Path: c.Path, Model: c.Model, Status: http.StatusOK, Outcome: Told}
	var body any
	switch {
	case err != nil:
		rec.Status, rec.Outcome, rec.Error = http.StatusBadRequest, Failed, err.Error()
		body = object{"error": object{"message": err.Error()}}
	case to.kind == kindHello:
	case to.kind == kindModels:
		// Each API has its own word for the list, and none minds the others'.
		body = object{"object": "list", "data": []object{}, "models": []object{}, "has_more": false}
	case to.kind == kindCount && to.api == Gemini:
		body = object{"totalTokens": tokens(len(c.Body))}
	case to.kind == kindCount:
		body = object{"input_tokens": tokens(len(c.Body))}
	default:
		rec.Status, rec.Outcome, rec.Error = http.StatusNotFound, Failed, "no such path"
		body = object{"error": object{"message": "no such path: " + c.Path, "code": http.StatusNotFound, "status": "NOT_FOUND"}}
	}
	s.note(func() { s.probes = append(s.probes, rec) })
	if body == nil {
		w.WriteHeader(rec.Status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(rec.Status)
	_, _ = w.Write([]byte(inJSON(body))) // who went away does not want it
}

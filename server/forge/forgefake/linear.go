package forgefake

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Linear is a workspace of Linear on this machine, with one team, ENG. Its operations are Items, Item, Reports, Comment,
// NewLabel and Label.
type Linear struct {
	Address string
	desk
	issues []*LinearIssue
	labels map[string]string // the name of each id
}

// LinearIssue is an issue. Tests get copies.
type LinearIssue struct {
	ID, Title, Body, State string
	Labels, BlockedBy      []string
	Comments               map[string]string // by id
}

// LinearSecret is the key that the workspace takes.
const LinearSecret = "lin_api_of-the-test"

// NewLinear starts a workspace, which ends with the test.
func NewLinear(t testing.TB) *Linear {
	l := &Linear{labels: map[string]string{"other": "superloop-taken (of another team)"}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /graphql", l.answer)
	l.Address = "https://" + l.open(t, mux) + "/graphql"
	return l
}

// HTTP returns a client that knows the certificate.
func (l *Linear) HTTP() *http.Client { return l.http.Client() }

// AddIssue adds an issue, and returns its identifier.
func (l *Linear) AddIssue(title, body string, labels ...string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := &LinearIssue{ID: "ENG-" + strconv.Itoa(len(l.issues)+1), Title: title, Body: body, State: "unstarted", Comments: map[string]string{}, Labels: labels}
	l.issues = append(l.issues, is)
	for _, name := range labels {
		l.labels["label-"+name] = name
	}
	return is.ID
}

// Change changes an issue.
func (l *Linear) Change(id string, f func(*LinearIssue)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.issue(id))
}

// Issue returns an issue as it is now.
func (l *Linear) Issue(id string) LinearIssue {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := *l.issue(id)
	is.Labels = slices.Clone(is.Labels)
	comments := map[string]string{}
	for k, v := range is.Comments {
		comments[k] = v
	}
	is.Comments = comments
	return is
}

func (l *Linear) issue(id string) *LinearIssue {
	for _, is := range l.issues {
		if is.ID == id || "uuid-of-"+is.ID == id {
			return is
		}
	}
	return nil
}

func linearRefusal(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, object{"data": nil, "errors": []object{{"message": message, "path": []string{"issue"}, "extensions": object{"type": strings.ToLower(code), "code": code, "statusCode": status, "userError": true}}}})
}

// LinearLimited answers that the limit of requests is spent until a time.
func LinearLimited(until time.Time) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-RateLimit-Requests-Remaining", "0")
		w.Header().Set("X-RateLimit-Requests-Reset", strconv.FormatInt(until.UnixMilli(), 10))
		linearRefusal(w, http.StatusBadRequest, "RATELIMITED", "Rate limit exceeded")
		return true
	}
}

func (l *Linear) answer(w http.ResponseWriter, r *http.Request) {
	v := read(r)
	vars, _ := v["variables"].(object)
	operation, want, fragments := query(text(v["query"]))
	if r.Header.Get("Authorization") != LinearSecret {
		linearRefusal(w, http.StatusUnauthorized, "AUTHENTICATION_ERROR", "Authentication required, not authenticated")
		return
	}
	l.handle(operation, w, r, func() {
		input, _ := vars["input"].(object)
		data := object{}
		is := l.issue(text(vars["id"]) + text(input["issueId"]))
		if is == nil && operation != "Items" && operation != "NewLabel" {
			linearRefusal(w, http.StatusOK, "INPUT_ERROR", "Entity not found: Issue")
			return
		}
		switch operation {
		case "Items":
			data["issues"] = l.page(vars)
		case "Item":
			data["issue"] = l.node(is)
		case "Reports":
			o := l.node(is)
			comments := []object{}
			if _, ok := is.Comments[text(vars["comment"])]; ok {
				comments = append(comments, object{"id": vars["comment"]})
			}
			o["comments"] = object{"nodes": comments}
			data["issue"], data["issueLabels"] = o, object{"nodes": l.named(text(vars["label"]))}
		case "Comment":
			id := text(input["id"])
			if _, ok := is.Comments[id]; ok || len(id) != 36 || id[14] != '4' {
				linearRefusal(w, http.StatusBadRequest, "INPUT_ERROR", "conflict on insert of Comment")
				return
			}
			is.Comments[id] = text(input["body"])
			data["commentCreate"] = object{"success": true}
		case "NewLabel":
			id := "label-" + text(input["name"])
			l.labels[id] = text(input["name"])
			data["issueLabelCreate"] = object{"success": true, "issueLabel": object{"id": id}}
		case "Label":
			for _, id := range input["removedLabelIds"].([]any) {
				is.Labels = slices.DeleteFunc(is.Labels, func(x string) bool { return x == l.labels[text(id)] })
			}
			for _, id := range input["addedLabelIds"].([]any) {
				is.Labels = append(is.Labels, l.labels[text(id)])
			}
			data["issueUpdate"] = object{"success": true}
		}
		reply(w, http.StatusOK, object{"data": project(data, want, fragments)})
	})
}

// named are the labels with a name: those of the team, and those of another one.
func (l *Linear) named(name string) []object {
	list := []object{{"id": "other", "name": name, "team": object{"id": "team-2"}}}
	if l.labels["label-"+name] != "" {
		list = append(list, object{"id": "label-" + name, "name": name, "team": object{"id": "team-1"}})
	}
	return list
}

// page are the open issues with the label, the newest first.
func (l *Linear) page(vars object) object {
	filter, _ := vars["filter"].(object)
	label := text(filter["labels"].(object)["some"].(object)["name"].(object)["eqIgnoreCase"])
	from, _ := strconv.Atoi(text(vars["after"]))
	first, _ := vars["first"].(float64)
	all := []object{}
	for _, is := range slices.Backward(l.issues) {
		if slices.ContainsFunc(is.Labels, func(x string) bool { return strings.EqualFold(x, label) }) && is.State != "completed" && is.State != "canceled" {
			all = append(all, l.node(is))
		}
	}
	to := min(from+int(first), len(all))
	return object{"pageInfo": object{"hasNextPage": to < len(all), "endCursor": strconv.Itoa(to)}, "nodes": all[min(from, to):to]}
}

func (l *Linear) node(is *LinearIssue) object {
	n, _ := strconv.Atoi(strings.TrimPrefix(is.ID, "ENG-"))
	names, relations := []object{}, []object{}
	for _, x := range is.Labels {
		names = append(names, object{"id": "label-" + x, "name": x})
	}
	for _, id := range is.BlockedBy {
		relations = append(relations, object{"type": "blocks", "issue": object{"identifier": id, "state": object{"type": l.issue(id).State}}}, object{"type": "related", "issue": object{"identifier": "ENG-1", "state": object{"type": "started"}}})
	}
	return object{"id": "uuid-of-" + is.ID, "identifier": is.ID, "title": is.Title, "description": is.Body, "url": "https://linear.app/acme/issue/" + is.ID, "state": object{"type": is.State}, "team": object{"id": "team-1"},
		"createdAt": time.Date(2026, 3, 1, 9, 0, n, 0, time.UTC).Format("2006-01-02T15:04:05.000Z"), "labels": object{"nodes": names}, "inverseRelations": object{"nodes": relations}}
}

package forgefake

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// github are the routes of GitHub. Each has the name of its operation; those of GraphQL are named by their query: Items,
// Item, Reports, Feedback.
func (s *Server) github(mux *http.ServeMux) {
	const root = "/api/v3/repos/ann/project"
	route := func(pattern, operation string, f func(w http.ResponseWriter, r *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				refuse(w, http.StatusUnauthorized, "Requires authentication")
				return
			}
			s.handle(operation, w, r, func() { f(w, r) })
		})
	}
	// onIssue finds the issue of a request.
	onIssue := func(f func(w http.ResponseWriter, r *http.Request, is *Issue)) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.PathValue("number"))
			if is := s.issue(n); is != nil {
				f(w, r, is)
				return
			}
			refuse(w, http.StatusNotFound, "Not Found")
		}
	}
	mux.HandleFunc("/api/v3/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "Not Found") })
	mux.HandleFunc("POST /api/graphql", s.graphql)
	route("GET "+root, "repository", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, object{"id": 1, "full_name": Path, "default_branch": "trunk", "private": true})
	})
	route("POST "+root+"/issues/{number}/comments", "comment", onIssue(func(w http.ResponseWriter, r *http.Request, is *Issue) {
		c := Comment{ID: s.id(), By: Me, Body: text(read(r)["body"]), at: s.tick()}
		if c.Body == "" { // of a gh that was killed
			refuse(w, http.StatusUnprocessableEntity, "Validation Failed: body is missing")
			return
		}
		is.Comments = append(is.Comments, c)
		reply(w, http.StatusCreated, object{"id": c.ID, "body": c.Body, "user": object{"login": Me}})
	}))
	route("POST "+root+"/issues/{number}/labels", "label", onIssue(func(w http.ResponseWriter, r *http.Request, is *Issue) {
		list, _ := read(r)["labels"].([]any)
		for _, l := range list {
			s.label(is, Me, text(l), true)
		}
		reply(w, http.StatusOK, labels(is))
	}))
	route("DELETE "+root+"/issues/{number}/labels/{label}", "unlabel", onIssue(func(w http.ResponseWriter, r *http.Request, is *Issue) {
		if !is.has(r.PathValue("label")) {
			refuse(w, http.StatusNotFound, "Label does not exist")
			return
		}
		s.label(is, Me, r.PathValue("label"), false)
		reply(w, http.StatusOK, labels(is))
	}))
	route("GET "+root+"/pulls", "pulls", func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		for _, p := range slices.Backward(s.pulls) {
			owner, q := Ann, r.URL.Query()
			if p.Fork {
				owner = p.Author
			}
			if head := q.Get("head"); (head == "" || head == owner+":"+p.Branch) && (q.Get("state") == "all" || p.open()) {
				list = append(list, s.githubPull(p))
			}
		}
		reply(w, http.StatusOK, page(w, r, list))
	})
	route("POST "+root+"/pulls", "open", func(w http.ResponseWriter, r *http.Request) {
		v := read(r)
		draft, _ := v["draft"].(bool)
		if text(v["base"]) == "" || text(v["head"]) == "" || text(v["title"]) == "" {
			refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
			return
		}
		p := s.addPull(Pull{Author: Me, Branch: text(v["head"]), Base: text(v["base"]), Title: text(v["title"]), Body: text(v["body"]), Draft: draft})
		reply(w, http.StatusCreated, s.githubPull(p))
	})
	route("GET "+root+"/actions/jobs/{job}/logs", "log", func(w http.ResponseWriter, r *http.Request) {
		// The real one sends the client to where the log is kept.
		if r.URL.Query().Get("at") == "" {
			http.Redirect(w, r, r.URL.Path+"?at=storage", http.StatusFound)
			return
		}
		s.log(w, r.PathValue("job"))
	})
	route("PATCH "+root+"/pulls/{number}", "update", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("number"))
		p := s.pull(n)
		if p == nil {
			refuse(w, http.StatusNotFound, "Not Found")
			return
		}
		p.Body = text(read(r)["body"])
		reply(w, http.StatusOK, s.githubPull(p))
	})
}

// log answers with the log of a job.
func (s *Server) log(w http.ResponseWriter, job string) {
	for _, p := range s.pulls {
		for _, k := range p.Checks {
			if strconv.Itoa(k.ID) == job && k.Log != "" {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				_, _ = io.WriteString(w, k.Log)
				return
			}
		}
	}
	refuse(w, http.StatusNotFound, "Not Found")
}

func labels(is *Issue) []object {
	list := []object{}
	for _, l := range is.Labels {
		list = append(list, object{"name": l, "color": "ededed"})
	}
	return list
}

func (s *Server) githubPull(p *Pull) object {
	state, merged := "open", any(nil)
	if !p.open() {
		state = "closed"
	}
	if p.Merged {
		merged = p.created
	}
	return object{"number": p.Number, "html_url": "https://" + s.Host + "/ann/project/pull/" + strconv.Itoa(p.Number), "state": state, "merged_at": merged,
		"draft": p.Draft, "title": p.Title, "body": p.Body, "head": object{"ref": p.Branch, "sha": p.Head}, "base": object{"ref": p.Base}}
}

// graphql answers the queries of GitHub.
func (s *Server) graphql(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "" {
		refuse(w, http.StatusUnauthorized, "This endpoint requires you to be authenticated.")
		return
	}
	v := read(r)
	vars, _ := v["variables"].(object)
	operation, want, fragments := query(text(v["query"]))
	s.handle(operation, w, r, func() {
		w.Header().Set("X-RateLimit-Remaining", "4999")
		if text(vars["owner"])+"/"+text(vars["name"]) != Path {
			reply(w, http.StatusOK, object{"data": object{"repository": nil}, "errors": []object{{"type": "NOT_FOUND", "path": []string{"repository"},
				"message": "Could not resolve to a Repository with the name '" + text(vars["owner"]) + "/" + text(vars["name"]) + "'."}}})
			return
		}
		number, _ := vars["number"].(float64)
		repository := object{"issues": s.issuePage(vars)}
		if operation == "Feedback" {
			repository["pullRequest"] = s.pullNode(s.pull(int(number)))
		} else if number > 0 {
			is := s.issue(int(number))
			if is == nil {
				reply(w, http.StatusOK, object{"data": object{"repository": object{"issue": nil}}, "errors": []object{{"type": "NOT_FOUND", "path": []string{"repository", "issue"},
					"message": "Could not resolve to an Issue with the number of " + strconv.Itoa(int(number)) + "."}}})
				return
			}
			repository["issue"] = s.issueNode(is, text(vars["before"]))
		}
		reply(w, http.StatusOK, object{"data": project(object{"repository": repository}, want, fragments)})
	})
}

func (s *Server) issuePage(vars object) object {
	label, after := text(vars["label"]), text(vars["after"])
	first, _ := vars["first"].(float64)
	list, more, cursor := []object{}, false, ""
	from, _ := strconv.Atoi(after)
	for _, is := range s.issues {
		if is.Closed || !is.has(label) || is.Number <= from {
			continue
		}
		if more = len(list) == int(first); more {
			break
		}
		list, cursor = append(list, s.issueNode(is, "")), strconv.Itoa(is.Number)
	}
	return object{"pageInfo": object{"hasNextPage": more, "endCursor": cursor}, "nodes": list}
}

func (s *Server) issueNode(is *Issue, before string) object {
	state, edited := "OPEN", any(nil)
	if is.Closed {
		state = "CLOSED"
	}
	if !is.edited.IsZero() {
		edited = is.edited.Format(time.RFC3339)
	}
	pulls, events, comments := []object{}, []object{}, []object{}
	for _, p := range s.pulls {
		if slices.Contains(p.Closes, is.Number) && !p.Closed {
			pulls = append(pulls, object{"number": p.Number, "state": map[bool]string{false: "OPEN", true: "MERGED"}[p.Merged]})
		}
	}
	for _, e := range is.events {
		at := e.at.Format(time.RFC3339)
		switch e.what {
		case "labeled":
			events = append(events, object{"__typename": "LabeledEvent", "createdAt": at, "label": object{"name": e.label}, "actor": object{"login": e.by}})
		case "renamed":
			events = append(events, object{"__typename": "RenamedTitleEvent", "createdAt": at, "actor": object{"login": e.by}})
		}
	}
	to := len(is.Comments)
	if n, err := strconv.Atoi(before); err == nil {
		to = min(n, to)
	}
	from := max(to-100, 0)
	for _, c := range is.Comments[from:to] {
		comments = append(comments, object{"databaseId": c.ID, "body": c.Body, "viewerDidAuthor": c.By == Me, "author": object{"login": c.By}})
	}
	return object{"number": is.Number, "title": is.Title, "body": is.Body, "url": "https://" + s.Host + "/ann/project/issues/" + strconv.Itoa(is.Number), "state": state,
		"createdAt": is.created.Format(time.RFC3339), "lastEditedAt": edited, "labels": object{"nodes": labels(is)}, "closedByPullRequestsReferences": object{"nodes": pulls},
		"timelineItems": object{"nodes": events[max(0, len(events)-50):]},
		"comments":      object{"pageInfo": object{"hasPreviousPage": from > 0, "startCursor": strconv.Itoa(from)}, "nodes": comments}}
}

// pullNode is a pull request with what came of it.
func (s *Server) pullNode(p *Pull) object {
	if p == nil {
		return nil
	}
	said := func(id int, by, body string, at, edited time.Time) object {
		last := any(nil)
		if !edited.IsZero() {
			last = edited.Format(time.RFC3339)
		}
		kind := "User"
		if strings.HasSuffix(by, "[bot]") {
			kind, by = "Bot", strings.TrimSuffix(by, "[bot]")
		}
		return object{"databaseId": id, "body": body, "url": s.githubPull(p)["html_url"].(string) + "#" + strconv.Itoa(id), "createdAt": at.Format(time.RFC3339), "lastEditedAt": last,
			"authorAssociation": association(by), "author": object{"__typename": kind, "login": by}}
	}
	reviews, comments, threads, checks := []object{}, []object{}, []object{}, []object{}
	for _, r := range p.Reviews {
		o := said(r.ID, r.By, r.Body, r.at, time.Time{})
		o["state"] = r.State
		reviews = append(reviews, o)
	}
	for _, c := range p.Comments {
		o := said(c.ID, c.By, c.Body, c.at, c.edited)
		if c.Path == "" {
			comments = append(comments, o)
		} else {
			threads = append(threads, object{"isResolved": c.Resolved, "path": c.Path, "line": 3, "comments": object{"nodes": []object{o}}})
		}
	}
	for _, k := range p.Checks {
		result := strings.ToUpper(k.Result)
		if k.Status {
			checks = append(checks, object{"__typename": "StatusContext", "id": "SC_" + strconv.Itoa(k.ID), "context": k.Name, "state": cmp.Or(result, "PENDING"), "targetUrl": "https://ci.example.com/" + k.Name,
				"description": k.Summary, "createdAt": k.at.Format(time.RFC3339)})
			continue
		}
		o := object{"__typename": "CheckRun", "databaseId": k.ID, "name": k.Name, "status": "COMPLETED", "conclusion": result, "detailsUrl": "https://" + s.Host + "/ann/project/actions/job/" + strconv.Itoa(k.ID),
			"title": nil, "summary": k.Summary, "text": nil, "completedAt": k.at.Format(time.RFC3339), "checkSuite": object{"app": object{"slug": "github-actions"}},
			"annotations": object{"nodes": []object{{"path": ".github", "message": "Process completed with exit code 1.", "annotationLevel": "FAILURE", "location": object{"start": object{"line": 9}}}}}}
		if result == "" {
			o["status"], o["conclusion"], o["completedAt"] = "IN_PROGRESS", nil, nil
		}
		checks = append(checks, o)
	}
	rollup := any(nil)
	if len(checks) > 0 {
		rollup = object{"contexts": object{"nodes": checks}}
	}
	return object{"headRefOid": p.Head, "reviews": object{"nodes": reviews}, "comments": object{"nodes": comments}, "reviewThreads": object{"nodes": threads},
		"commits": object{"nodes": []object{{"commit": object{"statusCheckRollup": rollup}}}}}
}

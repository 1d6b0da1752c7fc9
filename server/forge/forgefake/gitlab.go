package forgefake

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Carl is a reporter: he may label issues on GitLab, and not push.
const Carl = "carl"

// people are the users of GitLab: id and access level. Everybody else is number 9, and no member.
var people = map[string][2]int{Ann: {1, 50}, Bob: {2, 30}, Me: {3, 40}, Carl: {4, 20}, "project_7_bot_a1": {5, 30}}

func user(name string) object {
	id := 9
	if p, ok := people[name]; ok {
		id = p[0]
	}
	return object{"id": id, "username": name, "name": name, "state": "active"}
}

// gitlab are the routes of GitLab. Each has the name of its operation.
func (s *Server) gitlab(mux *http.ServeMux) {
	const root = "/api/v4/projects/{project}"
	missing := func(w http.ResponseWriter, what string) {
		reply(w, http.StatusNotFound, object{"message": strings.TrimSpace("404 " + what + " Not Found")})
	}
	route := func(pattern, operation string, f func(w http.ResponseWriter, r *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			switch project := r.PathValue("project"); {
			case r.Header.Get("Authorization") == "" && r.Header.Get("Private-Token") == "":
				reply(w, http.StatusUnauthorized, object{"message": "401 Unauthorized"})
			case project != "" && project != Path:
				missing(w, "Project")
			default:
				s.handle(operation, w, r, func() { f(w, r) })
			}
		})
	}
	onIssue := func(f func(w http.ResponseWriter, r *http.Request, is *Issue)) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.PathValue("number"))
			if is := s.issue(n); is != nil {
				f(w, r, is)
				return
			}
			missing(w, "")
		}
	}
	onPull := func(f func(w http.ResponseWriter, r *http.Request, p *Pull)) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.PathValue("number"))
			if p := s.pull(n); p != nil {
				f(w, r, p)
				return
			}
			missing(w, "")
		}
	}
	mux.HandleFunc("/api/v4/", func(w http.ResponseWriter, _ *http.Request) { missing(w, "") })
	route("GET /api/v4/user", "user", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, user(Me)) })
	route("GET "+root, "repository", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, object{"id": 7, "path_with_namespace": Path, "default_branch": "trunk"})
	})
	route("GET "+root+"/members/all/{user}", "member", func(w http.ResponseWriter, r *http.Request) {
		for name, p := range people {
			if strconv.Itoa(p[0]) == r.PathValue("user") {
				o := user(name)
				o["access_level"] = p[1]
				reply(w, http.StatusOK, o)
				return
			}
		}
		missing(w, "")
	})
	route("GET "+root+"/issues", "issues", func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		for _, is := range s.issues {
			if (r.URL.Query().Get("state") != "opened" || !is.Closed) && is.has(r.URL.Query().Get("labels")) {
				list = append(list, s.gitlabIssue(is))
			}
		}
		reply(w, http.StatusOK, page(w, r, list))
	})
	route("GET "+root+"/issues/{number}", "issue", onIssue(func(w http.ResponseWriter, _ *http.Request, is *Issue) {
		reply(w, http.StatusOK, s.gitlabIssue(is))
	}))
	route("PUT "+root+"/issues/{number}", "label", onIssue(func(w http.ResponseWriter, r *http.Request, is *Issue) {
		v := read(r)
		for _, set := range []bool{false, true} {
			for l := range strings.SplitSeq(text(v[map[bool]string{false: "remove_labels", true: "add_labels"}[set]]), ",") {
				if l != "" {
					s.label(is, Me, l, set)
				}
			}
		}
		reply(w, http.StatusOK, s.gitlabIssue(is))
	}))
	route("GET "+root+"/issues/{number}/closed_by", "closed_by", onIssue(func(w http.ResponseWriter, r *http.Request, is *Issue) {
		list := []object{}
		for _, p := range s.pulls {
			if slices.Contains(p.Closes, is.Number) {
				list = append(list, s.gitlabPull(p))
			}
		}
		reply(w, http.StatusOK, page(w, r, list))
	}))
	route("GET "+root+"/issues/{number}/resource_label_events", "label_events", onIssue(func(w http.ResponseWriter, r *http.Request, is *Issue) {
		list := []object{}
		for _, e := range is.events {
			if action := map[string]string{"labeled": "add", "unlabeled": "remove"}[e.what]; action != "" {
				list = append(list, object{"id": e.id, "user": user(e.by), "created_at": stamp(e.at), "resource_type": "Issue", "label": object{"name": e.label}, "action": action})
			}
		}
		reply(w, http.StatusOK, page(w, r, list))
	}))
	route("GET "+root+"/issues/{number}/notes", "notes", onIssue(func(w http.ResponseWriter, r *http.Request, is *Issue) {
		list := []object{}
		for _, e := range is.events {
			if said := map[string]string{"described": "changed the description", "renamed": "changed title from **{-a-}** to **{+b+}**"}[e.what]; said != "" {
				list = append(list, note(Comment{ID: e.id, By: e.by, Body: said, at: e.at}, true))
			}
		}
		for _, c := range is.Comments {
			list = append(list, note(c, false))
		}
		reply(w, http.StatusOK, page(w, r, newest(list)))
	}))
	route("POST "+root+"/issues/{number}/notes", "comment", onIssue(func(w http.ResponseWriter, r *http.Request, is *Issue) {
		c := Comment{ID: s.id(), By: Me, Body: text(read(r)["body"]), at: s.tick()}
		if c.Body == "" { // of a glab that was killed
			refuse(w, http.StatusBadRequest, "body is missing")
			return
		}
		is.Comments = append(is.Comments, c)
		reply(w, http.StatusCreated, note(c, false))
	}))
	route("GET "+root+"/merge_requests", "pulls", func(w http.ResponseWriter, r *http.Request) {
		list := []object{}
		for _, p := range slices.Backward(s.pulls) {
			q := r.URL.Query()
			if branch := q.Get("source_branch"); (branch == "" || branch == p.Branch) && (q.Get("state") == "all" || p.open()) {
				list = append(list, s.gitlabPull(p))
			}
		}
		reply(w, http.StatusOK, page(w, r, list))
	})
	route("POST "+root+"/merge_requests", "open", func(w http.ResponseWriter, r *http.Request) {
		v := read(r)
		if text(v["target_branch"]) == "" || text(v["title"]) == "" {
			reply(w, http.StatusBadRequest, object{"error": "target_branch is missing, title is missing"})
			return
		}
		title := text(v["title"])
		reply(w, http.StatusCreated, s.gitlabPull(s.addPull(Pull{Author: Me, Branch: text(v["source_branch"]), Base: text(v["target_branch"]), Title: title, Body: text(v["description"]), Draft: strings.HasPrefix(title, "Draft: ")})))
	})
	route("PUT "+root+"/merge_requests/{number}", "update", onPull(func(w http.ResponseWriter, r *http.Request, p *Pull) {
		p.Body = text(read(r)["description"])
		reply(w, http.StatusOK, s.gitlabPull(p))
	}))
	route("GET "+root+"/merge_requests/{number}", "Feedback", onPull(func(w http.ResponseWriter, _ *http.Request, p *Pull) {
		o := s.gitlabPull(p)
		o["sha"], o["head_pipeline"] = p.Head, nil
		if len(p.Checks) > 0 {
			o["head_pipeline"] = object{"id": p.Number, "status": "running"}
		}
		reply(w, http.StatusOK, o)
	}))
	route("GET "+root+"/merge_requests/{number}/reviewers", "reviewers", onPull(func(w http.ResponseWriter, r *http.Request, p *Pull) {
		list := []object{}
		for _, v := range p.Reviews {
			state := map[string]string{"CHANGES_REQUESTED": "requested_changes", "APPROVED": "approved"}[v.State]
			list = append(list, object{"user": user(v.By), "state": state, "created_at": stamp(v.at)})
		}
		reply(w, http.StatusOK, page(w, r, list))
	}))
	route("GET "+root+"/merge_requests/{number}/notes", "pull_notes", onPull(func(w http.ResponseWriter, r *http.Request, p *Pull) {
		list := []object{note(Comment{ID: 1, By: Ann, Body: "requested review from @bob", at: p.created}, true)}
		for _, c := range p.Comments {
			list = append(list, note(c, false))
		}
		reply(w, http.StatusOK, page(w, r, newest(list)))
	}))
	route("GET "+root+"/pipelines/{number}/jobs", "jobs", onPull(func(w http.ResponseWriter, r *http.Request, p *Pull) {
		list := []object{}
		for _, k := range p.Checks {
			o := object{"id": k.ID, "name": k.Name, "status": "running", "web_url": "https://" + s.Host + "/ann/project/-/jobs/" + strconv.Itoa(k.ID), "allow_failure": false, "finished_at": nil}
			switch k.Result {
			case "failure":
				o["status"], o["failure_reason"], o["finished_at"] = "failed", "script_failure", stamp(k.at)
			case "success":
				o["status"], o["finished_at"] = "success", stamp(k.at)
			}
			list = append(list, o)
		}
		reply(w, http.StatusOK, page(w, r, list))
	}))
	route("GET "+root+"/jobs/{job}/trace", "log", func(w http.ResponseWriter, r *http.Request) { s.log(w, r.PathValue("job")) })
}

func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z") }

// newest turns a list around by the times of its notes.
func newest(list []object) []object {
	slices.SortStableFunc(list, func(a, b object) int { return strings.Compare(text(b["created_at"]), text(a["created_at"])) })
	return list
}

func note(c Comment, system bool) object {
	o := object{"id": c.ID, "body": c.Body, "author": user(c.By), "created_at": stamp(c.at), "updated_at": stamp(c.at), "system": system, "resolvable": c.Path != "", "type": nil}
	if c.Path != "" {
		o["resolved"], o["position"] = c.Resolved, object{"new_path": c.Path, "new_line": 3}
	}
	return o
}

func (s *Server) gitlabIssue(is *Issue) object {
	state, count := "opened", 0
	if is.Closed {
		state = "closed"
	}
	for _, p := range s.pulls {
		if slices.Contains(p.Closes, is.Number) {
			count++
		}
	}
	return object{"id": 1000 + is.Number, "iid": is.Number, "project_id": 7, "title": is.Title, "description": is.Body, "state": state, "labels": append([]string{}, is.Labels...), "author": user(is.Author),
		"created_at": stamp(is.created), "merge_requests_count": count, "web_url": "https://" + s.Host + "/ann/project/-/issues/" + strconv.Itoa(is.Number)}
}

func (s *Server) gitlabPull(p *Pull) object {
	state, merged, from := "opened", any(nil), 7
	switch {
	case p.Merged:
		state, merged = "merged", stamp(p.created)
	case p.Closed:
		state = "closed"
	}
	if p.Fork {
		from = 8
	}
	return object{"id": 2000 + p.Number, "iid": p.Number, "web_url": "https://" + s.Host + "/ann/project/-/merge_requests/" + strconv.Itoa(p.Number), "state": state, "merged_at": merged, "draft": p.Draft,
		"title": p.Title, "description": p.Body, "source_branch": p.Branch, "target_branch": p.Base, "source_project_id": from, "target_project_id": 7}
}

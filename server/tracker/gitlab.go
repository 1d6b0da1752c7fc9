package tracker

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/forge"
)

// GitLab are the issues of a project on GitLab. Label is the mark. Only Get knows whether a text was changed after the
// label was set: GitLab tells it of one issue at a time.
type GitLab struct {
	Client forge.Client
	Label  string
}

var _ Tracker = GitLab{}

// gitlabPage is how many things one request asks for: the most that GitLab gives.
const gitlabPage = 100

type gitlabIssue struct {
	IID           int      `json:"iid"`
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	URL           string   `json:"web_url"`
	State         string   `json:"state"`
	Labels        []string `json:"labels"`
	MergeRequests int      `json:"merge_requests_count"` // that would close it
}

// pages reads the pages of a list until more says that it has enough, or most were read. whole says that it has read all.
func pages[T any](ctx context.Context, c forge.Client, path string, most int, more func([]T) bool) (whole bool, err error) {
	for n := 1; n <= most; n++ {
		var list []T
		h, err := c.Get(ctx, fmt.Sprintf("%s&per_page=%d&page=%d", path, gitlabPage, n), &list)
		if err != nil {
			return false, err
		}
		last := h.Get("X-Next-Page") == ""
		if !more(list) || last {
			return last, nil
		}
	}
	return false, nil
}

// List implements Tracker: a request for each 100 issues, and one for each that merge requests name.
func (g GitLab) List(ctx context.Context) ([]Item, error) {
	var list []Item
	seen := map[int]bool{}
	path := "/issues?state=opened&scope=all&order_by=created_at&sort=asc&labels=" + url.QueryEscape(g.Label)
	var failed error
	_, err := pages(ctx, g.Client, path, mostItems/gitlabPage, func(page []gitlabIssue) bool {
		for _, is := range page {
			if is.IID < 1 || seen[is.IID] { // an issue was closed meanwhile, so that the pages have moved
				continue
			}
			seen[is.IID] = true
			var it Item
			if it, failed = g.item(ctx, is); failed != nil {
				return false
			}
			list = append(list, it)
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return list, err
}

// Get implements Tracker.
func (g GitLab) Get(ctx context.Context, id string) (Item, error) {
	n, err := number(id)
	if err != nil {
		return Item{}, err
	}
	var is gitlabIssue
	if _, err := g.Client.Get(ctx, "/issues/"+id, &is); err != nil {
		return Item{}, err
	}
	if is.IID != n {
		return Item{}, fmt.Errorf("issue %s: %w", id, ErrNotFound)
	}
	it, err := g.item(ctx, is)
	if err != nil || it.Held != "" {
		return it, err
	}
	marked, changed, err := g.history(ctx, id) // after the text: a change between the two is seen
	if err == nil {
		it.Held = edited(marked, changed)
	}
	return it, err
}

func (g GitLab) item(ctx context.Context, is gitlabIssue) (Item, error) {
	id := strconv.Itoa(is.IID)
	it := Item{ID: id, Title: is.Title, Body: is.Description, URL: is.URL, Closed: is.State == "closed", Closes: "Closes #" + id}
	switch {
	case it.Closed:
		it.Held = heldClosed
	case !slices.ContainsFunc(is.Labels, func(l string) bool { return strings.EqualFold(l, g.Label) }):
		it.Held = heldMark + text.Line(g.Label, 100)
	case is.MergeRequests > 0:
		var list []struct {
			IID   int    `json:"iid"`
			State string `json:"state"`
		}
		if _, err := g.Client.Get(ctx, "/issues/"+id+"/closed_by?per_page=100", &list); err != nil {
			return it, err
		}
		for _, m := range list {
			if m.State == "opened" {
				it.Held = fmt.Sprintf("merge request %d closes it", m.IID)
			}
		}
	}
	return it, nil
}

// history returns when the mark was set and when the text was changed, each time the last one. A change of which it may
// not know counts as one of now.
func (g GitLab) history(ctx context.Context, id string) (marked, changed time.Time, err error) {
	at := "/issues/" + id
	whole, err := pages(ctx, g.Client, at+"/resource_label_events?", mostPages, func(page []struct {
		At     time.Time `json:"created_at"`
		Action string    `json:"action"`
		Label  *struct {
			Name string `json:"name"`
		} `json:"label"` // null for a label that is gone
	}) bool {
		for _, e := range page {
			if e.Action == "add" && e.Label != nil && strings.EqualFold(e.Label.Name, g.Label) {
				marked = later(marked, e.At)
			}
		}
		return true
	})
	if err != nil {
		return marked, changed, err
	}
	if !whole {
		marked = time.Time{}
	}
	read := false
	whole, err = pages(ctx, g.Client, at+"/notes?sort=desc&order_by=created_at", mostPages, func(page []gitlabNote) bool {
		for _, n := range page {
			if n.System && (strings.HasPrefix(n.Body, "changed the description") || strings.HasPrefix(n.Body, "changed title")) {
				changed = later(changed, n.At)
			}
			read = read || n.At.Before(marked) // what is older does not matter
		}
		return !read
	})
	if err == nil && !whole && !read {
		changed = time.Now()
	}
	return marked, changed, err
}

type gitlabNote struct {
	Body   string    `json:"body"`
	At     time.Time `json:"created_at"`
	System bool      `json:"system"`
	Author struct {
		ID int64 `json:"id"`
	} `json:"author"`
}

// Tell implements Tracker.
func (g GitLab) Tell(ctx context.Context, id string, r Report) error {
	if _, err := number(id); err != nil {
		return err
	}
	at := "/issues/" + id
	var is gitlabIssue
	if _, err := g.Client.Get(ctx, at, &is); err != nil {
		return err
	}
	if body := r.comment(); body != "" {
		told, err := g.told(ctx, at, r.marker(id))
		if err != nil {
			return err
		}
		if !told {
			if err := g.Client.Send(ctx, "POST", at+"/notes", map[string]any{"body": body + "\n\n" + r.marker(id)}, nil); err != nil {
				return err
			}
		}
	}
	change, want := map[string]any{}, r.State.label()
	var gone []string
	for _, l := range is.Labels {
		if isStateLabel(l) && !strings.EqualFold(l, want) {
			gone = append(gone, l)
		}
	}
	if len(gone) > 0 {
		change["remove_labels"] = strings.Join(gone, ",")
	}
	if want != "" && !slices.ContainsFunc(is.Labels, func(l string) bool { return strings.EqualFold(l, want) }) {
		change["add_labels"] = want
	}
	if len(change) == 0 {
		return nil
	}
	return g.Client.Send(ctx, "PUT", at, change, nil)
}

// told reports whether the operator has written a note with the marker.
func (g GitLab) told(ctx context.Context, at, marker string) (told bool, err error) {
	var me struct {
		ID int64 `json:"id"`
	}
	if _, err := g.Client.Do(ctx, forge.Call{Method: "GET", Path: "user"}, &me); err != nil {
		return false, err
	}
	_, err = pages(ctx, g.Client, at+"/notes?sort=desc&order_by=created_at", mostPages, func(page []gitlabNote) bool {
		for _, n := range page {
			told = told || n.Author.ID == me.ID && strings.Contains(n.Body, marker)
		}
		return !told
	})
	return told, err
}

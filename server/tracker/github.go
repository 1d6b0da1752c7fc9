package tracker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/forge"
)

// GitHub are the issues of a repository on GitHub. Label is the mark.
type GitHub struct {
	Client forge.Client
	Label  string
}

var _ Tracker = GitHub{}

// githubPage is how many issues one request asks for: with bodies of 64 KiB they stay below the bound of an answer.
const githubPage = 50

// githubIssue are the fields of an issue. GitHub names merged pull requests, too, among those that close it. The text
// counts as changed when the title was.
const githubIssue = `fragment item on Issue {
  number title body url state lastEditedAt
  labels(first: 100) { nodes { name } }
  closedByPullRequestsReferences(first: 20) { nodes { number state } }
  timelineItems(last: 50, itemTypes: [LABELED_EVENT, RENAMED_TITLE_EVENT]) { nodes {
    __typename
    ... on LabeledEvent { createdAt label { name } }
    ... on RenamedTitleEvent { createdAt }
  } }
}`

const githubList = `query Items($owner: String!, $name: String!, $label: String!, $first: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    issues(first: $first, after: $after, states: OPEN, labels: [$label], orderBy: {field: CREATED_AT, direction: ASC}) {
      pageInfo { hasNextPage endCursor }
      nodes { ...item }
    }
  }
}
` + githubIssue

const githubGet = `query Item($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { issue(number: $number) { ...item } }
}
` + githubIssue

const githubComments = `query Reports($owner: String!, $name: String!, $number: Int!, $before: String) {
  repository(owner: $owner, name: $name) { issue(number: $number) {
    labels(first: 100) { nodes { name } }
    comments(last: 100, before: $before) { pageInfo { hasPreviousPage startCursor } nodes { body viewerDidAuthor } }
  } }
}`

type nodes[T any] struct{ Nodes []T }

type named struct{ Name string }

type githubNode struct {
	Number           int
	Title, Body, URL string
	State            string
	LastEditedAt     time.Time
	Labels           nodes[named]
	ClosedBy         nodes[githubPull] `json:"closedByPullRequestsReferences"`
	TimelineItems    nodes[githubEvent]
}

type githubPull struct {
	Number int
	State  string
}

type githubEvent struct {
	Type      string `json:"__typename"`
	CreatedAt time.Time
	Label     named
}

// List implements Tracker: a request for each 50 issues.
func (g GitHub) List(ctx context.Context) ([]Item, error) {
	var list []Item
	var after any
	for len(list) < mostItems {
		var data struct {
			Repository struct {
				Issues struct {
					PageInfo struct {
						HasNextPage bool
						EndCursor   string
					}
					Nodes []githubNode
				}
			}
		}
		vars := g.variables()
		vars["label"], vars["first"], vars["after"] = g.Label, githubPage, after
		if err := g.Client.Query(ctx, githubList, vars, &data); err != nil {
			return nil, err
		}
		page := data.Repository.Issues
		for _, n := range page.Nodes {
			if n.Number > 0 {
				list = append(list, g.item(n))
			}
		}
		if !page.PageInfo.HasNextPage || page.PageInfo.EndCursor == "" || page.PageInfo.EndCursor == after {
			break
		}
		after = page.PageInfo.EndCursor
	}
	return list, nil
}

// Get implements Tracker.
func (g GitHub) Get(ctx context.Context, id string) (Item, error) {
	number, err := number(id)
	if err != nil {
		return Item{}, err
	}
	var data struct {
		Repository struct{ Issue *githubNode }
	}
	vars := g.variables()
	vars["number"] = number
	if err := g.Client.Query(ctx, githubGet, vars, &data); err != nil {
		return Item{}, err
	}
	if data.Repository.Issue == nil || data.Repository.Issue.Number != number {
		return Item{}, fmt.Errorf("issue %s: %w", id, ErrNotFound)
	}
	return g.item(*data.Repository.Issue), nil
}

func (g GitHub) variables() map[string]any {
	owner, name, _ := strings.Cut(g.Client.Forge.Path, "/")
	return map[string]any{"owner": owner, "name": name}
}

func (g GitHub) item(n githubNode) Item {
	id := strconv.Itoa(n.Number)
	it := Item{ID: id, Title: n.Title, Body: n.Body, URL: n.URL, Closed: n.State == "CLOSED", Closes: "Closes #" + id}
	open := slices.IndexFunc(n.ClosedBy.Nodes, func(p githubPull) bool { return p.State == "OPEN" })
	var marked time.Time
	changed := n.LastEditedAt
	for _, e := range n.TimelineItems.Nodes {
		switch {
		case e.Type == "LabeledEvent" && strings.EqualFold(e.Label.Name, g.Label):
			marked = later(marked, e.CreatedAt)
		case e.Type == "RenamedTitleEvent":
			changed = later(changed, e.CreatedAt)
		}
	}
	switch {
	case it.Closed:
		it.Held = heldClosed
	case !slices.ContainsFunc(n.Labels.Nodes, func(l named) bool { return strings.EqualFold(l.Name, g.Label) }):
		it.Held = heldMark + text.Line(g.Label, 100)
	case open >= 0:
		it.Held = fmt.Sprintf("pull request %d closes it", n.ClosedBy.Nodes[open].Number)
	default:
		it.Held = edited(marked, changed)
	}
	return it
}

// mostPages bounds how far back Tell looks for a comment of its own.
const mostPages = 10

// Tell implements Tracker.
func (g GitHub) Tell(ctx context.Context, id string, r Report) error {
	number, err := number(id)
	if err != nil {
		return err
	}
	labels, told, err := g.told(ctx, number, r.marker(id))
	if err != nil {
		return err
	}
	at := "/issues/" + id
	if body := r.comment(); body != "" && !told {
		if err := g.Client.Send(ctx, "POST", at+"/comments", map[string]any{"body": body + "\n\n" + r.marker(id)}, nil); err != nil {
			return err
		}
	}
	for _, l := range labels {
		if isStateLabel(l) && !strings.EqualFold(l, r.State.label()) {
			err := g.Client.Send(ctx, "DELETE", at+"/labels/"+url.PathEscape(l), nil, nil)
			if err != nil && !errors.Is(err, ErrNotFound) { // somebody else removed it
				return err
			}
		}
	}
	if want := r.State.label(); want != "" && !slices.ContainsFunc(labels, func(l string) bool { return strings.EqualFold(l, want) }) {
		return g.Client.Send(ctx, "POST", at+"/labels", map[string]any{"labels": []string{want}}, nil)
	}
	return nil
}

// told returns the labels of an issue, and whether the operator has written a comment with the marker. Another's does not
// count: anybody could keep a report away with it.
func (g GitHub) told(ctx context.Context, number int, marker string) (labels []string, told bool, err error) {
	var before any
	for range mostPages {
		var data struct {
			Repository struct {
				Issue *struct {
					Labels   nodes[named]
					Comments struct {
						PageInfo struct {
							HasPreviousPage bool
							StartCursor     string
						}
						Nodes []struct {
							Body            string
							ViewerDidAuthor bool
						}
					}
				}
			}
		}
		vars := g.variables()
		vars["number"], vars["before"] = number, before
		if err := g.Client.Query(ctx, githubComments, vars, &data); err != nil {
			return nil, false, err
		}
		issue := data.Repository.Issue
		if issue == nil {
			return nil, false, fmt.Errorf("issue %d: %w", number, ErrNotFound)
		}
		if before == nil {
			for _, l := range issue.Labels.Nodes {
				labels = append(labels, l.Name)
			}
		}
		for _, c := range issue.Comments.Nodes {
			if c.ViewerDidAuthor && strings.Contains(c.Body, marker) {
				return labels, true, nil
			}
		}
		if !issue.Comments.PageInfo.HasPreviousPage {
			break
		}
		before = issue.Comments.PageInfo.StartCursor
	}
	return labels, false, nil
}

// number returns the number that an ID is.
func number(id string) (int, error) {
	n, err := strconv.ParseInt(id, 10, 32)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != id {
		return 0, badID(id)
	}
	return int(n), nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

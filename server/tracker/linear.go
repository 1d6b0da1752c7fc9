package tracker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/forge"
)

// LinearKey is the variable that holds the key of Linear.
const LinearKey = "LINEAR_API_KEY"

const linearAddress = "https://api.linear.app/graphql"

// Linear are the issues of a workspace of Linear. Label is the mark; Team is the key of a team, "ENG", or "" for all that
// the key sees. Everybody who can change an issue there can label it, so that no text is held for its changes.
type Linear struct {
	Key         redact.Secret
	Team, Label string
	Client      *http.Client // nil is one of its own
	Address     string       // "" is that of Linear; tests have another
}

var _ Tracker = Linear{}

// Bounds of one request, and how many issues it asks for. Linear counts what is asked for, not what there is.
const (
	linearTime  = time.Minute
	linearBytes = 32 << 20
	linearPage  = 50
)

const linearIssue = `fragment item on Issue {
  identifier title description url createdAt
  state { type }
  labels(first: 50) { nodes { name } }
  inverseRelations(first: 20) { nodes { type issue { identifier state { type } } } }
}`

const linearList = `query Items($filter: IssueFilter, $first: Int, $after: String) {
  issues(filter: $filter, first: $first, after: $after, orderBy: createdAt) { pageInfo { hasNextPage endCursor } nodes { ...item } }
}
` + linearIssue

const linearGet = `query Item($id: String!) { issue(id: $id) { ...item } }
` + linearIssue

const linearReports = `query Reports($id: String!, $comment: ID!, $label: String!) {
  issue(id: $id) { id team { id } labels(first: 50) { nodes { id name } } comments(filter: {id: {eq: $comment}}) { nodes { id } } }
  issueLabels(filter: {name: {eqIgnoreCase: $label}}, first: 50) { nodes { id name team { id } } }
}`

const linearComment = `mutation Comment($input: CommentCreateInput!) { commentCreate(input: $input) { success } }`

const linearLabel = `mutation NewLabel($input: IssueLabelCreateInput!) { issueLabelCreate(input: $input) { success issueLabel { id } } }`

const linearUpdate = `mutation Label($id: String!, $input: IssueUpdateInput!) { issueUpdate(id: $id, input: $input) { success } }`

type linearState struct{ Type string }

// over reports whether an issue in this state is closed.
func (s linearState) over() bool {
	return slices.Contains(linearOver(), s.Type)
}

func linearOver() []string { return []string{"completed", "canceled", "duplicate"} }

type linearNode struct {
	Identifier, Title, Description, URL string
	CreatedAt                           time.Time
	State                               linearState
	Labels                              nodes[named]
	InverseRelations                    nodes[struct {
		Type  string
		Issue struct {
			Identifier string
			State      linearState
		}
	}]
}

// List implements Tracker: a request for each 50 issues.
func (l Linear) List(ctx context.Context) ([]Item, error) {
	filter := map[string]any{"labels": map[string]any{"some": map[string]any{"name": map[string]any{"eqIgnoreCase": l.Label}}}, "state": map[string]any{"type": map[string]any{"nin": linearOver()}}}
	if l.Team != "" {
		filter["team"] = map[string]any{"key": map[string]any{"eq": l.Team}}
	}
	var all []linearNode
	var after any
	for len(all) < mostItems {
		var data struct {
			Issues struct {
				PageInfo struct {
					HasNextPage bool
					EndCursor   string
				}
				Nodes []linearNode
			}
		}
		if err := l.query(ctx, linearList, map[string]any{"filter": filter, "first": linearPage, "after": after}, &data); err != nil {
			return nil, err
		}
		all = append(all, data.Issues.Nodes...)
		if !data.Issues.PageInfo.HasNextPage || data.Issues.PageInfo.EndCursor == after {
			break
		}
		after = data.Issues.PageInfo.EndCursor
	}
	slices.SortStableFunc(all, func(a, b linearNode) int { return a.CreatedAt.Compare(b.CreatedAt) }) // Linear has the newest first
	var list []Item
	for _, n := range all {
		if ValidID(n.Identifier) {
			list = append(list, l.item(n))
		}
	}
	return list, nil
}

// Get implements Tracker.
func (l Linear) Get(ctx context.Context, id string) (Item, error) {
	if !linearID(id) {
		return Item{}, badID(id)
	}
	var data struct{ Issue *linearNode }
	if err := l.query(ctx, linearGet, map[string]any{"id": id}, &data); err != nil {
		return Item{}, err
	}
	if data.Issue == nil || data.Issue.Identifier != id { // an issue that went to another team has another id
		return Item{}, fmt.Errorf("issue %s: %w", id, ErrNotFound)
	}
	return l.item(*data.Issue), nil
}

// linearID reports whether an ID is a key of a team and a number.
func linearID(id string) bool {
	team, n, ok := strings.Cut(id, "-")
	_, err := number(n)
	return ok && err == nil && team != "" && ValidID(id)
}

func (l Linear) item(n linearNode) Item {
	it := Item{ID: n.Identifier, Title: n.Title, Body: n.Description, URL: n.URL, Closed: n.State.over(), Closes: "Fixes " + n.Identifier}
	for _, r := range n.InverseRelations.Nodes {
		if r.Type == "blocks" && !r.Issue.State.over() && ValidID(r.Issue.Identifier) {
			it.After = append(it.After, r.Issue.Identifier)
		}
	}
	switch {
	case it.Closed:
		it.Held = heldClosed
	case !slices.ContainsFunc(n.Labels.Nodes, func(x named) bool { return strings.EqualFold(x.Name, l.Label) }):
		it.Held = heldMark + text.Line(l.Label, 100)
	case len(it.After) > 0:
		it.Held = heldBlocked + strings.Join(it.After, ", ")
	}
	return it
}

type linearNamed struct {
	ID, Name string
	Team     *struct{ ID string }
}

// Tell implements Tracker. The id of a comment is made of the report, so that Linear has it once. A label that is missing
// is made, for the team of the issue.
func (l Linear) Tell(ctx context.Context, id string, r Report) error {
	if !linearID(id) {
		return badID(id)
	}
	want := r.State.label()
	var data struct {
		Issue *struct {
			ID       string
			Team     struct{ ID string }
			Labels   nodes[linearNamed]
			Comments nodes[struct{ ID string }]
		}
		IssueLabels nodes[linearNamed]
	}
	if err := l.query(ctx, linearReports, map[string]any{"id": id, "comment": r.uuid(id), "label": want}, &data); err != nil {
		return err
	}
	is := data.Issue
	if is == nil {
		return fmt.Errorf("issue %s: %w", id, ErrNotFound)
	}
	if body := r.comment(); body != "" && len(is.Comments.Nodes) == 0 {
		if err := l.query(ctx, linearComment, map[string]any{"input": map[string]any{"id": r.uuid(id), "issueId": is.ID, "body": body}}, nil); err != nil {
			return err
		}
	}
	var add, remove []string
	has := false
	for _, x := range is.Labels.Nodes {
		switch {
		case want != "" && strings.EqualFold(x.Name, want):
			has = true
		case isStateLabel(x.Name):
			remove = append(remove, x.ID)
		}
	}
	if want != "" && !has {
		at := slices.IndexFunc(data.IssueLabels.Nodes, func(x linearNamed) bool { return x.Team == nil || x.Team.ID == is.Team.ID })
		if at >= 0 {
			add = []string{data.IssueLabels.Nodes[at].ID}
		} else {
			var made struct {
				IssueLabelCreate struct{ IssueLabel struct{ ID string } }
			}
			if err := l.query(ctx, linearLabel, map[string]any{"input": map[string]any{"name": want, "teamId": is.Team.ID}}, &made); err != nil {
				return err
			}
			add = []string{made.IssueLabelCreate.IssueLabel.ID}
		}
	}
	if len(add)+len(remove) == 0 {
		return nil
	}
	input := map[string]any{"addedLabelIds": append([]string{}, add...), "removedLabelIds": append([]string{}, remove...)}
	return l.query(ctx, linearUpdate, map[string]any{"id": is.ID, "input": input}, nil)
}

// uuid returns the sum of a report in the form of a random UUID, which is what Linear takes.
func (r Report) uuid(id string) string {
	s := r.sum(id)
	return s[:8] + "-" + s[8:12] + "-4" + s[13:16] + "-a" + s[17:20] + "-" + s[20:]
}

// linearNext is what shows whether the key counts.
const linearNext = `curl -sS -H "Authorization: $` + LinearKey + `" -H "Content-Type: application/json" -d '{"query":"{viewer{name}}"}' ` + linearAddress

var errNoKey = errors.New(LinearKey + " is not in the environment of the daemon")

// query asks Linear. into gets the field data, or is nil.
func (l Linear) query(ctx context.Context, query string, variables map[string]any, into any) error {
	if l.Key == "" {
		return &forge.Error{Err: errNoKey, Next: linearNext}
	}
	send, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, linearTime)
	defer cancel()
	address := linearAddress
	if l.Address != "" {
		address = l.Address
	}
	req, err := http.NewRequestWithContext(bounded, http.MethodPost, address, bytes.NewReader(send))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", l.Key.Reveal())
	client := http.Client{}
	if l.Client != nil {
		client = *l.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the key goes nowhere else
	resp, err := client.Do(req)
	var body []byte
	if err == nil {
		defer resp.Body.Close()
		body, err = io.ReadAll(io.LimitReader(resp.Body, linearBytes))
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return &Unavailable{Err: fmt.Errorf("asking Linear: %w", text.Reason(err))}
	}
	return linearAnswer(resp.StatusCode, resp.Header, body, into)
}

// linearAnswer decodes an answer of Linear, or says what a refusal means.
func linearAnswer(status int, h http.Header, body []byte, into any) error {
	var answer struct {
		Data   json.RawMessage
		Errors []struct {
			Message    string
			Extensions struct{ Code, Type string }
		}
	}
	decoded := text.Decode(body, &answer)
	said := ""
	if decoded == nil && len(answer.Errors) > 0 {
		e := answer.Errors[0]
		said = text.Line(e.Extensions.Code+": "+e.Message, 300)
		err := fmt.Errorf("asking Linear: HTTP %d: %s", status, said)
		switch {
		case e.Extensions.Code == "RATELIMITED":
			return &Unavailable{Err: err, Until: linearReset(h, true, time.Now())}
		case strings.HasPrefix(e.Message, "Entity not found"):
			return fmt.Errorf("%w: %w", err, ErrNotFound)
		case status < 500 && e.Extensions.Code != "INTERNAL_SERVER_ERROR" && status != http.StatusTooManyRequests:
			return &forge.Error{Err: err, Next: linearNext}
		}
	}
	err := fmt.Errorf("asking Linear: HTTP %d: %s", status, said)
	switch {
	case status == http.StatusTooManyRequests || status >= 500:
		return &Unavailable{Err: err, Until: linearReset(h, status == http.StatusTooManyRequests, time.Now())}
	case status >= 300:
		return &forge.Error{Err: err, Next: linearNext}
	case decoded == nil && said != "":
		return &Unavailable{Err: err}
	}
	if decoded == nil && into != nil {
		decoded = text.Decode(answer.Data, into)
	}
	if decoded != nil {
		return &Unavailable{Err: fmt.Errorf("asking Linear: the answer is not what Linear answers: %w", decoded)}
	}
	return nil
}

// linearReset returns when a spent limit of Linear begins anew, by its headers in milliseconds; else what other headers
// say.
func linearReset(h http.Header, limited bool, now time.Time) time.Time {
	for _, kind := range []string{"Requests", "Complexity", "Endpoint-Requests"} {
		ms, err := strconv.ParseInt(h.Get("X-RateLimit-"+kind+"-Reset"), 10, 64)
		at := time.UnixMilli(ms)
		if err == nil && h.Get("X-RateLimit-"+kind+"-Remaining") == "0" && at.After(now) && at.Before(now.Add(24*time.Hour)) {
			return at
		}
	}
	return forge.Reset(h, limited, now)
}

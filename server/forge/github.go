package forge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

const githubFeedback = `query Feedback($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    headRefOid
    commits(last: 1) { nodes { commit { statusCheckRollup { contexts(last: 100) { nodes {
      __typename
      ... on CheckRun { databaseId name status conclusion detailsUrl title summary text completedAt
        checkSuite { app { slug } }
        annotations(first: 10) { nodes { path message annotationLevel location { start { line } } } } }
      ... on StatusContext { id context state targetUrl description createdAt }
    } } } } } }
    reviews(last: 100) { nodes { state ...who } }
    comments(last: 100) { nodes { ...said } }
    reviewThreads(last: 100) { nodes { isResolved path line comments(first: 20) { nodes { ...said } } } }
  } }
}
fragment who on PullRequestReview { databaseId body url createdAt lastEditedAt authorAssociation author { __typename login } }
fragment said on Comment { body createdAt lastEditedAt authorAssociation author { __typename login }
  ... on IssueComment { databaseId url } ... on PullRequestReviewComment { databaseId url } }
`

type nodes[T any] struct{ Nodes []T }

// githubSaid is a comment or a review.
type githubSaid struct {
	DatabaseID        int64
	State             string // of a review
	Body, URL         string
	CreatedAt         time.Time
	LastEditedAt      time.Time
	AuthorAssociation string
	Author            struct {
		Type  string `json:"__typename"`
		Login string
	}
}

// counts reports whether somebody wrote it whose word counts.
func (s githubSaid) counts() bool {
	return s.Author.Type == "User" && slices.Contains([]string{"OWNER", "MEMBER", "COLLABORATOR"}, s.AuthorAssociation) && !strings.Contains(s.Body, Own)
}

func (s githubSaid) entry(id string, kind Kind, where string) Entry {
	at := s.CreatedAt
	if s.LastEditedAt.After(at) {
		at = s.LastEditedAt
	}
	return Entry{ID: fmt.Sprintf("%s-%d", id, s.DatabaseID), At: at, Kind: kind, By: s.Author.Login, Where: where, URL: s.URL, Text: s.Body}
}

// githubCheck is a check run or a commit status.
type githubCheck struct {
	Type                                       string `json:"__typename"`
	DatabaseID                                 int64
	Name, Status, Conclusion, DetailsURL       string
	Title, Summary, Text                       string
	CompletedAt, CreatedAt                     time.Time
	ID, Context, State, TargetURL, Description string
	CheckSuite                                 struct{ App struct{ Slug string } }
	Annotations                                nodes[struct {
		Path, Message, AnnotationLevel string
		Location                       struct{ Start struct{ Line int } }
	}]
}

func (c Client) readGitHub(ctx context.Context, f *Feedback) error {
	var data struct {
		Repository struct {
			PullRequest struct {
				HeadRefOid string
				Commits    nodes[struct {
					Commit struct {
						StatusCheckRollup struct{ Contexts nodes[githubCheck] }
					}
				}]
				Reviews, Comments nodes[githubSaid]
				ReviewThreads     nodes[struct {
					IsResolved bool
					Path       string
					Line       int
					Comments   nodes[githubSaid]
				}]
			}
		}
	}
	owner, name, _ := strings.Cut(c.Forge.Path, "/")
	if err := c.Query(ctx, githubFeedback, map[string]any{"owner": owner, "name": name, "number": f.Pull.Number}, &data); err != nil {
		return err
	}
	pull := data.Repository.PullRequest
	f.Head = pull.HeadRefOid
	for i, r := range pull.Reviews.Nodes {
		if !r.counts() {
			continue
		}
		withdrawn := slices.ContainsFunc(pull.Reviews.Nodes[i+1:], func(next githubSaid) bool {
			return next.Author.Login == r.Author.Login && (next.State == "APPROVED" || next.State == "CHANGES_REQUESTED")
		})
		switch {
		case r.State == "CHANGES_REQUESTED" && !withdrawn:
			f.Entries = append(f.Entries, r.entry("review", ChangesRequested, ""))
		case r.State == "COMMENTED" && strings.TrimSpace(r.Body) != "" && !withdrawn: // who approves asks for nothing
			f.Entries = append(f.Entries, r.entry("review", Commented, ""))
		}
	}
	for _, s := range pull.Comments.Nodes {
		if s.counts() {
			f.Entries = append(f.Entries, s.entry("comment", Commented, ""))
		}
	}
	for _, t := range pull.ReviewThreads.Nodes {
		for _, s := range t.Comments.Nodes {
			if !t.IsResolved && s.counts() {
				f.Entries = append(f.Entries, s.entry("line", Commented, line(t.Path, t.Line)))
			}
		}
	}
	var checks []githubCheck
	for _, n := range pull.Commits.Nodes {
		checks = append(checks, n.Commit.StatusCheckRollup.Contexts.Nodes...)
	}
	return c.githubChecks(ctx, f, checks)
}

// githubChecks adds the checks. A failed job of Actions without a summary gets the end of its log.
func (c Client) githubChecks(ctx context.Context, f *Feedback, checks []githubCheck) error {
	logs := 0
	for _, k := range checks {
		e := Entry{ID: fmt.Sprintf("check-%d", k.DatabaseID), At: k.CompletedAt, Kind: FailedCheck, Where: k.Name, URL: k.DetailsURL}
		result := k.Conclusion
		if k.Type == "StatusContext" {
			result = k.State
			e = Entry{ID: "status-" + k.ID, At: k.CreatedAt, Kind: FailedCheck, Where: k.Context, URL: k.TargetURL, Text: k.Description}
		}
		switch result {
		case "", "PENDING", "EXPECTED":
			f.Pending++
			continue
		case "SUCCESS", "NEUTRAL", "SKIPPED", "STALE":
			f.Passed++
			continue
		}
		if k.Type != "StatusContext" {
			parts := []string{k.Title, k.Summary, k.Text}
			for _, a := range k.Annotations.Nodes {
				parts = append(parts, line(a.Path, a.Location.Start.Line)+": "+a.Message)
			}
			if k.Summary == "" && k.CheckSuite.App.Slug == "github-actions" && logs < mostLogs {
				logs++
				end, err := c.logTail(ctx, fmt.Sprintf("/actions/jobs/%d/logs", k.DatabaseID))
				if err != nil {
					return err
				}
				parts = append(parts, end)
			}
			e.Text = strings.Join(slices.DeleteFunc(parts, func(s string) bool { return strings.TrimSpace(s) == "" }), "\n")
		}
		f.Entries = append(f.Entries, e)
	}
	return nil
}

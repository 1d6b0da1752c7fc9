package forge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/pattern"
)

// developer is the least access with which a member of a project of GitLab may push.
const developer = 30

// mostAuthors bounds how many people one Feedback asks about.
const mostAuthors = 50

// gitlabBot matches the users that GitLab makes for the tokens of a project or a group, and its own.
var gitlabBot = pattern.Lazy(`^(project|group)_[0-9]+_bot|^(ghost|support-bot|alert-bot)$|[_-]bot$`)

type gitlabUser struct {
	ID       int64  `json:"id"`
	Username string `json:"username"`
	Bot      bool   `json:"bot"`
}

// gitlabMembers knows who may write to a project, as far as somebody has asked.
type gitlabMembers struct {
	c    Client
	know map[int64]bool
}

// may reports whether somebody is a member with the right to push, and no bot.
func (m gitlabMembers) may(ctx context.Context, u gitlabUser) (bool, error) {
	if u.ID == 0 || u.Bot || gitlabBot().MatchString(u.Username) {
		return false, nil
	}
	if may, ok := m.know[u.ID]; ok || len(m.know) >= mostAuthors {
		return may, nil
	}
	var member struct {
		Access int `json:"access_level"`
	}
	_, err := m.c.Get(ctx, fmt.Sprintf("/members/all/%d", u.ID), &member)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, err
	}
	m.know[u.ID] = err == nil && member.Access >= developer
	return m.know[u.ID], nil
}

func (c Client) readGitLab(ctx context.Context, f *Feedback) error {
	at := fmt.Sprintf("/merge_requests/%d", f.Pull.Number)
	var request struct {
		SHA      string `json:"sha"`
		Pipeline struct {
			ID int64 `json:"id"`
		} `json:"head_pipeline"`
	}
	if _, err := c.Get(ctx, at, &request); err != nil {
		return err
	}
	f.Head = request.SHA
	members := gitlabMembers{c, map[int64]bool{}}
	if err := c.gitlabReviews(ctx, f, at, members); err != nil {
		return err
	}
	if err := c.gitlabNotes(ctx, f, at, members); err != nil || request.Pipeline.ID == 0 {
		return err
	}
	return c.gitlabJobs(ctx, f, request.Pipeline.ID)
}

func (c Client) gitlabReviews(ctx context.Context, f *Feedback, at string, members gitlabMembers) error {
	var reviewers []struct {
		User      gitlabUser `json:"user"`
		State     string     `json:"state"`
		CreatedAt time.Time  `json:"created_at"`
	}
	if _, err := c.Get(ctx, at+"/reviewers", &reviewers); err != nil && !errors.Is(err, ErrNotFound) { // GitLab before 13.8
		return err
	}
	for _, r := range reviewers {
		if r.State != "requested_changes" {
			continue
		}
		may, err := members.may(ctx, r.User)
		if err != nil {
			return err
		}
		if may {
			f.Entries = append(f.Entries, Entry{ID: fmt.Sprintf("review-%d-%s", r.User.ID, f.Head), At: r.CreatedAt, Kind: ChangesRequested, By: r.User.Username, URL: f.Pull.URL})
		}
	}
	return nil
}

func (c Client) gitlabNotes(ctx context.Context, f *Feedback, at string, members gitlabMembers) error {
	var notes []struct {
		ID        int64      `json:"id"`
		Body      string     `json:"body"`
		Author    gitlabUser `json:"author"`
		CreatedAt time.Time  `json:"created_at"`
		UpdatedAt time.Time  `json:"updated_at"`
		System    bool       `json:"system"`
		Resolved  bool       `json:"resolved"`
		Position  struct {
			Path string `json:"new_path"`
			Line int    `json:"new_line"`
		} `json:"position"`
	}
	if _, err := c.Get(ctx, fmt.Sprintf("%s/notes?per_page=%d&sort=desc&order_by=created_at", at, mostPage), &notes); err != nil {
		return err
	}
	for _, n := range notes {
		if n.System || n.Resolved || strings.Contains(n.Body, Own) {
			continue
		}
		may, err := members.may(ctx, n.Author)
		if err != nil {
			return err
		}
		if may {
			f.Entries = append(f.Entries, Entry{ID: fmt.Sprintf("note-%d", n.ID), At: n.UpdatedAt, Kind: Commented, By: n.Author.Username,
				Where: line(n.Position.Path, n.Position.Line), URL: fmt.Sprintf("%s#note_%d", f.Pull.URL, n.ID), Text: n.Body})
		}
	}
	return nil
}

// gitlabJobs adds the jobs of a pipeline. A failed one gets the end of its log.
func (c Client) gitlabJobs(ctx context.Context, f *Feedback, pipeline int64) error {
	var jobs []struct {
		ID         int64     `json:"id"`
		Name       string    `json:"name"`
		Status     string    `json:"status"`
		URL        string    `json:"web_url"`
		Reason     string    `json:"failure_reason"`
		Allowed    bool      `json:"allow_failure"`
		FinishedAt time.Time `json:"finished_at"`
	}
	if _, err := c.Get(ctx, fmt.Sprintf("/pipelines/%d/jobs?per_page=%d", pipeline, mostPage), &jobs); err != nil {
		return err
	}
	logs := 0
	for _, j := range jobs {
		switch {
		case j.Status == "success" || j.Status == "skipped" || j.Status == "failed" && j.Allowed:
			f.Passed++
			continue
		case j.Status == "manual":
			continue
		case j.Status != "failed" && j.Status != "canceled":
			f.Pending++
			continue
		}
		e := Entry{ID: fmt.Sprintf("check-%d", j.ID), At: j.FinishedAt, Kind: FailedCheck, Where: j.Name, URL: j.URL, Text: j.Reason}
		if logs < mostLogs {
			logs++
			end, err := c.logTail(ctx, fmt.Sprintf("/jobs/%d/trace", j.ID))
			if err != nil {
				return err
			}
			e.Text = strings.TrimSpace(j.Reason + "\n" + end)
		}
		f.Entries = append(f.Entries, e)
	}
	return nil
}

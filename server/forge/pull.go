package forge

import (
	"context"
	"fmt"
	"net/url"
)

// Pull is a pull request that exists.
type Pull struct {
	Number int
	URL    string
}

// Request is a pull request as it ought to be.
type Request struct {
	Branch, Title, Body string
	Base                string // "" is the default branch
	Ready               bool   // not a draft
}

// answer is a pull request of GitHub or a merge request of GitLab.
type answer struct {
	Number  int    `json:"number"`
	IID     int    `json:"iid"`
	URL     string `json:"html_url"`
	WebURL  string `json:"web_url"`
	State   string `json:"state"`
	Merged  string `json:"merged_at"`
	From    int    `json:"source_project_id"`
	Project int    `json:"target_project_id"`
}

func (a answer) pull() Pull { return Pull{max(a.Number, a.IID), a.URL + a.WebURL} }

// FindCall returns the call that lists the open pull requests of a branch of the repository itself, not of a fork.
func (f Forge) FindCall(branch string) Call {
	if f.Program == Glab {
		return Call{Method: "GET", Path: f.Root() + "/merge_requests?per_page=100&state=opened&source_branch=" + url.QueryEscape(branch)}
	}
	return Call{Method: "GET", Path: f.Root() + "/pulls?per_page=100&state=open&head=" + url.QueryEscape(f.owner()+":"+branch)}
}

// CreateCall returns the call that opens a pull request. r has a base.
func (f Forge) CreateCall(r Request) Call {
	if f.Program == Glab {
		if !r.Ready {
			r.Title = "Draft: " + r.Title
		}
		return Call{Method: "POST", Path: f.Root() + "/merge_requests", Body: map[string]any{"source_branch": r.Branch, "target_branch": r.Base, "title": r.Title, "description": r.Body}}
	}
	return Call{Method: "POST", Path: f.Root() + "/pulls", Body: map[string]any{"head": r.Branch, "base": r.Base, "title": r.Title, "body": r.Body, "draft": !r.Ready}}
}

// Open opens a pull request for a branch that was pushed, or replaces the body of the one that is open. made says which.
func (c Client) Open(ctx context.Context, r Request) (p Pull, made bool, err error) {
	var list []answer
	if _, err := c.Do(ctx, c.Forge.FindCall(r.Branch), &list); err != nil {
		return Pull{}, false, err
	}
	for _, a := range list {
		if a.From != a.Project {
			continue
		}
		p := a.pull()
		if c.Forge.Program == Glab {
			return p, false, c.Send(ctx, "PUT", fmt.Sprintf("/merge_requests/%d", p.Number), map[string]any{"description": r.Body}, nil)
		}
		return p, false, c.Send(ctx, "PATCH", fmt.Sprintf("/pulls/%d", p.Number), map[string]any{"body": r.Body}, nil)
	}
	if r.Base == "" {
		if r.Base, err = c.Default(ctx); err != nil {
			return Pull{}, false, err
		}
	}
	var a answer
	_, err = c.Do(ctx, c.Forge.CreateCall(r), &a)
	return a.pull(), true, err
}

// Default returns the default branch of the repository.
func (c Client) Default(ctx context.Context) (string, error) {
	var repo struct {
		Branch string `json:"default_branch"`
	}
	_, err := c.Get(ctx, "", &repo)
	if err == nil && repo.Branch == "" {
		err = &Error{Err: fmt.Errorf("%s names no default branch of %s", c.Forge.Program, c.Forge.Path), Next: c.Forge.look()}
	}
	return repo.Branch, err
}

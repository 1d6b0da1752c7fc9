package forgefake

import (
	"slices"
	"strings"
	"time"
)

// Issue is an issue. Tests get copies.
type Issue struct {
	Number              int
	Title, Body, Author string
	Closed              bool
	Labels              []string
	Comments            []Comment
	created, edited     time.Time
	events              []event // labels, titles, texts, in order
}

// event is something of the history of an issue: labeled, unlabeled, renamed, described.
type event struct {
	id              int
	what, by, label string
	at              time.Time
}

// Comment is a comment of an issue or a pull request. Path is the file of a comment in a review.
type Comment struct {
	ID         int
	By, Body   string
	Path       string
	Resolved   bool
	at, edited time.Time
}

// AddIssue adds an issue of somebody, and returns its number. Its labels are set by Ann, a second later.
func (s *Server) AddIssue(by, title, text string, labels ...string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := &Issue{Number: s.number(), Title: title, Body: text, Author: by, created: s.tick()}
	s.issues = append(s.issues, is)
	for _, l := range labels {
		s.label(is, Ann, l, true)
	}
	return is.Number
}

// number returns the next number, which issues and pull requests share.
func (s *Server) number() int { return len(s.issues) + len(s.pulls) + 1 }

// Issue returns an issue as it is now.
func (s *Server) Issue(number int) Issue {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := *s.issue(number)
	is.Labels, is.Comments = slices.Clone(is.Labels), slices.Clone(is.Comments)
	return is
}

// Edit changes the text of an issue.
func (s *Server) Edit(number int, by, text string) {
	s.change(number, func(is *Issue) {
		is.Body, is.edited = text, s.tick()
		is.events = append(is.events, event{id: s.id(), what: "described", by: by, at: is.edited})
	})
}

// Rename changes the title of an issue.
func (s *Server) Rename(number int, by, title string) {
	s.change(number, func(is *Issue) {
		is.Title = title
		is.events = append(is.events, event{id: s.id(), what: "renamed", by: by, at: s.tick()})
	})
}

// Label sets a label, or sets it again if the issue has it.
func (s *Server) Label(number int, by, label string) {
	s.change(number, func(is *Issue) {
		s.label(is, by, label, false)
		s.label(is, by, label, true)
	})
}

// Unlabel removes a label.
func (s *Server) Unlabel(number int, by, label string) {
	s.change(number, func(is *Issue) { s.label(is, by, label, false) })
}

// Close closes an issue.
func (s *Server) Close(number int) { s.change(number, func(is *Issue) { is.Closed = true }) }

// Comment adds a comment to an issue.
func (s *Server) Comment(number int, by, text string) {
	s.change(number, func(is *Issue) {
		is.Comments = append(is.Comments, Comment{ID: s.id(), By: by, Body: text, at: s.tick()})
	})
}

func (s *Server) change(number int, f func(*Issue)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.issue(number))
}

// issue returns an issue, or nil.
func (s *Server) issue(number int) *Issue {
	for _, is := range s.issues {
		if is.Number == number {
			return is
		}
	}
	return nil
}

func (s *Server) label(is *Issue, by, label string, set bool) {
	at := slices.IndexFunc(is.Labels, func(l string) bool { return strings.EqualFold(l, label) })
	what := "labeled"
	switch {
	case set && at < 0:
		is.Labels = append(is.Labels, label)
	case !set && at >= 0:
		is.Labels, what = slices.Delete(is.Labels, at, at+1), "unlabeled"
	default:
		return
	}
	is.events = append(is.events, event{id: s.id(), what: what, by: by, label: label, at: s.tick()})
}

func (is *Issue) has(label string) bool {
	return slices.ContainsFunc(is.Labels, func(l string) bool { return strings.EqualFold(l, label) })
}

// Pull is a pull request. Tests get copies.
type Pull struct {
	Number                            int
	Author, Branch, Base, Title, Body string
	Head                              string // the commit
	Draft, Fork, Merged, Closed       bool
	Closes                            []int // issues
	Checks                            []Check
	Reviews                           []Review
	Comments                          []Comment // with a Path: in the files
	created                           time.Time
}

// Check is a check of a commit. Result is that of GitHub: "success", "failure", "" while it runs. Log is what its job has
// written, and Status says that it is one of the older kind, without a log.
type Check struct {
	ID                         int
	Name, Result, Summary, Log string
	Status                     bool
	at                         time.Time
}

// Review is a review. State is that of GitHub: APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED.
type Review struct {
	ID              int
	By, State, Body string
	at              time.Time
}

// AddPull adds a pull request, and returns its number.
func (s *Server) AddPull(p Pull) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addPull(p).Number
}

func (s *Server) addPull(p Pull) *Pull {
	p.Number, p.created = s.number(), s.tick()
	if p.Head == "" {
		p.Head = strings.Repeat("0", 38) + "a1"
	}
	s.pulls = append(s.pulls, &p)
	return &p
}

// Pull returns a pull request as it is now.
func (s *Server) Pull(number int) Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := *s.pull(number)
	p.Checks, p.Reviews, p.Comments = slices.Clone(p.Checks), slices.Clone(p.Reviews), slices.Clone(p.Comments)
	return p
}

// Pulls returns all pull requests as they are now.
func (s *Server) Pulls() (all []Pull) {
	s.mu.Lock()
	numbers := make([]int, 0, len(s.pulls))
	for _, p := range s.pulls {
		numbers = append(numbers, p.Number)
	}
	s.mu.Unlock()
	for _, n := range numbers {
		all = append(all, s.Pull(n))
	}
	return all
}

// Change changes a pull request. What is new in it gets its id and its time.
func (s *Server) Change(number int, f func(*Pull)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pull(number)
	f(p)
	stamp := func(id *int, at *time.Time) {
		if *id == 0 {
			*id, *at = s.id(), s.tick()
		}
	}
	for i := range p.Checks {
		stamp(&p.Checks[i].ID, &p.Checks[i].at)
	}
	for i := range p.Reviews {
		stamp(&p.Reviews[i].ID, &p.Reviews[i].at)
	}
	for i := range p.Comments {
		stamp(&p.Comments[i].ID, &p.Comments[i].at)
	}
}

// pull returns a pull request, or nil.
func (s *Server) pull(number int) *Pull {
	for _, p := range s.pulls {
		if p.Number == number {
			return p
		}
	}
	return nil
}

func (p *Pull) open() bool { return !p.Merged && !p.Closed }

// association is what somebody is to the repository, as GitHub says it.
func association(who string) string {
	switch who {
	case Ann:
		return "OWNER"
	case Bob, Me:
		return "COLLABORATOR"
	}
	return "NONE"
}

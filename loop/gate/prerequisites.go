package gate

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// Types of a prerequisite.
const (
	CheckMarkdownComplete  = "markdown_checklist_complete"
	CheckRegexPresent      = "file_regex_present"
	CheckRegexAbsent       = "file_regex_absent"
	CheckContainsAll       = "file_contains_all"
	CheckNotContainsAny    = "file_not_contains_any"
	CheckFileExists        = "file_exists"
	CheckFileNonempty      = "file_nonempty"
	reasonInvalidRegex     = "invalid_regex"
	reasonUnsupportedCheck = "unsupported_check_type"
)

// PrerequisiteCheck is one fact about a file that must hold. Pattern is a
// regular expression as JavaScript writes it, Flags its flags (see
// compileRegex); Needles are literal texts; MinChars counts characters without
// the white space around the text, and is 1 when it is less.
type PrerequisiteCheck struct {
	ID       string
	Type     string
	Path     string // may hold the placeholders that the caller gives
	Pattern  string
	Flags    string
	Needles  []string
	MinChars int
}

// PrerequisiteFailure is a check that does not hold, and why. Path is the
// check's own, with its placeholders replaced.
type PrerequisiteFailure struct {
	ID      string         `json:"id"`
	Type    string         `json:"type"`
	Path    string         `json:"path"`
	Reason  string         `json:"reason"`
	Details map[string]any `json:"details"`
}

// PrerequisitesResult is prerequisites-results.json without its time.
type PrerequisitesResult struct {
	OK       bool
	Total    int
	Verified []string // ids of the checks that hold
	Failed   []PrerequisiteFailure
}

// Status is "ok" or "failed".
func (r PrerequisitesResult) Status() string {
	if r.OK {
		return StatusOK
	}
	return StatusFailed
}

// ResultsJSON is prerequisites-results.json.
func (r PrerequisitesResult) ResultsJSON(at time.Time) []byte {
	return pretty(struct {
		OK          bool                  `json:"ok"`
		GeneratedAt string                `json:"generated_at"`
		Total       int                   `json:"total"`
		Passed      int                   `json:"passed"`
		Verified    []string              `json:"verified"`
		Failed      []PrerequisiteFailure `json:"failed"`
	}{r.OK, stamp(at), r.Total, len(r.Verified), orEmpty(r.Verified), orEmpty(r.Failed)})
}

// Prerequisites runs every check against the repository. vars gives the values
// of the placeholders {repo}, {loop_id}, {loop} and {iteration} in a path; one
// that is not given stays as it is, and its file is not found. A path outside
// the repository, an unknown type, a pattern that does not compile and a check
// that names nothing to look for fail. The error is for a repository that
// cannot be opened.
func Prerequisites(root string, checks []PrerequisiteCheck, vars map[string]string) (PrerequisitesResult, error) {
	res := PrerequisitesResult{Total: len(checks)}
	t, err := openTree(root)
	if err != nil {
		return res, err
	}
	defer t.close()
	fill := placeholders(vars)
	for i, c := range checks {
		c.Path = fill.Replace(c.Path)
		if c.ID == "" {
			c.ID = fmt.Sprintf("%s:%s", orUnknown(c.Type), c.Path)
			if c.Path == "" {
				c.ID = fmt.Sprintf("%s:%d", orUnknown(c.Type), i)
			}
		}
		reason, details := t.check(c)
		if reason == "" {
			res.Verified = append(res.Verified, c.ID)
			continue
		}
		res.Failed = append(res.Failed, PrerequisiteFailure{
			ID: c.ID, Type: orUnknown(c.Type), Path: c.Path, Reason: reason, Details: details,
		})
	}
	res.OK = len(res.Failed) == 0
	return res, nil
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func placeholders(vars map[string]string) *strings.Replacer {
	names := make([]string, 0, len(vars))
	for name := range vars {
		names = append(names, name)
	}
	sort.Strings(names)
	var pairs []string
	for _, name := range names {
		pairs = append(pairs, "{"+name+"}", vars[name])
	}
	return strings.NewReplacer(pairs...)
}

// StatusJSON is validation-status.json or prerequisites-status.json: the
// verdict, and the name of the file with the details, "" for none.
func StatusJSON(status, resultsFile string, at time.Time) []byte {
	var results *string
	if resultsFile != "" {
		results = &resultsFile
	}
	return pretty(struct {
		OK          bool    `json:"ok"`
		Status      string  `json:"status"`
		GeneratedAt string  `json:"generated_at"`
		ResultsFile *string `json:"results_file"`
	}{status == StatusOK || status == StatusSkipped, status, stamp(at), results})
}

package take

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/internal/text"
)

// Forge is where a pull request is opened: a host, the path of a repository there, and the program that knows the host.
type Forge struct{ Program, Host, Path string }

// The programs that know a forge.
const (
	programGH   = "gh"
	programGlab = "glab"
)

// scp matches the address of ssh without a scheme: [user@]host:path.
var scp = pattern.Lazy(`^(?:[A-Za-z0-9._-]+@)?([A-Za-z0-9.-]+):([^/].*|/[^/].*)$`)

// ForgeOf reads the address of a remote. env is the environment of the user: GH_HOST and GITLAB_HOST name a host of their
// own. ok is false for an address that has no host, such as a path, or whose host no program is known for; then Host and
// Path are what is known.
func ForgeOf(remote string, env func(string) string) (f Forge, ok bool) {
	if u, err := url.Parse(remote); err == nil && (u.Scheme == "https" || u.Scheme == "ssh") && u.Hostname() != "" {
		f.Host, f.Path = u.Hostname(), u.Path
	} else if m := scp().FindStringSubmatch(remote); m != nil && !strings.Contains(remote, "://") {
		f.Host, f.Path = m[1], m[2]
	}
	f.Host = strings.ToLower(f.Host)
	f.Path = strings.TrimSuffix(strings.Trim(f.Path, "/"), ".git")
	if !hostname().MatchString(f.Host) || !slug().MatchString(f.Path) {
		return f, false
	}
	switch host := f.Host; {
	case strings.EqualFold(host, env("GH_HOST")):
		f.Program = programGH
	case strings.EqualFold(host, strings.TrimPrefix(env("GITLAB_HOST"), "https://")):
		f.Program = programGlab
	case strings.Contains(host, "github"), strings.HasSuffix(host, ".ghe.com"):
		f.Program = programGH
	case strings.Contains(host, "gitlab"):
		f.Program = programGlab
	}
	if f.Program == programGH && strings.Count(f.Path, "/") != 1 {
		return f, false
	}
	return f, f.Program != ""
}

var hostname = pattern.Lazy(`^[a-z0-9][a-z0-9.-]*$`)

// slug matches the path of a repository on a host: OWNER/REPO, for GitLab with groups between the two.
var slug = pattern.Lazy(`^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$`)

// Pull is a pull request that exists.
type Pull struct {
	Number int
	URL    string
}

// Call is one call of a forge's program.
type Call struct {
	Args  []string // without the program
	Stdin string
}

// Find returns the call that lists the open pull requests of a branch as JSON.
func (f Forge) Find(branch string) Call {
	if f.Program == programGlab {
		return f.api("GET", "/merge_requests?state=opened&source_branch="+url.QueryEscape(branch))
	}
	return Call{Args: []string{"pr", "list", "--repo", f.repo(), "--head", branch, "--state", "open", "--json", "number,url"}}
}

// Found reads what the call of Find has printed.
func (f Forge) Found(out []byte) (list []Pull, err error) {
	var found []struct {
		Number int    `json:"number"`
		IID    int    `json:"iid"`
		URL    string `json:"url"`
		WebURL string `json:"web_url"`
	}
	if err := text.Decode(out, &found); err != nil {
		return nil, fmt.Errorf("%s printed no list of pull requests: %w", f.Program, err)
	}
	for _, p := range found {
		list = append(list, Pull{Number: max(p.Number, p.IID), URL: p.URL + p.WebURL})
	}
	return list, nil
}

// Default returns the call that asks for the default branch as JSON, and whether the program needs it to create a pull
// request without a base.
func (f Forge) Default() (c Call, needed bool) {
	return f.api("GET", ""), f.Program == programGlab
}

// Create returns the call that opens a pull request. base may be "" where Default is not needed.
func (f Forge) Create(branch, base, title, body string, draft bool) Call {
	if f.Program == programGlab {
		if draft {
			title = "Draft: " + title
		}
		return f.api("POST", "/merge_requests", "source_branch="+branch, "target_branch="+base, "title="+title, "description="+body)
	}
	args := []string{"pr", "create", "--repo", f.repo(), "--head", branch, "--title", title, "--body-file", "-"}
	if base != "" {
		args = append(args, "--base", base)
	}
	if draft {
		args = append(args, "--draft")
	}
	return Call{Args: args, Stdin: body}
}

// Update returns the call that replaces the body of a pull request.
func (f Forge) Update(number int, body string) Call {
	if f.Program == programGlab {
		return f.api("PUT", fmt.Sprintf("/merge_requests/%d", number), "description="+body)
	}
	return Call{Args: []string{"pr", "edit", fmt.Sprint(number), "--repo", f.repo(), "--body-file", "-"}, Stdin: body}
}

// api returns a call of glab api. The other subcommands of glab want to stand in a clone, whose configuration an agent can
// write.
func (f Forge) api(method, endpoint string, fields ...string) Call {
	args := []string{"api", "--hostname", f.Host, "--method", method}
	for _, field := range fields {
		args = append(args, "--raw-field", field)
	}
	return Call{Args: append(args, "projects/"+url.PathEscape(f.Path)+endpoint)}
}

// repo names the repository for gh.
func (f Forge) repo() string { return f.Host + "/" + f.Path }

// Install says how the operator gets the program of the forge.
func (f Forge) Install() string {
	if f.Program == programGlab {
		return "install glab (https://gitlab.com/gitlab-org/cli), then: glab auth login --hostname " + f.Host
	}
	return "install gh (https://cli.github.com), then: gh auth login --hostname " + f.Host
}

// Package forge talks to the place where a repository is hosted, GitHub or GitLab: it opens pull requests, and reads what
// became of them. The programs gh and glab make the requests, with their own logins, outside of any repository. What
// people wrote there is foreign text; Feedback says whose text counts.
//
// No function tries again or waits. An *Unavailable says that the caller may try later; every other error stays until
// somebody does something.
package forge

import (
	"net/url"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

// Forge is a repository on a host, and the program that knows the host.
type Forge struct{ Program, Host, Path string }

// The programs that know a forge.
const (
	GH   = "gh"
	Glab = "glab"
)

// scp matches the address of ssh without a scheme: [user@]host:path.
var scp = pattern.Lazy(`^(?:[A-Za-z0-9._-]+@)?([A-Za-z0-9.-]+):([^/].*|/[^/].*)$`)

// Of reads the address of a remote. env is the environment of the user: GH_HOST and GITLAB_HOST name a host of their
// own. ok is false for an address that has no host, such as a path, or whose host no program is known for; then Host and
// Path are what is known. Host has the port of an https address that names one.
func Of(remote string, env func(string) string) (f Forge, ok bool) {
	if u, err := url.Parse(remote); err == nil && (u.Scheme == "https" || u.Scheme == "ssh") && u.Hostname() != "" {
		f.Host, f.Path = u.Hostname(), u.Path
		if u.Scheme == "https" {
			f.Host = strings.TrimSuffix(u.Host, ":443")
		}
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
		f.Program = GH
	case strings.EqualFold(host, strings.TrimPrefix(env("GITLAB_HOST"), "https://")):
		f.Program = Glab
	case strings.Contains(host, "github"), strings.HasSuffix(host, ".ghe.com"):
		f.Program = GH
	case strings.Contains(host, "gitlab"):
		f.Program = Glab
	}
	if f.Program == GH && strings.Count(f.Path, "/") != 1 {
		return f, false
	}
	return f, f.Program != ""
}

var hostname = pattern.Lazy(`^[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?$`)

// slug matches the path of a repository on a host: OWNER/REPO, for GitLab with groups between the two.
var slug = pattern.Lazy(`^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$`)

// Root returns the path of the repository in the interface of its forge.
func (f Forge) Root() string {
	if f.Program == Glab {
		return "projects/" + url.PathEscape(f.Path)
	}
	return "repos/" + f.Path
}

// Install says how the operator gets the program of the forge.
func (f Forge) Install() string {
	if f.Program == Glab {
		return "install glab (https://gitlab.com/gitlab-org/cli), then: " + f.Program + " auth login --hostname " + f.Host
	}
	return "install gh (https://cli.github.com), then: " + f.Program + " auth login --hostname " + f.Host
}

// look is the command that shows whether the operator sees the repository.
func (f Forge) look() string {
	return f.Program + " api --hostname " + f.Host + " " + f.Root()
}

// owner is the first part of the path.
func (f Forge) owner() string {
	owner, _, _ := strings.Cut(f.Path, "/")
	return owner
}

package recovery

import (
	"slices"
	"strings"
)

// gitGlobals are the options that git takes in front of its own command, as in "git --no-pager log".
var gitGlobals = grammar{"C:c:pPhv", "exec-path git-dir: work-tree: namespace: super-prefix: config-env: attr-source: list-cmds paginate no-pager bare no-replace-objects no-lazy-fetch no-optional-locks no-advice literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs html-path man-path info-path version help"}

// git finds the programs that a git command line runs besides git itself.
func (c call) git() {
	options, rest, ok := gitGlobals.split(c.args, false)
	if !ok {
		c.unclear("the options of git are not all understood")
		return
	}
	for _, o := range options {
		switch {
		case o.name == "-c" && !tameGitConfig(o.value), o.name == "--config-env", o.name == "--exec-path" && o.value.text != "":
			c.unclear("git gets a setting that can run commands")
		case o.name == "-p" || o.name == "--paginate":
			c.unclear("git runs a pager")
		}
	}
	if len(rest) == 0 {
		return
	}
	verb, args := rest[0], rest[1:]
	if !verb.known || !listed(gitVerbs, verb.text) {
		c.unclear("it may be an alias of git, and those can run commands")
		return
	}
	sub := call{c.reader, "git " + verb.text, args, c.text, c.depth}
	for _, a := range args {
		name, _, _ := strings.Cut(a.text, "=")
		switch {
		case strings.Contains(a.text, "ext::"), len(name) > 5 && (strings.HasPrefix("--upload-pack", name) || strings.HasPrefix("--receive-pack", name)),
			name == "--ext-diff", name == "--textconv", strings.HasPrefix(a.text, "--open-files-in-pager"), verb.text == "grep" && strings.HasPrefix(a.text, "-O"):
			sub.unclear("git runs a program that an argument names")
		}
	}
	sub.gitVerb(verb.text)
}

func (c call) gitVerb(verb string) {
	switch verb {
	case "submodule":
		if i := c.index("foreach"); i >= 0 {
			rest := c.args[i+1:]
			for len(rest) > 0 && rest[0].known && (rest[0].text == "--recursive" || rest[0].text == "-q" || rest[0].text == "--quiet") {
				rest = rest[1:]
			}
			c.body(joinedWord(rest))
		}
	case "rebase":
		for i, a := range c.args {
			name, value, inline := strings.Cut(a.text, "=")
			switch {
			case inline && len(name) > 3 && strings.HasPrefix("--exec", name):
				c.body(word{text: value, known: a.known})
			case (a.text == "-x" || len(name) > 3 && strings.HasPrefix("--exec", name)) && i+1 < len(c.args):
				c.body(c.args[i+1])
			case strings.HasPrefix(a.text, "-x") && len(a.text) > 2:
				c.body(word{text: a.text[2:], known: a.known})
			case strings.HasPrefix(a.text, "-i") || strings.HasPrefix(a.text, "--i"):
				c.unclear("git runs an editor")
			}
		}
	case "bisect":
		if i := c.index("run"); i >= 0 {
			c.inner(c.args[i+1:])
		}
	case "clone":
		for i, a := range c.args {
			name, value, inline := strings.Cut(a.text, "=")
			switch {
			case (a.text == "-c" || name == "--config" && !inline) && (i+1 == len(c.args) || !tameGitConfig(c.args[i+1])),
				name == "--config" && inline && !tameGitConfig(literal(value)), strings.HasPrefix(a.text, "-c") && len(a.text) > 2 && !tameGitConfig(literal(a.text[2:])):
				c.unclear("git gets a setting that can run commands")
			}
		}
	case "config":
		if len(c.args) > 1 && !c.has("--get", "--get-all", "--list", "-l", "get", "list", "--get-regexp") {
			c.unclear("git config can set what git runs later")
		}
	case "clean":
		c.state(c.text) // superloop's files may be untracked, so git clean may delete them
	case "filter-branch", "difftool", "mergetool", "instaweb", "send-email", "daemon", "shell", "cvsserver", "http-backend", "p4", "svn", "var", "remote-ext", "hook", "maintenance":
		c.unclear(c.name + " runs other programs")
	}
}

func (c call) index(text string) int {
	return slices.IndexFunc(c.args, func(w word) bool { return w.text == text })
}

// tameGitConfig reports whether a setting of git is known to run nothing.
func tameGitConfig(w word) bool {
	name, _, _ := strings.Cut(strings.ToLower(w.before()), "=")
	tame := begins(name, "user.", "author.", "committer.", "color.", "advice.", "push.", "pull.", "init.", "fetch.", "merge.ff", "rebase.auto", "http.version", "http.postbuffer",
		"core.autocrlf", "core.longpaths", "core.quotepath", "core.filemode", "core.ignorecase", "core.eol", "safe.directory", "commit.gpgsign=false", "gc.auto", "protocol.version")
	runs := strings.Contains(name, "command") || strings.Contains(name, "pager") || strings.Contains(name, "program")
	return tame && !runs || name == "commit.gpgsign" || name == "tag.gpgsign"
}

// gitVerbs are git's own commands. Any other word may be an alias.
const gitVerbs = "add am annotate apply archive " +
	"bisect blame branch bundle cat-file check-attr check-ignore checkout checkout-index cherry cherry-pick clean " +
	"clone commit commit-tree config count-objects cvsserver daemon describe diff diff-files diff-index diff-tree " +
	"difftool fast-export fast-import fetch filter-branch for-each-ref format-patch fsck gc grep hash-object help " +
	"hook http-backend init instaweb log ls-files ls-remote ls-tree maintenance merge merge-base merge-file " +
	"mergetool mktree mv name-rev notes p4 pack-refs prune pull push range-diff read-tree rebase reflog remote " +
	"remote-ext repack replace request-pull rerere reset restore rev-list rev-parse revert rm send-email shell " +
	"shortlog show show-ref sparse-checkout stash status stripspace submodule svn switch symbolic-ref tag " +
	"update-index update-ref var verify-commit verify-tag version whatchanged worktree write-tree"

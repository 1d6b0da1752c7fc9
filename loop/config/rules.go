package config

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/schemas"
)

// argumentNames returns the placeholders that a runner's arguments may hold.
func argumentNames() []string {
	return []string{"repo", "prompt_file", "last_message_file", "model", "loop", "iteration", "role", "prompt", "thinking", "loop_dir"}
}

// checkNames returns the placeholders that the path of a prerequisite may hold.
func checkNames() []string { return []string{"repo", "loop", "loop_id", "iteration"} }

// placeholders warns of {words} in s that are not among the known placeholders, since superloop does not replace them.
// It ignores JSON and variables of a shell such as ${HOME}.
func (b *builder) placeholders(ptr, s string, known []string) {
	if t := strings.TrimSpace(s); strings.Contains(t, `{"`) || (strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[")) && json.Valid([]byte(t)) {
		return
	}
	for _, m := range word().FindAllStringSubmatch(s, -1) {
		if m[1] == "" && !slices.Contains(known, m[2]) {
			b.placeholder(ptr, m[2], known)
		}
	}
}

// word matches a {word} that looks like a placeholder, with the $ before it if it is a variable of a shell.
var word = pattern.Lazy(`(\$?)\{([A-Za-z_][A-Za-z0-9_]*)\}`)

func (b *builder) placeholder(ptr, name string, known []string) {
	if b.doc.Secret(ptr) {
		b.warn(ptr, CodePlaceholder, "the value holds a {word} that is not a placeholder and stays as it is")
		return
	}
	message, near := fmt.Sprintf("{%s} is not a placeholder and stays as it is", name), schemas.Nearest(name, known)
	if near != "" {
		message += fmt.Sprintf("; did you mean {%s}?", near)
	}
	b.warnings = append(b.warnings, placed(b.doc, ptr, Problem{Code: CodePlaceholder, Found: "{" + name + "}",
		Allowed: "{" + strings.Join(known, "}, {") + "}", Near: near, Message: message}))
}

// globs checks the syntax of globs. It checks each path segment separately, so ** is a segment of its own.
func (b *builder) globs(at string, list []string) {
	for i, g := range list {
		for seg := range strings.SplitSeq(g, "/") {
			if _, err := path.Match(seg, ""); err != nil {
				b.wrong(at+Pointer(i), Problem{Code: schemas.CodeBadFormat, Found: quoted(g), Allowed: "a glob",
					Message: fmt.Sprintf("the glob %s is not one: %s is broken (a bracket is not closed, or a backslash ends it)", quoted(g), quoted(seg))})
				break
			}
		}
	}
}

func (b *builder) prerequisites(p *Prerequisites, at string) {
	ids := map[string]int{}
	for i := range p.Checks {
		c, ptr := &p.Checks[i], at+Pointer("checks", i)
		if !b.present(ptr + "/min_chars") {
			c.MinChars = 1
		}
		if c.ID == "" {
			c.ID = c.Type + ":" + c.Path
		} else if j, dup := ids[c.ID]; dup {
			b.warn(ptr+"/id", CodeDuplicate, fmt.Sprintf("the id %s is that of checks[%d] already: the results cannot be told apart", quoted(c.ID), j))
		}
		ids[c.ID] = i
		b.placeholders(ptr+"/path", c.Path, checkNames())
		b.check(ptr, *c)
	}
	if len(p.Checks) > 0 {
		return
	}
	if p.Checks = nil; p.Enabled && !b.named(at+"/checks") {
		b.warn(at, CodeNoEffect, "prerequisites are enabled but there is no check")
	}
}

// check checks that a prerequisite has the keys that its type needs, and that its pattern compiles.
func (b *builder) check(at string, c Check) {
	needs := func(key, what string) {
		b.wrong(at+"/"+key, emptyKey(key, fmt.Sprintf("a check of type %s needs %s", c.Type, what)))
	}
	switch c.Type {
	case "file_regex_present", "file_regex_absent":
		if c.Pattern == "" {
			needs("pattern", "a regular expression")
			return
		}
		if _, err := regexp.Compile(c.expression()); err != nil {
			why := err.Error()
			if se, ok := err.(*syntax.Error); ok {
				why = string(se.Code) + ": " + quoted(se.Expr)
			}
			b.wrong(at+"/pattern", Problem{Code: schemas.CodeBadFormat, Found: quoted(c.Pattern),
				Allowed: "a regular expression in RE2 syntax (no lookahead, no backreference)",
				Message: fmt.Sprintf("the regular expression does not compile: %s (RE2: no lookahead, no backreference)", why)})
		}
	case "file_contains_all", "file_not_contains_any":
		if len(c.Needles) == 0 {
			needs("needles", "texts to look for")
		}
	}
}

// expression returns the pattern with those of its flags that RE2 supports here: i, m and s.
func (c Check) expression() string {
	flags := strings.Map(func(f rune) rune {
		if strings.ContainsRune("ims", f) {
			return f
		}
		return -1
	}, c.Flags)
	if flags == "" {
		return c.Pattern
	}
	return "(?" + flags + ")" + c.Pattern
}

// promptOnly checks that a loop whose spec is the prompt has one role: the same prompt would start each of several.
func (b *builder) promptOnly(l *Loop, at string) {
	if l.PromptOnly && len(l.Roles) != 1 {
		b.wrong(at+"/prompt_only", Problem{Code: schemas.CodeCombination, Found: fmt.Sprintf("%d roles", len(l.Roles)), Allowed: `one role, such as "roles": ["implementer"]`,
			Message: fmt.Sprintf(`prompt_only makes the spec the prompt of the only role, but this loop has %d roles; write "roles": ["implementer"], or take prompt_only away`, len(l.Roles))})
	}
}

// ends warns of a loop without a bound and of a loop that can never complete. A promise that holds </promise> is a
// problem.
func (b *builder) ends(l *Loop, at string) {
	if l.MaxIterations == 0 && l.MaxWallTime == 0 && !b.named(at+"/max_iterations") && !b.named(at+"/max_wall_time") {
		b.warn(at, CodeNoBound, "nothing bounds this loop; set max_iterations or max_wall_time")
	}
	switch promise := l.CompletionPromise; {
	case promise == "" && !b.named(at+"/completion_promise"):
		b.warn(at, CodeNoEffect, "there is no completion_promise, so the loop can never complete")
	case strings.Contains(promise, "</promise>"):
		b.wrong(at+"/completion_promise", Problem{Code: schemas.CodeBadFormat, Found: quoted(promise), Allowed: "text without </promise>",
			Message: "the promise holds </promise>, so no agent can give it"})
	}
	if l.Approval.Enabled && !l.Approval.RequireOnCompletion {
		b.warn(at+"/approval", CodeNoEffect, "approval is enabled but not required, so nobody is asked; set require_on_completion to true")
	}
}

// webhook warns of a webhook on another machine without https. superloop sends nothing to such a webhook, because its
// URL is a secret and would travel unencrypted.
func (b *builder) webhook(raw string) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || u.Hostname() == "localhost" || loopback(u.Hostname()) {
		return
	}
	b.warn("/webhooks/on_escalation", CodePlainHTTP, "the webhook is not https, so its secret and what it tells would travel in the open: nothing is sent to it")
}

// loopback reports whether a host is a loopback IP address.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

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
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/schemas"
)

// argumentNames are the placeholders of a runner's arguments.
func argumentNames() []string {
	return []string{"repo", "prompt_file", "last_message_file", "model", "loop", "iteration", "role", "prompt", "thinking", "loop_dir"}
}

// checkNames are the placeholders of a prerequisite's path.
func checkNames() []string { return []string{"repo", "loop", "loop_id", "iteration"} }

// placeholders warns of {words} that nothing replaces. They stay as they are,
// so JSON and shell variables in an argument are left alone.
func (b *builder) placeholders(ptr, s string, known []string) {
	if t := strings.TrimSpace(s); strings.Contains(t, `{"`) || (strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[")) && json.Valid([]byte(t)) {
		return
	}
	for rest := s; ; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			return
		}
		end := strings.IndexByte(rest[open:], '}')
		if end < 0 {
			return
		}
		name, before := rest[open+1:open+end], rest[:open]
		rest = rest[open+1:]
		if !isName(name) || strings.HasSuffix(before, "$") {
			continue
		}
		b.placeholder(ptr, name, known)
	}
}

func (b *builder) placeholder(ptr, name string, known []string) {
	if slices.Contains(known, name) {
		return
	}
	if b.doc.Secret(ptr) {
		b.warn(ptr, CodePlaceholder, "the value holds a {word} that is not a placeholder and stays as it is")
		return
	}
	message := fmt.Sprintf("{%s} is not a placeholder and stays as it is", name)
	near := schemas.Nearest(name, known)
	if near != "" {
		message += fmt.Sprintf("; did you mean {%s}?", near)
	}
	b.warnings = append(b.warnings, b.at(ptr, Problem{Code: CodePlaceholder, Found: "{" + name + "}",
		Allowed: "{" + strings.Join(known, "}, {") + "}", Near: near, Message: message}))
}

// isName reports whether s is a word of letters, digits and '_'.
func isName(s string) bool {
	for i, r := range s {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return s != ""
}

// globs checks the syntax of globs; ** is a segment of its own.
func (b *builder) globs(at string, list []string) []string {
	for i, g := range list {
		for seg := range strings.SplitSeq(g, "/") {
			if _, err := path.Match(seg, ""); err != nil {
				b.wrong(at+pointer(i), Problem{Code: schemas.CodeBadFormat, Found: quoted(g), Allowed: "a glob",
					Message: fmt.Sprintf("the glob %s is not one: %s is broken (a bracket is not closed, or a backslash ends it)", quoted(g), quoted(seg))})
				break
			}
		}
	}
	return list
}

func (b *builder) prerequisites(l fileLoop, at string) Prerequisites {
	p := Prerequisites{Enabled: l.Prerequisites.Enabled, RequireOnCompletion: l.Prerequisites.RequireOnCompletion}
	ids := map[string]int{}
	for i, in := range l.Prerequisites.Checks {
		ptr := at + pointer("checks", i)
		c := Check{ID: in.ID, Type: in.Type, Path: in.Path, Pattern: in.Pattern, Flags: in.Flags, Needles: in.Needles, MinChars: 1}
		if in.MinChars != nil {
			c.MinChars = *in.MinChars
		}
		if c.ID == "" {
			c.ID = c.Type + ":" + c.Path
		} else if j, dup := ids[c.ID]; dup {
			b.warn(ptr+"/id", CodeDuplicate, fmt.Sprintf("the id %s is that of checks[%d] already: the results cannot be told apart", quoted(c.ID), j))
		}
		ids[c.ID] = i
		b.placeholders(ptr+"/path", c.Path, checkNames())
		b.check(ptr, c)
		p.Checks = append(p.Checks, c)
	}
	if p.Enabled && len(p.Checks) == 0 && !b.named(at+"/checks") {
		b.warn(at, CodeNoEffect, "prerequisites are enabled but there is no check")
	}
	return p
}

// check wants of each type what it looks for.
func (b *builder) check(at string, c Check) {
	needs := func(key, what string) {
		b.wrong(at+"/"+key, Problem{Code: schemas.CodeMissingKey, Found: "nothing", Allowed: quoted(key),
			Message: fmt.Sprintf("a check of type %s needs %s: the key %s is missing or empty", c.Type, what, quoted(key))})
	}
	switch c.Type {
	case "file_regex_present", "file_regex_absent":
		if c.Pattern == "" {
			needs("pattern", "a regular expression")
			return
		}
		if _, err := regexp.Compile(c.expression()); err != nil {
			message := "the regular expression does not compile: " + err.Error()
			if se, ok := err.(*syntax.Error); ok {
				message = fmt.Sprintf("the regular expression does not compile: %s: %s", se.Code, quoted(se.Expr))
			}
			b.wrong(at+"/pattern", Problem{Code: schemas.CodeBadFormat, Found: quoted(c.Pattern),
				Allowed: "a regular expression in RE2 syntax (no lookahead, no backreference)", Message: message + " (RE2: no lookahead, no backreference)"})
		}
	case "file_contains_all", "file_not_contains_any":
		if len(c.Needles) == 0 {
			needs("needles", "texts to look for")
		}
	}
}

// expression is the pattern with those of its flags that mean something here.
func (c Check) expression() string {
	flags := ""
	for _, f := range "ims" {
		if strings.ContainsRune(c.Flags, f) {
			flags += string(f)
		}
	}
	if flags == "" {
		return c.Pattern
	}
	return "(?" + flags + ")" + c.Pattern
}

// ends warns of a loop that nothing ends, or that cannot end well.
func (b *builder) ends(l fileLoop, at string) {
	if l.MaxIterations == 0 && l.MaxWallTime.d == 0 && !b.named(at+"/max_iterations") && !b.named(at+"/max_wall_time") {
		b.warn(at, CodeNoBound, "nothing bounds this loop; set max_iterations or max_wall_time")
	}
	promise := strings.TrimSpace(l.CompletionPromise)
	switch {
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

// webhook warns of a secret that would travel in the open, and of news that
// therefore do not.
func (b *builder) webhook(raw string) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" {
		return
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return
	}
	b.warn("/webhooks/on_escalation", CodePlainHTTP, "the webhook is not https, so its secret and what it tells would travel in the open: nothing is sent to it")
}

// quoted writes a value for a message, shortened.
func quoted(s string) string { return strconv.Quote(text.Cut(s, 63)) }
